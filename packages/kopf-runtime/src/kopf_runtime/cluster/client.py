"""Requests to the API server: each counted, bounded in time, and answered or refused.

One session serves the whole runtime, so there is one pool of connections and one place for
credentials. A fence checks each write just before it is sent: a replica that no longer leads sends
none. An earlier write may still arrive: its precondition stops it, or the next leader repairs it.
"""

import asyncio.sslproto
import contextlib
import logging
import math
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from kopf_runtime.cluster import tracing
from kopf_runtime.cluster.credentials import Credentials
from kopf_runtime.cluster.fence import fencing, reviewing, session, unfenced
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.errors import ApiError, describe_error, refusal

logger = logging.getLogger(__name__)

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
#: Seconds without a line after which a watch counts as dead; bookmarks arrive every minute.
SILENCE = 75.0
#: Seconds that a request may take at most: the API server's own limit is 60, of which a webhook may
#: take 30.
PATIENT = 65.0
#: Seconds in which that patience halves, as long as the answers come sooner.
HALVES = 60.0
#: Seconds to wait until it says who this process is, as a review waits meanwhile.
_WHO = 1.0
#: Seconds between two readings of the API server's clock.
_CLOCK = 10.0
#: Bytes that a TLS connection buffers. A record has 16 KiB at most; asyncio's 256 KiB took 4 MB.
asyncio.sslproto.SSLProtocol.max_size = 32 * 1024


class Patience:
    """How long a request may take: twice as long as the slowest answer lately.

    A request that is given up has cost the API server as much as one that is answered, and us a
    connection; it is sent again, and often has been carried out. So each one that times out gives
    all that follow twice the time, and those that are under way, too; not more, because its server
    may be gone, and another one answer at once. The patience fades when the answers come sooner.
    """

    def __init__(self) -> None:
        self._slowest, self._at = 0.0, time.monotonic()
        # The requests under way with the usual time, and when it runs out.
        self._usual: dict[asyncio.Timeout, asyncio.TimerHandle] = {}

    def seconds(self, usual: float) -> float:
        """Return the seconds that the next request may take: as many as usual, at least."""
        return max(usual, min(PATIENT, 2 * self._lately()))

    @contextlib.asynccontextmanager
    async def limit(self, usual: float) -> AsyncGenerator[None, None]:
        """Limit the time of the request that is sent in the block."""
        began, seconds = time.monotonic(), self.seconds(usual)
        longest = max(seconds, 2 * usual)
        async with asyncio.timeout(longest) as limit:
            if seconds == usual:
                loop = asyncio.get_running_loop()
                self._usual[limit] = loop.call_later(usual, self._run_out, limit)
            try:
                yield
            finally:
                if timer := self._usual.pop(limit, None):
                    timer.cancel()
                if limit.expired():
                    self.answered(min(longest, time.monotonic() - began))

    def _run_out(self, first: asyncio.Timeout) -> None:
        """Give up the first request that is late, and give the others twice the time."""
        for timer in self._usual.values():
            timer.cancel()
        self._usual.clear()
        first.reschedule(0)

    def answered(self, seconds: float) -> None:
        """Record how long an answer took, or was waited for in vain."""
        if seconds > self._lately():
            self._slowest, self._at = seconds, time.monotonic()

    def _lately(self) -> float:
        return self._slowest * math.exp2((self._at - time.monotonic()) / HALVES)


