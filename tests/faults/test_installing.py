"""Helm installs, upgrades and removes the chart on a real API server, whose version it asks for.

The kind belongs to one release or to nobody: crds.yaml has it, and no Message is lost.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from chart.helm import CHART, NAMESPACE, RELEASE, HelmError, Manifest, helm, render
from faults.worlds import is_before
from kopf_kit.olm.manifests import texts
from kopf_kit.project import documents, nested
from kopf_kit.project.definition import load
from kopf_kit.rig import tools, versions
from kopf_kit.rig.control_plane import ADMIN, ControlPlane, chosen
from kopf_kit.rig.paths import CHECKOUT
from kopf_kit.testing.api_server import kubectl
from tests.faults.messages import running
from tests.support.plugin import Plugin


@pytest.fixture(scope="module")
def empty() -> Iterator[ControlPlane]:
    """Have an API server that has the operator's namespace, and knows no Message yet."""
    with running() as plane:
        kubectl(plane, "create", "namespace", NAMESPACE)
        yield plane


@pytest.mark.api
def test_the_api_server_is_of_the_version_that_was_chosen(empty: ControlPlane) -> None:
    said = json.loads(kubectl(empty, "version", "--output=json"))

    assert said["serverVersion"]["gitVersion"] == versions.PROVED[chosen()]


@pytest.mark.api
@pytest.mark.parametrize(
    ("field", "value", "since"),
    [
        ("appArmorProfile", {"type": "Unconfined"}, 30),
        ("seLinuxChangePolicy", "Recursive", 33),
        ("supplementalGroupsPolicy", "Strict", 33),
    ],
)
def test_an_older_kubernetes_leaves_out_what_the_notes_say(
    empty: ControlPlane, field: str, value: object, since: int
) -> None:
    spec = {"containers": [{"name": "main", "image": "i"}], "securityContext": {field: value}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
    how = ("--dry-run=server", "--validate=false", "--output=yaml", "--filename=-")

    made = kubectl(empty, "create", *how, stdin=[pod])

    notes = (CHART / "templates" / "NOTES.txt").read_text()
    assert (field in made) == (not is_before(since))
    assert f'"{field}" "1.{since}"' in notes


def there(plane: ControlPlane, manifests: list[Manifest]) -> set[tuple[str, str]]:
    """Return kind and name of those objects that the API server has."""
    found = kubectl(
        *(plane, "get", "--ignore-not-found", "--output=name", "--filename=-"), stdin=manifests
    )
    named = (line.partition("/") for line in found.splitlines())
    return {(kind.partition(".")[0], name) for kind, _, name in named}


def wanted(manifests: list[Manifest]) -> set[tuple[str, str]]:
    """Return kind and name of objects, as kubectl writes them."""
    return {(m["kind"].lower(), m["metadata"]["name"]) for m in manifests}


@pytest.mark.api
@pytest.mark.parametrize("example", ["etcd", "flightticket", "memcached"])
def test_helm_installs_an_example(empty: ControlPlane, example: str) -> None:
    """The API server asks the last two, so their charts have more than the first and ours."""
    chart = nested.ensure(load(CHECKOUT / "examples" / example)).chart
    where = ("--namespace", NAMESPACE, "--kubeconfig", empty.kubeconfig(ADMIN))
    made = [m for m in render(chart=chart, release=example) if m["kind"] != "Pod"]

    helm("install", example, chart, *where)

    assert there(empty, made) == wanted(made)
    helm("uninstall", example, *where)


@pytest.mark.api
def test_j6_a_second_installation_over_the_same_namespaces_is_told_of_the_first(
    empty: ControlPlane,
) -> None:
    def install(release: str, *options: str) -> str:
        where = ("--namespace", release, "--create-namespace")
        config = ("--kubeconfig", empty.kubeconfig(ADMIN), "--set=crds.install=false")
        return helm("install", release, CHART, *where, *config, *options)

    group, name = "rbac.authorization.k8s.io", "message-operator.v0.1.0-abc"
    by_olm = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name, "labels": {"olm.owner": "message-operator.v0.1.0"}},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "message-operator", "namespace": "olm"}],
    }
    warning = "another message-operator, installed in the namespace {}, serves"

    assert "WARNING" not in install("first")
    second = install("second")
    kubectl(empty, "create", "-f", "-", stdin=[by_olm])
    third = install("third", "--set=watchNamespaceSelector=a=b")
    apart = install("apart", "--set=watchNamespaces={apart}")

    assert warning.format("first") in second
    assert second.count("WARNING") == 1
    assert {found for found in ("first", "second", "olm") if warning.format(found) in third} == {
        "first",
        "second",
        "olm",
    }
    assert "WARNING" not in apart
    for release in ("apart", "third", "second", "first"):
        helm("uninstall", release, "--namespace", release, "--kubeconfig", empty.kubeconfig(ADMIN))
    kubectl(empty, "delete", "clusterrolebinding", name)


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


@pytest.fixture(params=["helm3", "helm4"])
def operator(empty: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Release]:
    """A release of the operator, not installed yet; the kind goes at the end."""
    release = Release(empty, request.param)
    yield release
    release.uninstall()
    kubectl(empty, "delete", "--ignore-not-found", *KIND)


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


def test_kubectl_prunes_no_kind_that_is_no_longer_applied(empty: ControlPlane) -> None:
    manifests = [m for m in render() if m["kind"] != "Pod"]  # without that of `helm test`
    ours = f"--selector=app.kubernetes.io/name={CHART.name}"
    kubectl(empty, "apply", "--filename=-", stdin=manifests)
    message = declare(empty)
    rest = [m for m in manifests if not m["metadata"]["name"].startswith(CRD)]
    rest = [m for m in rest if m["kind"] != "Service"]

    said = kubectl(empty, "apply", "--prune", ours, "--filename=-", stdin=rest)

    assert "service/demo-message-operator-metrics pruned" in said
    assert uid(empty) == message
    # It deletes what one names to it, whatever annotations there are: docs/install.md says so.
    crds = "--prune-allowlist=apiextensions.k8s.io/v1/CustomResourceDefinition"
    command = ("apply", "--prune", crds, ours, "--dry-run=server", "--filename=-")
    assert f"{CRD} pruned (server dry run)" in kubectl(empty, *command, stdin=rest)
    kubectl(empty, "delete", "--ignore-not-found", "--filename=-", stdin=manifests)


def test_the_plugin_says_that_the_kind_is_missing(empty: ControlPlane, tmp_path: Path) -> None:
    plugin = Plugin(tmp_path, tools.path("kubectl"), empty.kubeconfig(ADMIN))

    status, doctor = plugin("status"), plugin("doctor")

    assert (status.code, status.err.splitlines()[0]) == (
        3,
        "kubectl message: The cluster does not know the kind Message: its CRD is missing.",
    )
    assert doctor.code == 1
    assert "✗ Kind         the CRD messages.myorg.dev is missing" in doctor.out
    assert "✗ Operator     no operator is installed" in doctor.out
    assert "runbooks.md#messageoperatorunserved" in doctor.out
