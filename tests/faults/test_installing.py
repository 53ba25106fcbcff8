"""Helm installs, upgrades and removes the chart on a real API server, whose version it asks for."""

import json
from collections.abc import Iterator

import pytest

from chart.helm import (
    CHART,
    NAMESPACE,
    Manifest,
    helm,
    render,
)
from faults.worlds import is_before
from kopf_kit.project import nested
from kopf_kit.project.definition import load
from kopf_kit.rig import versions
from kopf_kit.rig.control_plane import ADMIN, ControlPlane, chosen
from kopf_kit.rig.paths import CHECKOUT
from kopf_kit.testing.api_server import kubectl
from tests.support import control_plane

pytestmark = pytest.mark.api


@pytest.fixture(scope="module")
def empty() -> Iterator[ControlPlane]:
    """Have an API server that has the operator's namespace, and knows no Message yet."""
    with control_plane.running() as plane:
        kubectl(plane, "create", "namespace", NAMESPACE)
        yield plane


def test_the_api_server_is_of_the_version_that_was_chosen(empty: ControlPlane) -> None:
    said = json.loads(kubectl(empty, "version", "--output=json"))

    assert said["serverVersion"]["gitVersion"] == versions.PROVED[chosen()]


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


@pytest.mark.parametrize("example", ["etcd", "flightticket", "memcached"])
def test_helm_installs_an_example(empty: ControlPlane, example: str) -> None:
    """The API server asks the last two, so their charts have more than the first and ours."""
    chart = nested.ensure(load(CHECKOUT / "examples" / example)).chart
    where = ("--namespace", NAMESPACE, "--kubeconfig", empty.kubeconfig(ADMIN))
    made = [m for m in render(chart=chart, release=example) if m["kind"] != "Pod"]

    helm("install", example, chart, *where)

    assert there(empty, made) == wanted(made)
    helm("uninstall", example, *where)


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