class Client:
    """A client of one API server; call `open` before the first request, and `close` at the end."""

    def __init__(self, manager: str, version: str, timeout: float, metrics: Metrics) -> None:
        #: The field manager, which is also the name in the user agent.
        self.manager = manager
        self.agent = f"{manager}/{version or '0'}"
        self._timeout, self._patience = timeout, Patience()
        # Less than a request has: a server that cannot be reached is not slow.
        self._connecting = aiohttp.ClientTimeout(total=None, sock_connect=0.9 * timeout)
        self._metrics = metrics
        self._session: aiohttp.ClientSession | None = None
        self._credentials: Credentials | None = None
        #: Returns whether a write may be sent; called just before each one. The manager sets it,
        #: once it is decided who leads.
        self.may_write: Callable[[], bool] = lambda: False
        self._clock = (0.0, time.time() - time.monotonic())
        self._user = ""

    def open(self, credentials: Credentials) -> None:
        """Open the session."""
        self._credentials = credentials
        self._session = session(
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": self.agent, "Accept": JSON, "Content-Type": JSON},
            proxy=credentials.proxy,
        )
        self._request = tracing.traced(self._session.request)

    async def close(self) -> None:
        """Close the session."""
        if self._session is not None:
            await self._session.close()

    def now(self) -> float:
        """Return the API server's time, in seconds of Unix time."""
        return time.monotonic() + self._clock[1]

    async def user(self) -> str:
        """Return as whom the API server knows this process; empty as long as it does not say."""
        if not self._user:
            review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
            with contextlib.suppress(ApiError, TimeoutError, LookupError):
                async with asyncio.timeout(_WHO):
                    answer = await self.ask("POST", path, review, fenced=False)
                self._user = answer["status"]["userInfo"]["username"]
        return self._user

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        query: str = "",
        fenced: bool = True,
        most: int | None = None,
    ) -> bytes:
        """Send one request and return the JSON of its answer; raise `ApiError`.

        A body of bytes is sent as it is, and so is the query. The error of a write that the fence
        stops has the reason `Fenced`; `fenced=False` sends it anyway, and is not patient: the Lease
        does not wait for a slow server. The error of an answer with more than `most` bytes has the
        reason `TooLarge`.
        """
        data = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
        started = time.monotonic()
        code = 0
        limit = self._patience.limit if fenced else asyncio.timeout
        try:
            async with limit(self._timeout):
                with fencing(self.may_write) if fenced else unfenced():
                    response = await self._send(method, path, query, data, content_type)
                async with response:
                    payload = await _read(response, most)
            code = response.status
            self._patience.answered(time.monotonic() - started)
            self._look_at_clock(response)
            if code >= 300:
                raise refusal(method, path, response, payload or b"")
            if payload is None:
                raise ApiError(method, path, 0, "TooLarge", f"more than {most} bytes")
            return payload
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

    async def lines(self, path: str, query: str) -> AsyncGenerator[bytes, None]:
        """Open a watch and yield its lines until the server ends it; raise `ApiError`.

        Do not wait for anything between two lines: its time counts as silence.
        """
        loop, code = asyncio.get_running_loop(), 0
        try:
            # No `wait_for`: before Python 3.12 it loses a cancellation that comes with the answer,
            # and the watch would go on while the operator waits for its end. No `sock_read`: it
            # takes ten times as long for each event.
            async with (
                asyncio.timeout(SILENCE) as silence,
                await self._send("GET", path, query) as response,
            ):
                code = response.status
                if code >= 300:
                    raise refusal("GET", path, response, await response.read())
                rest = b""
                async for chunk in response.content.iter_any():
                    silence.reschedule(loop.time() + SILENCE)
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in filter(None, lines):
                        yield line
        except (aiohttp.ClientError, TimeoutError, RuntimeError, ValueError) as error:
            raise await self._failed("GET", path, error) from error
        finally:
            self._metrics.api_requests.labels("WATCH", str(code)).inc()

    async def _send(
        self,
        method: str,
        path: str,
        query: str,
        data: bytes | None = None,
        content_type: str = JSON,
    ) -> aiohttp.ClientResponse:
        """Send a request with the credentials; after a 401, retry it with new ones, if any."""
        credentials = self._credentials
        if credentials is None:
            raise ApiError(method, path, 0, "NotConnected", "the session is not open yet")
        url = credentials.server + path + (f"?{query}" if query else "")
        await credentials.renew()
        while True:
            sent = credentials.headers
            response = await self._request(
                method,
                URL(url, encoded=True),  # no name needs to be quoted
                data=data,
                timeout=self._connecting,
                ssl=credentials.ssl,
                headers=sent if content_type == JSON else {**sent, "Content-Type": content_type},
                allow_redirects=False,  # a redirect would receive the token: CVE-2022-3172
            )
            if response.status != 401:
                return response
            await credentials.refresh()
            if credentials.headers == sent:
                return response
            response.release()

    def fenced(
        self, middlewares: Sequence[aiohttp.ClientMiddlewareType] = (), **arguments: Any
    ) -> aiohttp.ClientSession:
        """Return a session with these arguments for others, whose writes are fenced as ours are."""

        async def fence(
            request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
        ) -> aiohttp.ClientResponse:
            with unfenced() if reviewing() else fencing(self.may_write):
                return await handler(request)

        # The fence comes last, so it sees what the author's own middlewares send, too.
        return session(middlewares=(*middlewares, fence), **arguments)

    async def _failed(self, method: str, path: str, error: Exception) -> ApiError:
        """Return the error of a request without a usable answer."""
        if isinstance(error, aiohttp.ClientConnectorCertificateError) and self._credentials:
            await self._credentials.refresh()  # perhaps the CA was rotated
        reason = type(error).__name__.removesuffix("Error")
        return ApiError(method, path, 0, reason, describe_error(error))

    def _look_at_clock(self, response: aiohttp.ClientResponse) -> None:
        """Read the API server's time, which may differ from ours."""
        now = time.monotonic()
        if now - self._clock[0] > _CLOCK and (date := response.headers.get("Date")):
            with contextlib.suppress(ValueError, OverflowError):
                self._clock = now, parsedate_to_datetime(date).timestamp() - now


async def _read(response: aiohttp.ClientResponse, most: int | None) -> bytes | None:
    """Return the body of an answer, or None if it has too many bytes."""
    if most is None:
        return bytes(await response.read())
    parts, size = [], 0
    async for part in response.content.iter_any():
        parts.append(part)
        if (size := size + len(part)) > most:
            response.close()  # the rest is not read
            return None
    return b"".join(parts)
