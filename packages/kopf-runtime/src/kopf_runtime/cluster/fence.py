"""The fence: decides just before a write is sent whether it is still allowed.

A replica that no longer leads sends none, and nothing is written in a namespace that is no longer
served. `client` sets the fence for each request, and `external` for those of authors.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TypeVar

import aiohttp

from kopf_runtime.declaring.errors import ApiError

T = TypeVar("T")

_condition: ContextVar[Callable[[], bool]] = ContextVar("condition", default=lambda: True)
_fence: ContextVar[tuple[tuple[Callable[[], bool], str], ...]] = ContextVar("fence", default=())


@contextmanager
def _within(variable: ContextVar[T], value: T) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def condition() -> Callable[[], bool]:
    """Return the condition under which this task may write (see `only_while`)."""
    return _condition.get()


def only_while(holds: Callable[[], bool]) -> AbstractContextManager[None]:
    """Refuse writes in the block, in this task and those it starts, once the condition is false."""
    return _within(_condition, holds)


def fencing(leads: Callable[[], bool]) -> AbstractContextManager[None]:
    """Send the block's writes only while this replica leads and their condition holds."""
    lost = leads, "no longer the leader"
    return _within(_fence, (lost, (condition(), "its namespace is no longer selected")))


class Request(aiohttp.ClientRequest):
    """A request that checks its fence once it is connected, because connecting may take long."""

    async def send(self, conn: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        """Send the request; raise `ApiError` if it is a write that is no longer allowed."""
        for holds, why in _fence.get() if self.method != "GET" else ():
            if not holds():
                raise ApiError(self.method, self.url.path, 0, "Fenced", why)
        return await super().send(conn)
