"""Waits for a condition, and says what was waited for and what was last seen."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Seconds. Far more than anything takes on a busy machine: only what never comes runs into it.
BOUND = 300.0


def wait_until(
    what: str, look: Callable[[], T], holds: Callable[[T], object], *, bound: float = BOUND
) -> T:
    """Look again and again until it holds; return what was seen then.

    Fails after `bound` seconds with `what`, which completes "waited for …".
    """
    deadline = time.monotonic() + bound
    while True:
        seen = look()
        if holds(seen):
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {bound:g} s for {what}; last seen: {seen}")
        time.sleep(0.2)
