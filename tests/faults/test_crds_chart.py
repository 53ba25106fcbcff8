"""The chart of the kind alone: installed, upgraded, and the kind moved; no Message is lost."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kopf_kit.rig import tools
from kopf_kit.rig.control_plane import ADMIN, ControlPlane
from kopf_kit.testing.kubectl import kubectl
from tests.chart.helm import (
    CHART,
    CRDS_CHART,
    NAMESPACE,
    HelmError,
    Manifest,
    helm,
    render,
)
from tests.support import control_plane
from tests.support.plugin import Plugin

CRD = "messages.myorg.dev"
KIND = (f"crd/{CRD}", *(f"clusterrole/{CRD}-{role}" for role in ("view", "edit", "admin")))
MESSAGE: Manifest = {
    "apiVersion": "myorg.dev/v1",
    "kind": "Message",
    "metadata": {"name": "hello", "namespace": "default"},
}


class Release:
    """A release, whose name is its namespace's, too."""

    def __init__(self, plane: ControlPlane, program: str, chart: Path, name: str) -> None:
        self.plane = plane
        self.program = program
        self.chart = chart
        self.name = name

    def install(self, *options: str) -> None:
        """Install it, its namespace included."""
        self._helm("install", self.name, str(self.chart), "--create-namespace", *options)

    def upgrade(self, *options: str, chart: Path | None = None) -> None:
        """Upgrade it as the READMEs do, perhaps to another chart."""
        to = str(chart or self.chart)
        self._helm("upgrade", self.name, to, "--reset-then-reuse-values", *options)

    def rollback(self) -> None:
        """Go back to what was before the last upgrade."""
        self._helm("rollback", self.name)

    def uninstall(self) -> None:
        """Remove it, if it is there."""
        self._helm("uninstall", self.name, "--ignore-not-found")

    def refusal(self, *options: str) -> str:
        """Return what Helm says when it refuses to install it."""
        with pytest.raises(HelmError) as error:
            self.install(*options)
        return str(error.value)

    def _helm(self, *arguments: str) -> None:
        where = ("--namespace", self.name, "--kubeconfig", self.plane.kubeconfig(ADMIN))
        helm(*arguments, *where, program=self.program)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """Have an API server that knows no Message yet."""
    with control_plane.running() as one:
        yield one


@pytest.fixture
def program() -> str:
    """Helm 4, except where a test asks for both."""
    return "helm4"


@pytest.fixture
def kind(plane: ControlPlane, program: str) -> Iterator[Release]:
    """A release of the kind alone, not installed yet; the kind goes at the end."""
    release = Release(plane, program, CRDS_CHART, f"kind-{program}")
    yield release
    release.uninstall()
    kubectl(plane, "delete", "--ignore-not-found", *KIND)


@pytest.fixture
def operator(kind: Release) -> Iterator[Release]:
    """A release of the operator beside it, not installed yet."""
    release = Release(kind.plane, kind.program, CHART, f"operator-{kind.program}")
    yield release
    release.uninstall()


def owners(plane: ControlPlane) -> set[str]:
    """Return the releases that the kind and its roles belong to; fail if one is missing."""
    found = json.loads(kubectl(plane, "get", "--output=json", *KIND))["items"]
    return {manifest["metadata"]["annotations"]["meta.helm.sh/release-name"] for manifest in found}


def names_the_owner(refusal: str, owner: Release) -> bool:
    """Tell whether Helm refuses as the READMEs say, and says whose the kind is."""
    named = f'key "meta.helm.sh/release-name" must equal "[^"]+": current value is "{owner.name}"'
    return "invalid ownership metadata" in refusal and re.search(named, refusal) is not None


def declare(plane: ControlPlane) -> str:
    """Declare a Message; return its uid."""
    kubectl(plane, "wait", "--for=condition=Established", f"crd/{CRD}")
    kubectl(plane, "apply", "--filename=-", stdin=[MESSAGE])
    return uid(plane)


def uid(plane: ControlPlane) -> str:
    """Return the uid of the Message."""
    return kubectl(plane, "get", "message/hello", "--output=jsonpath={.metadata.uid}")


@pytest.mark.long
@pytest.mark.parametrize("program", ["helm3", "helm4"])
def test_the_kind_moves_to_a_release_of_its_own_and_back(kind: Release, operator: Release) -> None:
    # Not to be kept: what goes with the operator's release, every Message goes with.
    operator.install("--set=crds.keep=false")
    message = declare(kind.plane)

    assert names_the_owner(kind.refusal(), operator)

    kind.install("--take-ownership")
    operator.upgrade("--set=crds.install=false")
    assert owners(kind.plane) == {kind.name}
    assert uid(kind.plane) == message

    operator.upgrade("--set=crds.install=true,crds.keep=true", "--take-ownership")
    kind.uninstall()
    assert owners(kind.plane) == {operator.name}
    assert uid(kind.plane) == message

    operator.upgrade("--set=crds.install=false")
    assert uid(kind.plane) == message

    operator.upgrade("--set=crds.install=true")
    operator.uninstall()
    assert uid(kind.plane) == message


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
    # It deletes what one names to it, whatever annotations there are: docs/gitops.md says so.
    crds = "--prune-allowlist=apiextensions.k8s.io/v1/CustomResourceDefinition"
    command = ("apply", "--prune", crds, ours, "--dry-run=server", "--filename=-")
    assert f"{CRD} pruned (server dry run)" in kubectl(plane, *command, stdin=rest)
    kubectl(plane, "delete", "--ignore-not-found", "--filename=-", stdin=manifests)


def test_an_operator_beside_it_does_not_take_the_kind_unless_it_is_told(
    kind: Release, operator: Release
) -> None:
    kind.install()
    message = declare(kind.plane)

    assert names_the_owner(operator.refusal(), kind)

    operator.upgrade("--install", "--create-namespace", "--set=crds.install=false")
    operator.uninstall()
    assert owners(kind.plane) == {kind.name}
    assert uid(kind.plane) == message


def knows_intervals(plane: ControlPlane) -> bool:
    """Tell whether the kind is that of this chart, not of the one before it."""
    path = "{.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties}"
    return "intervalSeconds" in kubectl(plane, "get", f"crd/{CRD}", f"--output=jsonpath={path}")


def test_an_upgrade_changes_the_kind_and_leaves_the_messages(kind: Release, tmp_path: Path) -> None:
    former = Path(shutil.copytree(CRDS_CHART, tmp_path / "former"))
    crd = former / "templates" / "crd.yaml"
    text, fields = re.subn(r"( +)intervalSeconds:\n(\1 +.*\n)+", "", crd.read_text())
    assert fields == 1
    crd.write_text(text)
    kind.chart = former
    kind.install()
    message = declare(kind.plane)
    assert not knows_intervals(kind.plane)

    kind.upgrade(chart=CRDS_CHART)
    assert knows_intervals(kind.plane)

    kind.rollback()
    assert not knows_intervals(kind.plane)
    assert uid(kind.plane) == message


def test_uninstalled_it_leaves_the_kind_and_the_messages_unless_told_otherwise(
    kind: Release,
) -> None:
    kind.install()
    message = declare(kind.plane)

    kind.uninstall()
    assert uid(kind.plane) == message

    kind.install("--set=keep=false")
    assert uid(kind.plane) == message
    kind.uninstall()
    # The API server ends a kind, and every object of it, on its own time.
    kubectl(kind.plane, "wait", "--for=delete", "--timeout=300s", *KIND)


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
