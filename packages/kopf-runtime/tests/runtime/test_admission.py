"""Admission: what is declared, and what the API server is answered."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import kopf_runtime as kr
from runtime import festivals

# --- what is declared -----------------------------------------------------------------------------


def test_the_kit_reads_what_is_declared() -> None:
    defaulting, names, slow = festivals.manager.webhooks

    assert (defaulting.kind, defaulting.operations) == ("mutating", ("CREATE",))
    assert defaulting.path == "/mutate/festivals.example.dev/tidy"
    assert (names.kind, names.name) == ("validating", "fair-names.festivals.example.dev")
    assert (names.group, names.versions, names.resource) == ("example.dev", ("v1",), "festivals")
    assert names.operations == ("CREATE", "UPDATE", "DELETE")
    assert (names.failure_policy, slow.failure_policy) == ("Fail", "Ignore")
    assert "kube-system" in names.match_conditions["not-the-control-plane"]
    assert list(slow.match_conditions) == ["not-the-control-plane", "asked"]
    assert names.timeout_seconds == 10  # five for the function


def accepts(_: Any, __: Any) -> None: ...


async def yields(_: Any, __: Any) -> AsyncIterator[str]:
    yield "no"


@pytest.mark.parametrize(
    ("declare", "told"),
    [
        (lambda c: c.validate(on=())(accepts), r"on=\(\): use a tuple of create, update, delete"),
        (lambda c: c.validate(on="create")(accepts), "on='create': use a tuple of create"),
        (lambda c: c.default(on=("delete",))(accepts), "use a tuple of create, update$"),
        (lambda c: c.validate(failure_policy="Fail")(accepts), "use 'fail' or 'ignore'"),
        (lambda c: c.validate(timeout=30)(accepts), "more than 0 and at most 25 seconds"),
        (lambda c: c.validate(match={"A B": "true"})(accepts), "use a name and an expression"),
        (lambda c: c.validate(namespaces={"a": "b c"})(accepts), "is no label of a namespace"),
        (lambda c: c.validate()(yields), "return the warnings, or yield them in `def`"),
        (lambda c: c.validate()(lambda *_: None), "call the function after what it checks"),
        (lambda c: [c.validate()(accepts) for _ in "ab"], "another function is the webhook accept"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    declare: Callable[[kr.Controller], object], told: str
) -> None:
    controller = kr.Manager("o", kr.Settings).controller_for(festivals.Festival)
    with pytest.raises((TypeError, ValueError), match=told):
        declare(controller)
    controller.validate(namespaces={"a": "b"})(test_the_kit_reads_what_is_declared)
    assert controller.webhooks[-1].namespace_selector == {"matchLabels": {"a": "b"}}
