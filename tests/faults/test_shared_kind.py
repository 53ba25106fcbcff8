"""The kind belongs to one release or to nobody: crds.yaml has it, and no Message is lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chart.helm import (
    CHART,
    NAMESPACE,
    RELEASE,
    HelmError,
    Manifest,
    helm,
    render,
)
from kopf_kit.olm.manifests import texts
from kopf_kit.project import documents
from kopf_kit.rig import tools
from kopf_kit.rig.control_plane import ADMIN, ControlPlane
from kopf_kit.testing.api_server import kubectl
from tests.support import control_plane
from tests.support.plugin import Plugin

CRD = "messages.myorg.dev"
KIND = (f"crd/{CRD}", *(f"clusterrole/{CRD}-{role}" for role in ("view", "edit", "admin")))
CRDS = documents.load_all(texts()["crds.yaml"])
MESSAGE: Manifest = {
    "apiVersion": "myorg.dev/v1",
    "kind": "Message",
    "metadata": {"name": "hello", "namespace": "default"},
}


class Release:
    """A release of the operator."""

    def __init__(self, plane: ControlPlane, program: str) -> None:
        self.plane = plane
        self.program = program

    def install(self, *options: str) -> None:
        """Install it, its namespace included."""
        self._helm("install", CHART, "--create-namespace", *options)

    def upgrade(self, *options: str) -> None:
        """Upgrade it as the README does."""
        self._helm("upgrade", CHART, "--reset-then-reuse-values", *options)

    def uninstall(self) -> None:
        """Remove it, if it is there."""
        self._helm("uninstall", "--ignore-not-found")

    def _helm(self, verb: str, *arguments: str | Path) -> None:
        where = ("--namespace", NAMESPACE, "--kubeconfig", self.plane.kubeconfig(ADMIN))
        helm(verb, RELEASE, *arguments, *where, program=self.program)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """Have an API server that knows no Message yet."""
    with control_plane.running() as one:
        yield one


@pytest.fixture(params=["helm3", "helm4"])
def operator(plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Release]:
    """A release of the operator, not installed yet; the kind goes at the end."""
    release = Release(plane, request.param)
    yield release
    release.uninstall()
    kubectl(plane, "delete", "--ignore-not-found", *KIND)


@pytest.mark.long
def test_the_kind_leaves_a_release_and_comes_back(operator: Release) -> None:
    operator.install()
    message = declare(operator.plane)

    operator.upgrade("--set=crds.install=false")
    assert uid(operator.plane) == message
    kubectl(operator.plane, "apply", "--filename=-", stdin=CRDS)
    operator.upgrade()
    assert uid(operator.plane) == message

    forced = ["--force-conflicts"] if operator.program == "helm4" else []
    operator.upgrade("--set=crds.install=true", "--take-ownership", *forced)
    operator.uninstall()
    assert uid(operator.plane) == message


def test_a_release_beside_crds_yaml_does_not_take_the_kind_unless_it_is_told(
    operator: Release,
) -> None:
    kubectl(operator.plane, "apply", "--filename=-", stdin=CRDS)
    message = declare(operator.plane)

    with pytest.raises(HelmError, match="invalid ownership metadata"):
        operator.install()

    operator.upgrade("--install", "--create-namespace", "--set=crds.install=false")
    operator.uninstall()
    assert uid(operator.plane) == message


def declare(plane: ControlPlane) -> str:
    """Declare a Message; return its uid."""
    kubectl(plane, "wait", "--for=condition=Established", f"crd/{CRD}")
    kubectl(plane, "apply", "--filename=-", stdin=[MESSAGE])
    return uid(plane)


def uid(plane: ControlPlane) -> str:
    """Return the uid of the Message."""
    return kubectl(plane, "get", "message/hello", "--output=jsonpath={.metadata.uid}")


def test_kubectl_prunes_no_kind_that_is_no_longer_applied(plane: ControlPlane) -> None:
    manifests = [m for m in render() if m["kind"] != "Pod"]  # without that of `helm test`
    ours = f"--selector=app.kubernetes.io/name={CHART.name}"
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    kubectl(plane, "apply", "--filename=-", stdin=[home, *manifests])
    message = declare(plane)
    rest = [m for m in manifests if not m["metadata"]["name"].startswith(CRD)]
    rest = [m for m in rest if m["kind"] != "Service"]

    said = kubectl(plane, "apply", "--prune", ours, "--filename=-", stdin=rest)

    assert "service/demo-message-operator-metrics pruned" in said
    assert uid(plane) == message
    # It deletes what one names to it, whatever annotations there are: docs/install.md says so.
    crds = "--prune-allowlist=apiextensions.k8s.io/v1/CustomResourceDefinition"
    command = ("apply", "--prune", crds, ours, "--dry-run=server", "--filename=-")
    assert f"{CRD} pruned (server dry run)" in kubectl(plane, *command, stdin=rest)
    kubectl(plane, "delete", "--ignore-not-found", "--filename=-", stdin=manifests)


def test_the_plugin_says_that_the_kind_is_missing(plane: ControlPlane, tmp_path: Path) -> None:
    plugin = Plugin(tmp_path, tools.path("kubectl"), plane.kubeconfig(ADMIN))

    status, doctor = plugin("status"), plugin("doctor")

    assert (status.code, status.err.splitlines()[0]) == (
        3,
        "kubectl message: The cluster does not know the kind Message: its CRD is missing.",
    )
    assert doctor.code == 1
    assert "✗ Kind         the CRD messages.myorg.dev is missing" in doctor.out
    assert "✗ Operator     no operator is installed" in doctor.out
    assert "runbooks.md#messageoperatorunserved" in doctor.out
