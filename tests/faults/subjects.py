"""The operators under faults."""

from typing import Any

from kopf_kit.testing.requests import Raw
from kopf_kit.testing.under_test import Parent
from runtime import greetings
from tests.faults.messages import Messages


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


MESSAGE = Messages()
#: The tier `faults` tries the whole suite on the first, and the quick part of it on the others;
#: The tier `faults-long` tries the rest.
SUBJECTS: tuple[Parent, ...] = (MESSAGE, Greetings())
