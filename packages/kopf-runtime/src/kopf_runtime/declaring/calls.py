"""The coroutine functions by which an author manages what is outside the cluster.

`Controller.sync`, `check` and `finalize` make a `Call` of each, and `working.external` calls it.
"""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from kopf_runtime.declaring.context import CallContext
from kopf_runtime.declaring.kinds import Kind
from kopf_runtime.declaring.objects import Resource

F = TypeVar("F", bound=Callable[..., Any])

#: The longest timeout of a call in seconds: a reconcile of five minutes is stuck (see `manager`).
MAX_CALL_SECONDS = 240.0
#: Seconds until the next call, or a function of the object and the context that returns them.
Every = float | Callable[[Any, Any], float]


class Call(msgspec.Struct, frozen=True):
    """An author's coroutine function; it gets the object and a `CallContext`."""

    function: Callable[[Any, CallContext[Any]], Awaitable[Any]]
    #: The condition's reason if it fails.
    reason: str
    #: Its timeout in seconds.
    timeout: float
    #: After how long it is called again even if nothing has changed.
    every: Every = float("inf")
    #: The kinds of children and descendants whose changes have it called again.
    on: tuple[Kind, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a function or a time that cannot work, as soon as it is declared."""
        refuse_plain(self.function)
        if not 0 < self.timeout <= MAX_CALL_SECONDS:
            raise ValueError(f"the timeout of {self} must be at most {MAX_CALL_SECONDS:g} seconds")
        if not callable(self.every):
            self._checked(self.every)

    def __str__(self) -> str:
        """Return the name of the function."""
        return getattr(self.function, "__name__", repr(self.function))

    def _checked(self, seconds: float) -> float:
        if not seconds > 0:  # nor NaN
            raise ValueError(f"the time between two calls of {self} must be above 0 seconds")
        return seconds

    def period(self, thing: Resource, context: CallContext[Any]) -> float:
        """Return the seconds until the next call; raise `ValueError`."""
        every = self.every
        return self._checked(every(thing, context) if callable(every) else every)


def plain(function: F) -> F:
    """Return a function; refuse one whose result nobody awaits."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        name = getattr(function, "__name__", function)
        raise TypeError(f"{name} must not be a coroutine function: write `def {name}`")
    return function


def refuse_plain(function: Any) -> None:
    """Raise `TypeError` for a function that cannot be awaited."""
    if not inspect.iscoroutinefunction(function):
        name = getattr(function, "__name__", str(function))
        raise TypeError(f"{name} must be a coroutine function: write `async def {name}`")
