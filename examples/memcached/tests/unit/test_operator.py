"""What a Memcached should have, and how it fares, without a cluster."""

from types import SimpleNamespace
from typing import Any

import kopf_runtime as kr
import msgspec
import pytest

from memcached_operator import operator


def decoded(**spec: object) -> operator.Memcached:
    manifest = {"metadata": {"name": "sample", "uid": "1", "resourceVersion": "1"}, "spec": spec}
    return msgspec.convert(manifest, operator.Memcached)


def test_a_deployment_of_its_name_has_as_many_nodes() -> None:
    settings = operator.Settings(node_image="example.com/memcached:2")

    (deployment,) = operator.desired(decoded(size=3), kr.Context(settings))

    assert deployment["metadata"]["name"] == "sample"
    assert deployment["spec"]["replicas"] == 3
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "example.com/memcached:2"


def test_more_nodes_than_the_most_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="<= 5"):
        decoded(size=6)


@pytest.mark.parametrize(
    ("size", "nodes", "ready"),
    [
        (0, [], True),
        (2, [True, True], True),
        (2, [True], False),
        (2, [True, False], False),
        (1, [True, True], False),
        (1, [True, False], False),
    ],
)
def test_what_lacks_a_node_or_has_one_too_many_is_not_ready(
    size: int, nodes: list[bool], ready: bool
) -> None:
    one: Any = SimpleNamespace(key=("ns", "one"), view=size)
    pods: list[Any] = [
        SimpleNamespace(key=("ns", f"one-{number}"), view=node, deleting=False)
        for number, node in enumerate(nodes)
    ]
    seen = kr.Observed(None, object=one, grandchildren={kr.kinds.POD: pods})

    assert operator.status(seen).ready == ready
