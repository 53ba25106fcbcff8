"""Requests to the API server: each counted, bounded in time, and answered or refused.

One session serves the whole runtime, so there is one pool of connections and one place for
credentials. A fence checks each write just before it is sent: a replica that no longer leads sends
none. An earlier write may still arrive: its precondition stops it, or the next leader repairs it.
"""

import asyncio.sslproto
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import aiohttp
import msgspec
from yarl import URL

from kopf_runtime.credentials import Credentials
from kopf_runtime.metrics import Metrics
from kopf_runtime.objects import Failure
from kopf_runtime.wording import in_words

logger = logging.getLogger(__name__)

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
#: Seconds without a line after which a watch counts as dead; bookmarks arrive every minute.
SILENCE = 75.0
#: Seconds that a request may take after the previous attempt timed out: the API server's own limit
#: is 60, of which a webhook may take 30.
PATIENT = 65.0
#: Seconds between two readings of the API server's clock.
_CLOCK = 10.0
#: Bytes that a TLS connection buffers. A record has 16 KiB at most; asyncio's 256 KiB took 4 MB.
asyncio.sslproto.SSLProtocol.max_size = 32 * 1024

T = TypeVar("T")

_patience: ContextVar[float] = ContextVar("patience", default=0.0)
_condition: ContextVar[Callable[[], bool]] = ContextVar("condition", default=lambda: True)
_fence: ContextVar[tuple[tuple[Callable[[], bool], str], ...]] = ContextVar("fence", default=())


class ApiError(Exception):
    """The API server refused a request, or gave no answer (status 0)."""

    def __init__(
        self, method: str, path: str, status: int, reason: str, message: str, after: float = 0.0
    ) -> None:
        super().__init__(f"{method} {path}: {f'{status} ' if status else ''}{reason}: {message}")
        #: The HTTP status, or 0 if there was no answer.
        self.status = status
        #: The machine-readable reason of the Status object, such as `AlreadyExists`.
        self.reason = reason
        #: The server's message for people.
        self.message = message
        #: The seconds of its Retry-After header.
        self.after = after

    @property
    def final(self) -> bool:
        """Whether a retry cannot succeed until somebody changes something."""
        return self.status in (400, 403, 413, 422)


@contextlib.contextmanager
def _within(variable: ContextVar[T], value: T) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def patience(seconds: float) -> AbstractContextManager[None]:
    """Allow each request that this task sends in the block at least this many seconds."""
    return _within(_patience, seconds)


def condition() -> Callable[[], bool]:
    """Return the condition under which this task may write (see `only_while`)."""
    return _condition.get()


def only_while(holds: Callable[[], bool]) -> AbstractContextManager[None]:
    """Refuse writes in the block, in this task and those it starts, once the condition is false."""
    return _within(_condition, holds)


