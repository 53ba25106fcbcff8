"""The fence: decides just before a write is sent whether it is still allowed.

A replica that does not lead sends none, and nothing is written in a namespace that is no longer
served. The runtime's own requests pass `check`. The sessions of authors and of kopf are made by
`session`, and pass each request through `_pass`: a middleware, which is what aiohttp documents for
that. Who sends a request says what it has to hold: `fencing` or `unfenced`. Without either, a write
is refused.
"""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from typing import Any, Generic, TypeVar

import aiohttp

from kopf_runtime.declaring.errors import ApiError

T = TypeVar("T")

_Holds = Callable[[], bool]
_NOWHERE = "http://fence.invalid"

_condition: ContextVar[_Holds] = ContextVar("condition", default=lambda: True)
_reviewing: ContextVar[bool] = ContextVar("reviewing", default=False)
_fence: ContextVar[tuple[tuple[_Holds, str], ...]] = ContextVar(
    "fence", default=((lambda: False, "nothing says when it may be sent"),)
)


class FenceError(Exception):
    """This release of aiohttp would send a write that the fence refuses."""


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


def session(**arguments: Any) -> aiohttp.ClientSession:
    """Return an aiohttp session with these arguments, whose requests pass the fence last."""
    connector = arguments.pop("connector", None) or aiohttp.TCPConnector(limit=0)
    middlewares = (*arguments.pop("middlewares", ()), _pass)
    return aiohttp.ClientSession(
        connector=_checking(connector), middlewares=middlewares, **arguments
    )


def check(method: str, path: str) -> None:
    """Raise `ApiError` if a request is a write that is not allowed now."""
    for holds, why in _fence.get() if method != "GET" else ():
        if not holds():
            raise ApiError(method, path, 0, "Fenced", why)


def _check(request: aiohttp.ClientRequest) -> None:
    check(request.method, request.url.path)


async def _pass(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Send a request unless the fence refuses it."""
    _check(request)
    return await handler(request)


def _checking(connector: aiohttp.BaseConnector) -> aiohttp.BaseConnector:
    """Have a connector check a request again once it is connected, because that may take long."""
    connect = connector.connect

    async def checked(request: aiohttp.ClientRequest, *more: Any, **options: Any) -> Any:
        connection = await connect(request, *more, **options)
        try:
            _check(request)
        except ApiError:
            connection.release()  # it is as good as before
            raise
        return connection

    connector.connect = checked  # type: ignore[assignment, method-assign]
    return connector


async def prove() -> None:
    """Raise `FenceError` unless a write is refused at once, and once it is connected.

    Nothing is sent: the host does not exist, and is not looked up.
    """
    connector = aiohttp.TCPConnector()
    connector.connect = _connected  # type: ignore[method-assign]
    async with session(connector=connector) as nowhere:
        for answers in ([False], [True, False]):
            with fencing(functools.partial(answers.pop, 0)):
                try:
                    async with nowhere.post(_NOWHERE):
                        pass
                except ApiError as error:
                    if error.reason == "Fenced" and not answers:
                        continue
                except Exception as error:
                    raise FenceError(str(error)) from error
                raise FenceError("it was not asked")


class _Unconnected:
    def release(self) -> None:
        """Do nothing."""


async def _connected(*_: Any, **__: Any) -> Any:
    return _Unconnected()
