"""The contexts that an author's functions get beside the object."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kopf_runtime as kr
from runtime import widgets
from runtime.support.typing import check_types

OWNER: Any = SimpleNamespace(key=("ns", "one"))

#: Functions of an author's; the comment is what a type checker says of the line.
SNIPPET = """
from collections.abc import Iterable
from typing import Any
import kopf_runtime as kr
from kopf_runtime import Settings

Raw = dict[str, Any]
controller: kr.Controller

@controller.desired
def plain(_: kr.Resource, context: kr.Context[Settings]) -> Iterable[Raw]:
    context.now  # "Context[Settings]" has no attribute "now"
    context.session  # "Context[Settings]" has no attribute "session"
    return [context.read(kr.kinds.SECRET, "one"), context.sync_result]

@controller.desired  # Value of type variable
def timely(_: kr.Resource, context: kr.StepContext[Settings]) -> Iterable[Raw]:
    return [{"now": context.now}]

@controller.desired(stepwise=True)
def stepwise(_: kr.Resource, context: kr.StepContext[Settings]) -> Iterable[Raw]:
    context.record  # "StepContext[Settings]" has no attribute "record"
    return [{"now": context.now}] if context.child else []

@controller.sync
async def sync(_: kr.Resource, context: kr.CallContext[Settings]) -> None:
    context.user  # "CallContext[Settings]" has no attribute "user"
    await context.record({"at": context.now})

@controller.finalize  # Value of type variable
async def asked(_: kr.Resource, context: kr.ReviewContext[Settings]) -> None: ...

@controller.validate()
def valid(_: kr.Resource, context: kr.ReviewContext[Settings]) -> str:
    context.sync_result  # "ReviewContext[Settings]" has no attribute "sync_result"
    return context.user.name

@controller.status
def status(_: Any, seen: kr.Observed) -> kr.Status:
    seen.record  # "Observed" has no attribute "record"
    return kr.default_status(seen)
"""


def test_a_type_checker_sees_what_a_function_does_not_get(tmp_path: Path) -> None:
    check_types(SNIPPET, tmp_path)


@pytest.mark.parametrize(
    "context",
    [
        kr.Context(kr.Settings(), reads={kr.kinds.SECRET: {}}),
        kr.StepContext(kr.Settings(), now=1.0),
        kr.CallContext(kr.Settings(), unseen={kr.kinds.POD: "Forbidden"}),
        kr.ReviewContext(kr.Settings(), operation="delete"),
        kr.Observed(None),
    ],
)
def test_a_context_is_a_value_that_can_be_replaced_compared_and_hashed(context: Any) -> None:
    same = dataclasses.replace(context)

    assert same == context
    assert hash(same) == hash(context)
    assert dataclasses.replace(context, namespace="other") != context


def test_what_cannot_all_be_seen_is_not_taken_for_all() -> None:
    context = kr.CallContext(kr.Settings(), children=[], unseen={kr.kinds.POD: "Forbidden"})

    assert context.children_of(kr.kinds.SECRET) == ()
    for ask in (
        lambda: context.children_of(kr.kinds.POD),
        lambda: context.child,
        lambda: list(context.children),
        lambda: context.descendants.get(kr.kinds.POD),
    ):
        with pytest.raises(kr.Wait, match="pods cannot be seen: Forbidden"):
            ask()


def test_a_test_of_status_says_only_what_matters_to_it() -> None:
    seen = kr.Observed(None, trouble=kr.Trouble("Refused", "No."))

    assert kr.default_status(seen).reason == "Refused"
    assert kr.default_status(dataclasses.replace(seen, trouble=None)).ready


def test_a_test_says_who_has_a_value_of_an_index() -> None:
    hosts = widgets.controller().index(lambda _: [])
    context = kr.Context(kr.Settings(), held={hosts: {"a.example": [("ns", "one")]}})

    assert context.by_index(hosts, "a.example") == (("ns", "one"),)
    assert context.by_index(hosts, "b.example") == ()
