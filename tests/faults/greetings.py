"""The operator of twenty lines, as the fault suite sees it."""

from typing import Any

from kopf_kit.testing.requests import Raw
from kopf_kit.testing.under_test import Parent
from runtime import greetings


class Greetings(Parent):
    """The operator of twenty lines."""

    program = (greetings.__file__,)
    manager = greetings.manager
    quick = ("edit",)
    thorough = False

    def spec(self, text: str) -> Raw:
        return {"name": text}

    def facts(self, found: Raw, child: Raw, text: str) -> dict[str, tuple[Any, Any]]:
        data = child.get("data"), {"text": f"Hello, {text}!"}
        return {**super().facts(found, child, text), "data": data}
