"""docs/admission.md: its example is what it says."""

import re
from typing import Any

import pytest
from msgspec.structs import replace

import kopf_runtime as kr
from kopf_kit.rig.paths import CHECKOUT

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_example_fills_in_warns_and_refuses() -> None:
    names: dict[str, Any] = {"__name__": "admission"}
    for block in BLOCK.findall((CHECKOUT / "docs" / "admission.md").read_text()):
        exec(block, names)  # noqa: S102
    made = names["Ticket"](kr.ObjectMeta("one", "u", "1"), spec=names["Spec"]("ICN", "HEL"))
    alice = kr.User("alice")

    filled = names["cheapest"](
        made, kr.ReviewContext(None, operation="create", old=None, user=alice)
    )
    assert filled.spec.cabin == "economy"
    context = kr.ReviewContext(None, operation="update", old=made, user=alice)
    first = replace(made, spec=names["Spec"]("ICN", "HEL", "first"))
    assert list(names["same_flight"](first, context)) == ["First class is paid by your team."]
    with pytest.raises(kr.Denied, match="The origin cannot be changed"):
        list(names["same_flight"](replace(made, spec=names["Spec"]("GMP", "HEL")), context))
    assert [hook.failure_policy for hook in names["manager"].webhooks] == ["Fail", "Fail", "Ignore"]
