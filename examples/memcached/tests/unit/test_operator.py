"""What a Memcached should have, and how it fares, without a cluster."""

from types import SimpleNamespace
from typing import Any

import kopf_runtime as kr
import msgspec
import pytest
from kopf_kit.testing.conversions import assert_lossless
from kopf_runtime.converting.versions import Versions

from memcached_operator import operator


def decoded(**spec: object) -> operator.Memcached:
    manifest = {"metadata": {"name": "sample", "uid": "1", "resourceVersion": "1"}, "spec": spec}
    return msgspec.convert(manifest, operator.Memcached)


def test_a_deployment_of_its_name_has_as_many_nodes() -> None:
    settings = operator.Settings(node_image="example.com/memcached:2")

    one = decoded(replicas=3, limits={"memory": 128})
    (deployment,) = operator.desired(one, kr.Context(settings))

    assert deployment["metadata"]["name"] == "sample"
    assert deployment["spec"]["replicas"] == 3
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "example.com/memcached:2"
    assert container["command"] == ["memcached", "--memory-limit=128", "--conn-limit=1024"]


def test_more_nodes_than_the_most_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="<= 5"):
        decoded(replicas=6)


def test_no_version_loses_anything() -> None:
    assert_lossless(operator.controller)


def test_an_edit_of_the_old_version_keeps_what_only_the_new_one_has() -> None:
    versions = Versions.of(operator.controller.declaration)
    assert versions is not None
    limits = {"memory": 128, "connections": 2048}
    new = {
        "apiVersion": "cache.example.com/v1beta1",
        "kind": "Memcached",
        "metadata": {"name": "sample"},
        "spec": {"replicas": 2, "limits": limits},
    }

    old = versions.convert(new, "cache.example.com/v1alpha1")
    assert old["spec"] == {"size": 2, "memory": 128}
    old["spec"]["size"] = 3

    assert versions.convert(old, "cache.example.com/v1beta1")["spec"] == {
        "replicas": 3,
        "limits": limits,
    }


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
    one: Any = SimpleNamespace(
        metadata=SimpleNamespace(name="one"), spec=SimpleNamespace(replicas=size)
    )
    pods: list[Any] = [
        SimpleNamespace(name=f"one-{number}", view=node, deleting=False)
        for number, node in enumerate(nodes)
    ]
    seen = kr.Observed(None, descendants={kr.kinds.POD: pods})

    assert operator.status(one, seen).ready == ready