class Request(aiohttp.ClientRequest):
    """A request that checks its fence once it is connected, because connecting may take long."""

    async def send(self, conn: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        """Send the request; raise `ApiError` if it is a write that is no longer allowed."""
        for holds, why in _fence.get() if self.method != "GET" else ():
            if not holds():
                raise ApiError(self.method, self.url.path, 0, "Fenced", why)
        return await super().send(conn)


class Client:
    """A client of one API server; call `open` before the first request, and `close` at the end."""

    def __init__(self, manager: str, version: str, timeout: float, metrics: Metrics) -> None:
        #: The field manager, which is also the name in the user agent.
        self.manager = manager
        self.agent = f"{manager}/{version or '0'}"
        self._timeout = timeout
        self._metrics = metrics
        self._session: aiohttp.ClientSession | None = None
        self._credentials: Credentials | None = None
        #: Returns whether a write may be sent; called just before each one. The election sets it.
        self.may_write: Callable[[], bool] = lambda: True
        self._clock = (0.0, time.time() - time.monotonic())

    def open(self, credentials: Credentials) -> None:
        """Open the session."""
        self._credentials = credentials
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": self.agent, "Accept": JSON},
            proxy=credentials.proxy, request_class=Request,
        )  # fmt: skip

    async def close(self) -> None:
        """Close the session."""
        if self._session is not None:
            await self._session.close()

    def now(self) -> float:
        """Return the API server's time, in seconds of Unix time."""
        return time.monotonic() + self._clock[1]

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        params: dict[str, str] | None = None,
        fenced: bool = True,
    ) -> bytes:
        """Send one request and return the JSON of its answer; raise `ApiError`.

        A body of bytes is sent as it is. The error of a write that the fence stops has the reason
        `Fenced`; `fenced=False` sends it anyway.
        """
        data = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
        started = time.monotonic()
        code = 0
        try:
            timeout = aiohttp.ClientTimeout(total=max(self._timeout, _patience.get()))
            async with self._send(method, path, data, params, content_type, timeout, fenced) as r:
                payload = await r.read()
                code = r.status
                self._look_at_clock(r)
                if code >= 300:
                    raise _error(method, path, r, payload)
                return bytes(payload)
        except (aiohttp.ClientError, TimeoutError, RuntimeError, ValueError) as error:
            raise await self._failed(method, path, error) from error
        finally:
            self._metrics.api_requests.labels(method, str(code)).inc()
            self._metrics.api_time.labels(method).observe(time.monotonic() - started)

    async def ask(self, method: str, path: str, body: Any = None, **options: Any) -> dict[str, Any]:
        """Send one request and return the decoded object of its answer; raise `ApiError`."""
        payload = await self.request(method, path, body, **options)
        try:
            return msgspec.json.decode(payload, type=dict[str, Any]) if payload else {}
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:  # a proxy's page
            raise ApiError(method, path, 0, "BadAnswer", str(error)) from error

    async def lines(self, path: str, params: dict[str, str]) -> AsyncGenerator[bytes, None]:
        """Open a watch and yield its lines until the server ends it; raise `ApiError`."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout, sock_read=SILENCE)
        code = 0
        try:
            async with self._send("GET", path, None, params, JSON, timeout, False) as response:
                code = response.status
                if code >= 300:
                    raise _error("GET", path, response, await response.read())
                rest = b""
                async for chunk in response.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        if line:
                            yield line
        except (aiohttp.ClientError, TimeoutError, RuntimeError, ValueError) as error:
            raise await self._failed("GET", path, error) from error
        finally:
            self._metrics.api_requests.labels("WATCH", str(code)).inc()

    def _send(
        self, method: str, path: str, data: bytes | None, params: dict[str, str] | None,
        content_type: str, timeout: aiohttp.ClientTimeout, fenced: bool,
    ) -> Any:  # fmt: skip
        if self._session is None or self._credentials is None:
            raise ApiError(method, path, 0, "NotConnected", "the session is not open yet")
        url = URL(self._credentials.server + path, encoded=True)  # no name needs to be quoted
        return self._session.request(
            method, url, data=data, params=params, timeout=timeout,
            headers={"Content-Type": content_type}, ssl=self._credentials.ssl,
            allow_redirects=False,  # a redirect would receive the token: CVE-2022-3172
            middlewares=(self._credentials, self.fence) if fenced else (self._credentials,),
        )  # fmt: skip

    async def fence(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Apply the fence to the writes of a session whose `request_class` is `Request`."""
        leads = self.may_write, "no longer the leader"
        selected = condition(), "its namespace is no longer selected"
        with _within(_fence, (leads, selected)):
            return await handler(request)

    async def _failed(self, method: str, path: str, error: Exception) -> ApiError:
        """Return the error of a request without a usable answer."""
        if isinstance(error, aiohttp.ClientConnectorCertificateError) and self._credentials:
            await self._credentials.refresh()  # perhaps the CA was rotated
        reason = type(error).__name__.removesuffix("Error")
        return ApiError(method, path, 0, reason, in_words(error))

    def _look_at_clock(self, response: aiohttp.ClientResponse) -> None:
        """Read the API server's time, which may differ from ours."""
        now = time.monotonic()
        if now - self._clock[0] > _CLOCK and (date := response.headers.get("Date")):
            with contextlib.suppress(ValueError, OverflowError):
                self._clock = now, parsedate_to_datetime(date).timestamp() - now


def _error(method: str, path: str, response: aiohttp.ClientResponse, payload: bytes) -> ApiError:
    try:
        said = _FAILURE.decode(payload)
    except (msgspec.MsgspecError, RecursionError):  # not from the API server: a proxy's page
        said = Failure(payload[:500].decode(errors="replace"))
    after = response.headers.get("Retry-After", "")
    return ApiError(
        method, path, response.status, said.reason or response.reason or "", said.message[:2000],
        min(float(after), 600.0) if after.isdecimal() and len(after) < 10 else 0.0,
    )  # fmt: skip


_FAILURE = msgspec.json.Decoder(Failure)
