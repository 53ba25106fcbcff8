"""The conformance suite: what holds of an operator whatever happens to it and to its requests.

A test module of the operator's repository imports the tests, and names the operators:

    from kopf_kit.testing.conformance.every_write import *

    SUBJECTS = (Claims(),)

every_write   killed after each write; each write lost, refused, delayed, garbled
replicas      leader election: killed, frozen, cut off, clocks moved, the Lease stolen
walks         declared states in any order end as a fresh start there would
watches       broken watches, missed events, expired lists, stale answers
"""

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T", bound=Callable[..., Any])


def essential(test: T) -> T:
    """Mark a test that runs without `-m long` even with a subject that is not `thorough`."""
    test.essential = True  # type: ignore[attr-defined]
    return test


def each_scenario(*left_out: str, least: int = 0) -> Callable[[T], T]:
    """Run a test with each scenario of so many writes; those left out are `long`, too."""

    def mark(test: T) -> T:
        test.scenarios = (left_out, least)  # type: ignore[attr-defined]
        return test

    return mark
