"""The kit's plugin, packed for two other operators that are installed and crash, with real answers.

One is on the runtime, the other on plain kopf. Nodes are simulated, down to the logs that the API
server fetches from them. examples/etcd/tests/faults has the plugin beside an operator that works.
"""

import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from chart import helm
from kopf_kit.project import documents, nested
from kopf_kit.project.definition import load
from kopf_kit.rig import paths, tools
from kopf_kit.rig.control_plane import ADMIN, ControlPlane
from kopf_kit.testing.api_server import kubectl
from kopf_kit.testing.requests import NODE, Raw, wait_until
from tests.support import control_plane
from tests.support.plugin import Plugin, support_bundle

pytestmark = pytest.mark.long  # each starts a control plane, and one kubectl after the other

HOME, TEAM = helm.NAMESPACE, "team"
TEXT = "the root password is swordfish"
#: As an operator logs what it was given, and what it was refused.
LOG = f"{TEXT[:20]}…\nBearer abc.def\nhttps://me:hunter2@proxy\nall else is well\n"
PROXY = {"name": "HTTPS_PROXY", "value": "http://me:hunter2@proxy"}
PACK = "import sys; from kopf_kit.release.krew import program; sys.stdout.buffer.write(program())"


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """Have a control plane of one's own, because the kinds stay in it."""
    with control_plane.running() as one:
        one.start_controllers(*control_plane.CONTROLLERS)
        yield one


@contextmanager
def node(plane: ControlPlane) -> Iterator[None]:
    """Have a node whose kubelet answers with the log, whichever it is asked for."""

    class Kubelet(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(LOG.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    trust = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    folder = plane.certificates
    trust.load_cert_chain(folder / "apiserver.crt", folder / "apiserver.key")
    with ThreadingHTTPServer(("127.0.0.1", 0), Kubelet) as server:
        server.socket = trust.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, daemon=True).start()
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": server.server_port}},
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        declared = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
        kubectl(plane, "create", "--filename=-", stdin=[declared])
        patch(plane, f"node/{NODE}", status)
        yield
        server.shutdown()


def patch(plane: ControlPlane, what: str, status: Raw, *where: str) -> None:
    """Write a status, as a kubelet does."""
    body = f"--patch={json.dumps({'status': status})}"
    kubectl(plane, "patch", what, "--subresource=status", "--type=merge", body, *where)


def crashing(plane: ControlPlane) -> None:
    """Have the operator's Pod crash."""
    get = partial(kubectl, plane, "get", "pods", f"--namespace={HOME}", "--output=name")
    pod = wait_until("the operator's Pod", get, bool).strip()
    ended = {"exitCode": 1, "reason": "Error", "message": f"no {TEXT}"}
    container = {
        "name": "operator",
        "image": "i",
        "imageID": "",
        "ready": False,
        "restartCount": 2,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
        "lastState": {"terminated": ended},
    }
    status = {"phase": "Running", "containerStatuses": [container]}
    patch(plane, pod, status, f"--namespace={HOME}")


def child(owner: Raw, operator: str) -> Raw:
    """Return a Pod that the operator made for an object."""
    meta = owner["metadata"]
    reference = {key: owner[key] for key in ("apiVersion", "kind")}
    reference |= {key: meta[key] for key in ("name", "uid")}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "made",
            "namespace": TEAM,
            "labels": {"app.kubernetes.io/managed-by": operator},
            "annotations": {"note": TEXT},
            "ownerReferences": [reference],
        },
        "spec": {"containers": [{"name": "main", "image": "i", "args": [TEXT]}]},
    }


@pytest.mark.parametrize(
    ("example", "kind", "spec"),
    [
        ("etcd", "EtcdCluster", {"pod": {"annotations": {"note": TEXT}}}),
        ("plain-kopf", "Note", {"text": TEXT}),
    ],
)
def test_an_operator_that_crashes_is_told_and_collected_without_secrets_and_texts(
    example: str, kind: str, spec: dict[str, Any], plane: ControlPlane, tmp_path: Path
) -> None:
    project = nested.ensure(load(paths.CHECKOUT / "examples" / example))
    (served,) = (served for served in project.kinds if served.kind == kind)
    name = f"{helm.RELEASE}-{project.name}"
    chart = [
        manifest
        for manifest in helm.render({"extraEnv": [PROXY]}, chart=project.chart)
        if manifest["kind"] != "Pod"  # that of `helm test`
    ]
    for manifest in chart:
        if manifest["kind"] == "Deployment":  # there is no scheduler
            manifest["spec"]["template"]["spec"]["nodeName"] = NODE
    namespaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in (HOME, TEAM)
    ]
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "mine", "namespace": TEAM},
        "stringData": {"password": "hunter2"},
    }
    sample = documents.load(project.samples[kind][0].read_text())
    sample["metadata"] = {"name": "sample", "namespace": TEAM}
    sample["spec"] |= spec
    kubectl(plane, "apply", "--filename=-", stdin=[*namespaces, secret])
    kubectl(plane, "apply", "--filename=-", stdin=chart)
    kubectl(plane, "wait", "--for=condition=Established", "crd", "--all")
    kubectl(plane, "apply", "--filename=-", stdin=[sample])
    owner = json.loads(
        kubectl(plane, "get", served.crd, "sample", f"--namespace={TEAM}", "--output=json")
    )
    kubectl(plane, "apply", "--filename=-", stdin=[child(owner, project.name)])
    packed = subprocess.run(
        [sys.executable, "-c", PACK],
        env={**os.environ, "PROJECT": f"examples/{example}"},
        cwd=paths.CHECKOUT,
        capture_output=True,
        check=True,
        timeout=300,
    )
    plugin = Plugin(tmp_path, tools.path("kubectl"), plane.kubeconfig(ADMIN), packed.stdout)
    file = tmp_path / "support.tar.gz"

    with node(plane):
        crashing(plane)
        status, doctor = plugin("status", "-A"), plugin("doctor")
        why = plugin("why", "sample", "-n", TEAM)
        bundle = plugin("support-bundle", "-f", str(file))

    assert (status.code, doctor.code, why.code, bundle.code) == (0, 1, 1, 0), bundle.err
    assert f"{kind.lower()}/sample" in status.out
    assert "no replica of the operator is ready" in doctor.out
    assert f"{HOME}/{name}" in doctor.out
    assert why.first == f"{kind} sample: no replica of the operator is ready."
    assert "CrashLoopBackOff" in why.part("Details")
    files = support_bundle(file)
    everything = "".join(files.values())
    assert files["missing.txt"] == ""
    assert not [text for text in ("root password", "hunter2", "abc.def") if text in everything]
    (collected,) = json.loads(files[f"{served.plural}.json"])
    assert TEXT in json.dumps(owner["spec"])
    assert "<hidden>" in json.dumps(collected["spec"])
    assert [pod["metadata"]["name"] for pod in json.loads(files["pods.json"])] == ["made"]
    folder = f"operators/{HOME}/{name}"
    (operator,) = json.loads(files[f"{folder}/deployment.json"])["spec"]["template"]["spec"][
        "containers"
    ]
    assert {**PROXY, "value": "<hidden>"} in operator["env"]
    assert "ScalingReplicaSet" in files[f"{folder}/events.json"]
    logs = [text for name, text in files.items() if name.startswith(f"{folder}/logs/")]
    assert [text.splitlines()[-1] for text in logs] == ["all else is well"] * 2  # and the former
    assert "no replica of the operator is ready" in files["doctor.txt"]
