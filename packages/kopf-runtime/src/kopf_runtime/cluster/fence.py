"""The fence: decides just before a write is sent whether it is still allowed.

A replica that does not lead sends none, and nothing is written in a namespace that is no longer
served. The runtime's own requests pass `check`, and so do those of the `sessions` of authors and of
kopf. Who sends a request says what it has to hold: `fencing` or `unfenced`. Without either, a write
is refused.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from typing import Generic, TypeVar

from kopf_runtime.declaring.errors import ApiError

T = TypeVar("T")

_Holds = Callable[[], bool]

_condition: ContextVar[_Holds] = ContextVar("condition", default=lambda: True)
_reviewing: ContextVar[bool] = ContextVar("reviewing", default=False)
_fence: ContextVar[tuple[tuple[_Holds, str], ...]] = ContextVar(
    "fence", default=((lambda: False, "nothing says when it may be sent"),)
)


class _Within(Generic[T]):
    """Sets a variable in a block; each request does, and a generator costs five times as much."""

    _token: Token[T]

    def __init__(self, variable: ContextVar[T], value: T) -> None:
        self._variable, self._value = variable, value

    def __enter__(self) -> None:
        self._token = self._variable.set(self._value)

    def __exit__(self, *_: object) -> None:
        self._variable.reset(self._token)


def condition() -> _Holds:
    """Return the condition under which this task may write (see `only_while`)."""
    return _condition.get()


def only_while(holds: _Holds) -> AbstractContextManager[None]:
    """Refuse writes in the block, in this task and those it starts, once the condition is false."""
    return _Within(_condition, holds)


def fencing(leads: _Holds) -> AbstractContextManager[None]:
    """Send the block's writes only while this replica leads and their condition holds."""
    lost = leads, "no longer the leader"
    return _Within(_fence, (lost, (condition(), "its namespace is no longer selected")))


def unfenced() -> AbstractContextManager[None]:
    """Send the writes of the block on every replica: the leader changes none of it."""
    return _Within(_fence, ())


def for_a_review() -> AbstractContextManager[None]:
    """Let the block ask others by any method on every replica: it only judges a write.

    That is about an author's session, which has no credentials of the cluster, and not about the
    runtime's own requests.
    """
    return _Within(_reviewing, True)


def reviewing() -> bool:
    """Return whether this task judges a write for the API server."""
    return _reviewing.get()


def check(method: str, path: str) -> None:
    """Raise `ApiError` if a request is a write that is not allowed now."""
    for holds, why in _fence.get() if method != "GET" else ():
        if not holds():
            raise ApiError(method, path, 0, "Fenced", why)
