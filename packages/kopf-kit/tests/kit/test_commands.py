"""What the commands say of what they are asked for, what they find, and what they run."""

import json
import ssl
import sys
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from kopf_kit import __main__
from kopf_kit.cli import crd, deploy, e2e, push
from kopf_kit.cli.crd import NAMESPACE, RELEASE
from kopf_kit.project import documents, registered
from kopf_kit.project.definition import PROJECT
from kopf_kit.project.registered import Webhook
from kopf_kit.release import artifacts
from kopf_kit.release.artifacts import Published
from kopf_kit.rig import cluster as clusters
from kopf_kit.rig import olm, paths
from kopf_kit.rig.cluster import Cluster
from kopf_kit.rig.run import KitError
from kopf_kit.rig.steps import Step

OURS = f"{crd.NAMESPACE}/{crd.RELEASE}"


def test_an_unknown_tool_is_refused_with_one_list_of_the_tools(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["kopf-kit", "tool", "nosuch"])

    assert __main__.main() == 2

    said = capsys.readouterr().err
    assert (said.count("scorecard-test"), said.count("\n")) == (1, 1)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """Stand in for a cluster without operators, whose CRD is of the release in the file `owner`."""
    program = tmp_path / "program"
    program.write_text(
        f"""#!/bin/sh
        case "$*" in
          *deployments*) echo '{{"items": []}}' ;;
          *release-name*) cat {tmp_path}/owner ;;
          *version*) echo v3.18.0 ;;
        esac
        """
    )
    program.chmod(0o755)
    return Cluster("here", tmp_path / "kubeconfig", None, program, program, None, existing=True)


@pytest.mark.parametrize(
    ("owner", "is_told"), [("kinds/crds", True), (OURS, False), ("/", False), ("", False)]
)
def test_deploy_says_whose_crd_it_takes_over(
    owner: str,
    is_told: bool,
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "owner").write_text(owner)
    monkeypatch.setattr(artifacts, "publish_installation", lambda _: Published("chart", ()))

    deploy.install(cluster)

    said = capsys.readouterr().err
    assert (f"is marked as part of the Helm release {owner}; it becomes" in said) == is_told
    assert ("note:" in said) == is_told


#: Keeps what is applied in a file beside it, and shows the certificate of that.
_KUBECTL = """\
#!{python}
import base64, sys, yaml
from pathlib import Path
file = Path(__file__).with_name("applied")
if "apply" in sys.argv:
    file.write_text(sys.stdin.read())
elif not file.exists():
    sys.exit("Error from server (NotFound)")
else:
    *_, secret = yaml.safe_load_all(file.read_text())
    print(base64.b64encode(secret["stringData"]["tls.crt"].encode()).decode())
"""


def test_in_a_kind_cluster_webhooks_get_a_certificate_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(_KUBECTL.format(python=sys.executable))
    kubectl.chmod(0o755)
    kind = Cluster("a", tmp_path / "a", None, kubectl, kubectl, "localhost:5001", existing=False)
    theirs = Cluster("b", tmp_path / "b", None, kubectl, kubectl, None, existing=True)
    work = Step("deploy", tmp_path / "log")
    assert deploy._certificate(kind, work) == []  # of an operator on the runtime, which makes it

    handler = Webhook("validating", "/validating/a", {}, "a")
    monkeypatch.setattr(registered, "of", lambda _: [handler])
    assert deploy._certificate(theirs, work) == []
    first, again = deploy._certificate(kind, work), deploy._certificate(kind, work)

    assert first == again
    option, values = map(str, first)
    webhooks = json.loads(values.removeprefix("webhooks="))
    assert (option, webhooks["certificate"]) == ("--set-json", "secret")
    namespace, secret = documents.load_all((tmp_path / "applied").read_text())
    assert namespace["metadata"]["name"] == secret["metadata"]["namespace"] == NAMESPACE
    assert secret["metadata"]["name"] == webhooks["secretName"]
    (trusted,) = ssl.create_default_context(cadata=webhooks["caBundle"]).get_ca_certs()
    assert trusted["subjectAltName"] == (("DNS", f"{RELEASE}-webhook.{NAMESPACE}.svc"),)


@pytest.mark.parametrize(
    ("codes", "result"),
    [
        ([0, 0], 0),
        ([1, 0], 1),
        ([0, 1], 1),
        ([0, 5], 0),
        ([5, 1], 1),
        ([5, 5], 5),
        ([-9, 0, 0], 137),
        ([-15, 5], 143),
    ],
)
def test_a_run_that_fails_or_is_killed_fails_all_and_one_without_tests_does_not(
    codes: list[int], result: int
) -> None:
    assert e2e.result(codes) == result


def test_an_operator_without_tests_has_its_samples_applied_and_without_those_of_olm_helms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def run(*words: str, **_: str) -> int:
        ran.extend(words)
        return 0

    cluster = SimpleNamespace(existing=False, kubeconfig=tmp_path / "kubeconfig")
    monkeypatch.setattr(clusters, "up", lambda _: cluster)
    monkeypatch.setattr(olm, "up", lambda _: cluster)
    monkeypatch.setattr(paths, "CHECKOUT", tmp_path)
    monkeypatch.setattr(e2e, "_TESTS", tmp_path / "tests")
    monkeypatch.setattr(e2e, "PROJECT", msgspec.structs.replace(PROJECT, root=tmp_path))
    monkeypatch.setattr(e2e, "run_pytest", run)

    assert e2e.run(["-x"]) == 0
    own, by_olm = tmp_path / "tests" / "e2e", tmp_path / "tests" / "olm"
    own.mkdir(parents=True)
    assert e2e.run([]) == 0
    assert e2e.run_olm([]) == 0
    by_olm.mkdir()
    assert e2e.run_olm([]) == 0

    assert ran[0].endswith("/kopf_kit/testing/smoke.py")
    assert ran[2:] == ["-x", *map(str, (own, own, "--by-olm", by_olm))]


def test_a_repository_without_files_of_olm_is_told_what_adds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push, "PROJECT", msgspec.structs.replace(PROJECT, root=tmp_path))

    with pytest.raises(KitError, match="`kopf-kit new olm` adds them"):
        e2e.run_olm([])
