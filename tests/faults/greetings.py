"""The operator of twenty lines as the fault suite sees it, run from docs/runtime.md itself."""

import re
from pathlib import Path
from typing import Any

from examples.greeting import greetings
from kopf_kit.testing.requests import Raw
from kopf_kit.testing.under_test import Parent

_CHECKOUT = Path(__file__).parents[2]


def listing() -> str:
    """Return the first listing of docs/runtime.md: a whole operator."""
    page = (_CHECKOUT / "docs" / "runtime.md").read_text()
    code: str = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    return code


class Greetings(Parent):
    """The operator of docs/runtime.md, run from the page."""

    program = ("-c", listing())
    manager = greetings.manager
    quick = ("edit",)
    thorough = False

    def spec(self, text: str) -> Raw:
        return {"name": text}

    def facts(self, found: Raw, child: Raw, text: str) -> dict[str, tuple[Any, Any]]:
        data = child.get("data"), {"text": f"Hello, {text}!"}
        return {**super().facts(found, child, text), "data": data}
