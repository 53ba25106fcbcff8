"""The Memcached of examples/: its status follows from its nodes."""

from types import SimpleNamespace
from typing import Any

import pytest

import kopf_runtime as kr
from examples.memcached import memcacheds


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
    seen = kr.Observed(one, (), None, now=0.0, grandchildren={kr.kinds.POD: pods})

    assert memcacheds.status(seen).ready == ready
