"""What the chart renders is what the API server keeps: GitOps tools find nothing to correct.

Argo CD compares what is rendered with what is there, Flux what another apply would make of it.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from chart import foreign_kinds
from chart.helm import Manifest, Values, render
from faults.worlds import is_before
from kopf_kit.olm import manifests
from kopf_kit.project import documents
from kopf_kit.rig.control_plane import ControlPlane
from kopf_kit.testing.api_server import kubectl
from tests.chart.projects import SCENARIOS
from tests.faults.messages import running

pytestmark = pytest.mark.api


@pytest.fixture(scope="module")
def empty() -> Iterator[ControlPlane]:
    """Have an API server that knows the kinds of others, and no Message yet."""
    with running() as plane:
        crds = foreign_kinds.crds(*foreign_kinds.SCHEMAS)
        kubectl(plane, "apply", "--server-side", "-f", "-", stdin=crds)
        names = (f"crd/{crd['metadata']['name']}" for crd in crds)
        kubectl(plane, "wait", "--for=condition=Established", *names)
        yield plane


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
    if is_before(33):  # which drops the field, unless a feature gate is set
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
