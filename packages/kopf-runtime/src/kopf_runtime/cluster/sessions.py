"""The sessions of authors and of kopf: aiohttp's, each of whose requests passes the fence.

It is checked by a middleware, which is what aiohttp documents for that, and again once the request
is connected. Only an operator that uses such a session imports this, and aiohttp.
"""

import functools
from typing import Any

import aiohttp

from kopf_runtime.cluster.fence import check, fencing
from kopf_runtime.declaring.errors import ApiError, DeclarationError

_NOWHERE = "http://fence.invalid"


class FenceError(DeclarationError):
    """This release of aiohttp would send a write that the fence refuses."""

    def __init__(self, how: object) -> None:
        super().__init__(
            f"aiohttp {aiohttp.__version__} would send what the fence refuses ({how}); "
            "install one that kopf-runtime supports"
        )


def session(**arguments: Any) -> aiohttp.ClientSession:
    """Return an aiohttp session with these arguments, whose requests pass the fence last."""
    connector = arguments.pop("connector", None) or aiohttp.TCPConnector(limit=0)
    middlewares = (*arguments.pop("middlewares", ()), _pass)
    return aiohttp.ClientSession(
        connector=_checking(connector), middlewares=middlewares, **arguments
    )


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
                    raise FenceError(error) from error
                raise FenceError("it was not asked")


class _Unconnected:
    def release(self) -> None:
        """Do nothing."""


async def _connected(*_: Any, **__: Any) -> Any:
    return _Unconnected()
