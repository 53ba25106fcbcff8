"""What the chart renders is what the API server keeps: GitOps tools find nothing to correct.

Argo CD compares what is rendered with what is there, Flux what another apply would make of it.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from chart import foreign_kinds
from chart.helm import CHART, Manifest, Values, render
from chart.scenarios import SCENARIOS
from kopf_kit.olm import manifests
from kopf_kit.project import documents
from kopf_kit.rig import versions
from kopf_kit.rig.control_plane import ControlPlane, chosen
from kopf_kit.testing.api_server import kubectl, running

pytestmark = pytest.mark.api


@pytest.fixture(scope="module")
def empty() -> Iterator[ControlPlane]:
    """Have an API server that knows the kinds of others, and not the operator's yet."""
    with running() as plane:
        crds = foreign_kinds.crds(*foreign_kinds.SCHEMAS)
        kubectl(plane, "apply", "--server-side", "-f", "-", stdin=crds)
        names = (f"crd/{crd['metadata']['name']}" for crd in crds)
        kubectl(plane, "wait", "--for=condition=Established", *names)
        yield plane


def minor() -> int:
    """Return the minor version of Kubernetes 1 that was chosen."""
    return int(chosen().removeprefix("1."))


def differences(rendered: Any, live: Any, path: str = "") -> Iterator[str]:
    """Yield what was rendered and is not so; what the API server has added is no difference."""
    if isinstance(rendered, dict) and isinstance(live, dict):
        for key, value in rendered.items():
            yield from differences(value, live.get(key), f"{path}.{key}")
    elif isinstance(rendered, list) and isinstance(live, list) and len(rendered) == len(live):
        for number, (item, other) in enumerate(zip(rendered, live, strict=True)):
            yield from differences(item, other, f"{path}[{number}]")
    elif rendered != live:
        yield f"{path} is {live!r}, and was rendered as {rendered!r}"


def expect_no_difference(plane: ControlPlane, objects: list[Manifest]) -> None:
    """Apply objects; fail if one is not as it was rendered, or another apply would change it."""
    kubectl(plane, "apply", "--server-side", "-f", "-", stdin=objects)

    live = json.loads(kubectl(plane, "get", "-f", "-", "-o", "json", stdin=objects))["items"]
    for rendered, found in zip(objects, live, strict=True):
        name = f"{rendered['kind']} {rendered['metadata']['name']}"
        assert [*differences(rendered, found, name)] == []
    # Exits with 1, and shows it, where another apply would change anything.
    assert kubectl(plane, "diff", "--server-side", "-f", "-", stdin=objects) == ""


def make_namespaces(plane: ControlPlane, objects: list[Manifest]) -> None:
    """Create the namespaces of these objects, unless they are there."""
    names = {manifest["metadata"].get("namespace") for manifest in objects} - {None}
    homes = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": n}} for n in names]
    kubectl(plane, "apply", "--server-side", "-f", "-", stdin=homes)


def remove(plane: ControlPlane, objects: list[Manifest]) -> None:
    """Delete objects, but none of those whose end takes a while and would meet the next test."""
    lasting = ("Namespace", "CustomResourceDefinition")
    gone = [manifest for manifest in objects if manifest["kind"] not in lasting]
    kubectl(plane, "delete", "--wait=false", "-f", "-", stdin=gone)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(values, id=name, marks=() if name == "defaults" else pytest.mark.long)
        for name, values in SCENARIOS.items()
    ],
)
def test_what_is_rendered_and_applied_comes_back_as_it_is(
    empty: ControlPlane, values: Values
) -> None:
    if minor() < 33:  # which drops the field, unless a feature gate is set
        values = {name: value for name, value in values.items() if name != "hostUsers"}
    # Argo CD and Flux leave out the Pod of `helm test`.
    objects = [manifest for manifest in render(values) if manifest["kind"] != "Pod"]
    make_namespaces(empty, objects)

    expect_no_difference(empty, objects)

    remove(empty, objects)


@pytest.mark.long
@pytest.mark.parametrize("file", ["install.yaml", "monitoring.yaml"])
def test_so_does_what_is_made_for_those_without_helm(empty: ControlPlane, file: str) -> None:
    objects = documents.load_all(manifests.texts()[file])
    make_namespaces(empty, objects)

    expect_no_difference(empty, objects)

    remove(empty, objects)


# --- versions of Kubernetes -----------------------------------------------------------------------


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
    assert (field in made) == (minor() >= since)
    assert f'"{field}" "1.{since}"' in notes
