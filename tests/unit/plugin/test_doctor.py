"""`doctor` sees more than each operator on its own."""

import pytest

from kopf_kit.kubectl import diagnosis
from kopf_kit.kubectl.client import Kubectl
from kopf_kit.kubectl.findings import FAILS, WELL
from kopf_kit.kubectl.installation import Operator
from tests.unit.plugin.operators import Raw, by_helm


def operator(name: str, **values: object) -> Operator:
    deployment = by_helm(**values)
    deployment["metadata"].update(name=name, namespace=f"in-{name}")
    return Operator(deployment, [], None)


NAMESPACES = [{"metadata": {"name": name}} for name in ("a", "b", "c")]


@pytest.mark.parametrize(
    ("red", "blue", "which"),
    [
        ({}, {}, "all namespaces"),
        ({}, {"watchNamespaces": ["b"]}, "b"),
        ({"watchNamespaces": ["a", "b"]}, {"watchNamespaces": ["b", "c"]}, "b"),
        ({"watchNamespaces": ["a"]}, {"watchNamespaceSelector": "team=a"}, "a"),
    ],
)
def test_two_operators_of_the_same_namespaces_are_told(
    red: Raw, blue: Raw, which: str, cluster: dict[str, list[Raw]]
) -> None:
    cluster.update(namespaces=NAMESPACES[:1] if "watchNamespaceSelector" in blue else NAMESPACES)
    operators = [operator("red", **red), operator("blue", **blue)]

    found = diagnosis._namespaces(Kubectl(), operators, set(), {"a", "b", "c"})

    assert found.level == FAILS
    assert found.says.en == (f"in-red/red and in-blue/blue both act on the Messages of {which}")
    assert "watchNamespaces" in str(found.todo)


@pytest.mark.parametrize(
    ("red", "blue"),
    [
        ({"watchNamespaces": ["a"]}, {"watchNamespaces": ["b", "c"]}),
        ({}, {"replicaCount": 0}),
    ],
)
def test_operators_of_different_namespaces_are_well(
    red: Raw, blue: Raw, cluster: dict[str, list[Raw]]
) -> None:
    cluster.update(namespaces=NAMESPACES)
    operators = [operator("red", **red), operator("blue", **blue)]

    assert diagnosis._namespaces(Kubectl(), operators, set(), {"a", "b", "c"}).level == WELL
