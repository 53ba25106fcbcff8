"""The operator's certificate, which the tests make as an administrator would."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from kopf_kit.rig.cluster import Cluster

NAME = "memcached-operator"


@pytest.fixture(scope="session")
def helm_options(e2e_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Sequence[str]:
    folder: Path = tmp_path_factory.mktemp("certificate")
    certificate, key = folder / "tls.crt", folder / "tls.key"
    host = f"DNS:{NAME}-webhook.{NAME}.svc"
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    made = ("-subj", f"/CN={NAME}", "-addext", f"subjectAltName={host}", "-days", "2")
    files = ("-keyout", key, "-out", certificate)
    kubectl = [*e2e_cluster.kubectl_command, "create"]
    subprocess.run(["openssl", "req", "-x509", *curve, *made, *files], check=True)  # noqa: S603, S607
    subprocess.run([*kubectl, "namespace", NAME], check=False)  # noqa: S603
    secret = (
        "secret",
        "tls",
        "ours",
        f"--cert={certificate}",
        f"--key={key}",
        f"--namespace={NAME}",
    )
    subprocess.run([*kubectl, *secret], check=True)  # noqa: S603
    return (
        "--set=webhooks.certificate=secret",
        "--set=webhooks.secretName=ours",
        f"--set-file=webhooks.caBundle={certificate}",
    )
