"""Requests to the API server: each counted, bounded in time, and answered or refused.

One client serves the whole runtime, so there is one pool of connections and one place for
credentials. A fence checks each write just before it is sent: a replica that no longer leads sends
none. An earlier write may still arrive: its precondition stops it, or the next leader repairs it.
"""

import asyncio.sslproto
import contextlib
import functools
import logging
import math
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import msgspec

from kopf_runtime.cluster import fence, tracing
from kopf_runtime.cluster.credentials import Credentials
from kopf_runtime.cluster.failures import describe_error
from kopf_runtime.cluster.fence import fencing, reviewing, unfenced
from kopf_runtime.cluster.http import Answer, HttpError, UntrustedCertificateError
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.cluster.pool import Pool
from kopf_runtime.declaring.errors import ApiError
from kopf_runtime.declaring.objects import Failure

if TYPE_CHECKING:  # they are imported when they are used, and lightkube is an extra
    import aiohttp
    from lightkube import AsyncClient

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
#: Bytes of a refusal that are read: the API server's are short, and a proxy's page need not be.
_PAGE = 1024 * 1024
_FAILURE = msgspec.json.Decoder(Failure)
#: Characters of a reason; a webhook may answer with a megabyte, and one is kept for each object.
_REASON = 256
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
        # The requests under way with the usual time, and when it runs out, the first one first: a
        # timer of its own for each would cost more than what it is for.
        self._usual: dict[asyncio.Timeout, tuple[float, float]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def seconds(self, usual: float) -> float:
        """Return the seconds that the next request may take: as many as usual, at least."""
        return max(usual, min(PATIENT, 2 * self._lately()))

    def limit(self, usual: float) -> "_Limit":
        """Limit the time of the request that is sent in the block."""
        return _Limit(self, usual)

    def begin(self, limit: asyncio.Timeout, usual: float) -> None:
        """Count a request as under way with the usual time."""
        due = asyncio.get_running_loop().time() + usual
        self._usual[limit] = due, usual
        if self._timer is None:
            self._run_out()

    def end(self, limit: asyncio.Timeout, seconds: float) -> None:
        """Count a request as ended, after these seconds."""
        self._usual.pop(limit, None)
        if limit.expired():
            self.answered(seconds)

    def _run_out(self) -> None:
        """Give up the first request if it is late, and give the others twice the time."""
        loop, self._timer = asyncio.get_running_loop(), None
        first = next(iter(self._usual), None)
        if first is None:
            return
        if (due := self._usual[first][0]) > loop.time():
            self._timer = loop.call_at(due, self._run_out)
        else:
            for other, (due, usual) in self._usual.items():
                other.reschedule(0 if other is first else due + usual)
            self._usual.clear()

    def answered(self, seconds: float) -> None:
        """Record how long an answer took, or was waited for in vain."""
        if seconds > self._lately():
            self._slowest, self._at = seconds, time.monotonic()

    def _lately(self) -> float:
        return self._slowest * math.exp2((self._at - time.monotonic()) / HALVES)


class _Limit:
    """The block of `Patience.limit`."""

    def __init__(self, patience: Patience, usual: float) -> None:
        self._patience, self._usual = patience, usual

    async def __aenter__(self) -> None:
        seconds = self._patience.seconds(self._usual)
        self._began, self._longest = time.monotonic(), max(seconds, 2 * self._usual)
        calm = seconds == self._usual
        self._limit = await asyncio.timeout(None if calm else self._longest).__aenter__()
        if calm:
            self._patience.begin(self._limit, self._usual)

    async def __aexit__(self, *error: Any) -> None:
        self._patience.end(self._limit, min(self._longest, time.monotonic() - self._began))
        await self._limit.__aexit__(*error)


class Client:
    """A client of one API server; call `open` before the first request, and `close` at the end."""

    def __init__(self, manager: str, version: str, timeout: float, metrics: Metrics) -> None:
        #: The field manager, which is also the name in the user agent.
        self.manager = manager
        self.agent = f"{manager}/{version or '0'}"
        self._timeout, self._patience = timeout, Patience()
        # Less than a request has: a server that cannot be reached is not slow.
        self._connecting = 0.9 * timeout
        # To look a label up costs more than to count.
        self._count = functools.cache(
            lambda what, code: metrics.api_requests.labels(what, str(code))
        )
        self._duration = functools.cache(metrics.api_time.labels)
        self._headers = {"User-Agent": self.agent, "Accept": JSON}
        self._pool: Pool | None = None
        self._credentials: Credentials | None = None
        #: Returns whether a write may be sent; called just before each one. The manager sets it,
        #: once it is decided who leads.
        self.may_write: Callable[[], bool] = lambda: False
        self._clock = (0.0, time.time() - time.monotonic())
        self._user = ""

    def open(self, credentials: Credentials) -> None:
        """Open the pool of connections."""
        self._credentials = credentials
        self._pool = Pool(credentials.server, credentials.proxy)
        self._send = tracing.traced(self._pool.send, credentials.server)

    async def close(self) -> None:
        """End all connections."""
        if self._pool is not None:
            await self._pool.close()

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
                    answer = await self._answer(method, path, query, data, content_type)
                try:
                    payload = await answer.read(most)
                finally:
                    self.release(answer)
            code = answer.status
            self._patience.answered(time.monotonic() - started)
            self._look_at_clock(answer)
            if code >= 300:
                raise _refusal(method, path, answer, payload or b"")
            if payload is None:
                raise ApiError(method, path, 0, "TooLarge", f"more than {most} bytes")
            return payload
        except (HttpError, TimeoutError, RuntimeError, ValueError) as error:
            raise await self._failed(method, path, error) from error
        finally:
            self._count(method, code).inc()
            self._duration(method).observe(time.monotonic() - started)

    async def ask(self, method: str, path: str, body: Any = None, **options: Any) -> dict[str, Any]:
        """Send one request and return the decoded object of its answer; raise `ApiError`.

        A patch is a merge patch, unless its type is given.
        """
        if method == "PATCH":
            options.setdefault("content_type", MERGE_PATCH)
        payload = await self.request(method, path, body, **options)
        try:
            return msgspec.json.decode(payload, type=dict[str, Any]) if payload else {}
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:  # a proxy's page
            raise ApiError(method, path, 0, "BadAnswer", str(error)) from error

    async def open_answer(
        self, method: str, path: str, body: bytes | None, *, content_type: str, query: str
    ) -> tuple[Answer, bytes | None]:
        """Send one request; return its answer, and the body of a refusal. `release` it in the end.

        A refusal's body is empty if it is too long, and what is not refused is still to be read.
        """
        started, code = time.monotonic(), 0
        try:
            async with self._patience.limit(self._timeout):
                with fencing(self.may_write):
                    answer = await self._answer(method, path, query, body, content_type)
                try:
                    page = await answer.read(_PAGE) or b"" if answer.status >= 300 else None
                except BaseException:
                    self.release(answer)
                    raise
            code = answer.status
            self._patience.answered(time.monotonic() - started)
            return answer, page
        except (HttpError, TimeoutError, RuntimeError, ValueError) as error:
            raise await self._failed(method, path, error) from error
        finally:
            self._count(method, code).inc()
            self._duration(method).observe(time.monotonic() - started)

    def may_run(self, path: str) -> None:
        """Raise `ApiError` if nothing may run in a container now, which is fenced as a write."""
        with fencing(self.may_write):
            fence.check("POST", path)

    async def renewed(self, path: str) -> Credentials:
        """Return the credentials for a connection into a container; raise `ApiError`."""
        if (credentials := self._credentials) is None:
            raise ApiError("POST", path, 0, "NotConnected", "the session is not open yet")
        await credentials.renew()
        return credentials

    def lightkube(self, namespace: str) -> "AsyncClient":
        """Return a client of lightkube's in a namespace, whose requests are sent as ours are.

        `ImportError` says that the extra `client` is not installed.
        """
        from kopf_runtime.cluster import typed

        assert self._credentials is not None
        return typed.client(self, self._credentials.server, f"{self.manager}-client", namespace)

    async def lines(self, path: str, query: str) -> AsyncGenerator[bytes, None]:
        """Open a watch and yield its lines until the server ends it; raise `ApiError`.

        Do not wait for anything between two lines: its time counts as silence.
        """
        loop, code = asyncio.get_running_loop(), 0
        try:
            # No `wait_for`: before Python 3.12 it loses a cancellation that comes with the answer,
            # and the watch would go on while the operator waits for its end.
            async with asyncio.timeout(SILENCE) as silence:
                answer = await self._answer("GET", path, query)
                try:
                    code = answer.status
                    if code >= 300:
                        raise _refusal("GET", path, answer, await answer.read(_PAGE) or b"")
                    rest = b""
                    async for chunk in answer.chunks():
                        if (end := loop.time() + SILENCE) > (silence.when() or 0.0) + 1.0:
                            silence.reschedule(end)  # a timer for each chunk costs more
                        *lines, rest = (rest + chunk).split(b"\n")
                        for line in filter(None, lines):
                            yield line
                finally:
                    self.release(answer)
        except (HttpError, TimeoutError, RuntimeError, ValueError) as error:
            raise await self._failed("GET", path, error) from error
        finally:
            self._count("WATCH", code).inc()

    async def _answer(
        self,
        method: str,
        path: str,
        query: str,
        data: bytes | None = None,
        content_type: str = JSON,
    ) -> Answer:
        """Send a request with the credentials; after a 401, retry it with new ones, if any."""
        credentials = self._credentials
        if credentials is None:
            raise ApiError(method, path, 0, "NotConnected", "the session is not open yet")
        await credentials.renew()
        while True:
            sent = credentials.headers
            answer = await self._send(
                method,
                f"{path}?{query}" if query else path,
                {**self._headers, **sent, "Content-Type": content_type},
                data,
                tls=credentials.ssl,
                check=functools.partial(fence.check, method, path),
                seconds=self._connecting,
            )
            if answer.status != 401:
                return answer
            try:
                await answer.read(_PAGE)
                await credentials.refresh()
            except BaseException:
                self.release(answer)
                raise
            if credentials.headers == sent:
                return answer
            self.release(answer)

    def release(self, answer: Answer) -> None:
        """Give an answer's connection back; one whose body was not read to its end is closed."""
        assert self._pool is not None
        self._pool.release(answer)

    def fenced(
        self, middlewares: "Sequence[aiohttp.ClientMiddlewareType]" = (), **arguments: Any
    ) -> "aiohttp.ClientSession":
        """Return a session with these arguments for others, whose writes are fenced as ours are."""
        from kopf_runtime.cluster.sessions import session

        async def fenced(
            request: "aiohttp.ClientRequest", handler: "aiohttp.ClientHandlerType"
        ) -> "aiohttp.ClientResponse":
            with unfenced() if reviewing() else fencing(self.may_write):
                return await handler(request)

        # The fence comes last, so it sees what the author's own middlewares send, too.
        return session(middlewares=(*middlewares, fenced), **arguments)

    async def _failed(self, method: str, path: str, error: Exception) -> ApiError:
        """Return the error of a request without a usable answer."""
        if isinstance(error, UntrustedCertificateError) and self._credentials:
            await self._credentials.refresh()  # perhaps the CA was rotated
        reason = type(error).__name__.removesuffix("Error")
        return ApiError(method, path, 0, reason, describe_error(error))

    def _look_at_clock(self, answer: Answer) -> None:
        """Read the API server's time, which may differ from ours."""
        now = time.monotonic()
        if now - self._clock[0] > _CLOCK and (date := answer.headers.get("date")):
            with contextlib.suppress(ValueError, OverflowError):
                self._clock = now, parsedate_to_datetime(date).timestamp() - now


def _refusal(method: str, path: str, answer: Answer, payload: bytes) -> ApiError:
    """Return the error of a request that was answered with a refusal."""
    try:
        failure = _FAILURE.decode(payload)
    except (msgspec.MsgspecError, RecursionError):  # not from the API server: a proxy's page
        failure = Failure(payload[:500].decode(errors="replace"))
    after = answer.headers.get("retry-after", "")
    return ApiError(
        method,
        path,
        answer.status,
        (failure.reason or answer.reason)[:_REASON],
        failure.message[:2000],
        min(float(after), 600.0) if after.isdecimal() and len(after) < 10 else 0.0,
        (failure.details.kind[:_REASON], failure.details.name[:_REASON]),
    )
