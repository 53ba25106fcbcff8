"""The requests of an operator, and the proxy to the API server that lets faults happen to them.

A fault is a function that gets a call and a function to forward it, and decides what happens; the
ones below suffice for most tests. Watches are disturbed event by event. Faults are armed, and wait
for a matching call or event; if one in `unmet` never happened, the test fails at its end.
"""

import asyncio
import contextlib
import json
import re
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import aiohttp
from aiohttp import web


@dataclass(frozen=True)
class Call:
    """A request of the operator."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    at: float = field(default_factory=time.monotonic)

    @property
    def lease(self) -> bool:
        """Whether it is a request of the leader election."""
        return "/leases" in self.path

    @property
    def writes(self) -> bool:
        """Whether it may change something."""
        return self.method != "GET"

    @property
    def watch(self) -> bool:
        """Whether it asks for a stream of events."""
        return "watch" in self.query

    @property
    def lists(self) -> bool:
        """Whether it lists the objects of a kind, or a page of them."""
        plural = self.plural
        return bool(plural) and not (self.writes or self.watch) and self.path.endswith(plural)

    @property
    def plural(self) -> str:
        """The plural of its kind, such as pods; empty if it has none."""
        match = re.match(r"/(?:api|apis/[^/]+)/[^/]+(?:/namespaces/[^/]+)?/([^/]+)", self.path)
        return match[1] if match else ""


@dataclass(frozen=True)
class Answer:
    """The answer to the operator."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Write:
    """A write that reached the API server."""

    at: float
    who: str
    method: str
    path: str
    status: int
    body: bytes

    def __str__(self) -> str:
        return f"{self.at:.2f} {self.who}: {self.method} {self.path} -> {self.status}"


Forward = Callable[[], Awaitable[Answer]]
#: Returns the answer, or None to drop the connection without one.
Fault = Callable[[Call, Forward], Awaitable[Answer | None]]
Match = Callable[[Call], bool]
#: Gets an event of a watch as a line, and returns the line to forward, or None to drop it.
#: Raises `Cut` to end the stream.
Harm = Callable[[Call, bytes], bytes | None]
EventMatch = Callable[[Call, bytes], bool]


class Cut(Exception):  # noqa: N818 (no error: an order)
    """End the stream after these bytes."""

    def __init__(self, rest: bytes = b"") -> None:
        super().__init__()
        self.rest = rest


def nth_write(number: int, about: str = "") -> Match:
    """Match the n-th write that names the object, except writes of the Lease."""
    seen = 0

    def match(call: Call) -> bool:
        nonlocal seen
        if not call.writes or call.lease or not (about in call.path or about.encode() in call.body):
            return False
        seen += 1
        return seen == number

    return match


# --- faults ---------------------------------------------------------------------------------------


async def lose(_: Call, forward: Forward) -> None:
    """Let the server carry it out, but lose the answer."""
    await forward()


async def drop(_: Call, __: Forward) -> None:
    """Lose the request before it reaches the server."""


def refuse(status: int, reason: str, retry_after: int | None = None) -> Fault:
    """Return a fault that refuses the request as the API server would."""
    body = {
        "kind": "Status",
        "status": "Failure",
        "code": status,
        "reason": reason,
        "message": f"{reason}: this is a drill",
    }
    headers = {"Content-Type": "application/json"}
    if retry_after is not None:
        headers["Retry-After"] = str(retry_after)

    async def fault(_: Call, __: Forward) -> Answer:
        return Answer(status, json.dumps(body).encode(), headers)

    return fault


def delay(seconds: float) -> Fault:
    """Return a fault that forwards the request late."""

    async def fault(_: Call, forward: Forward) -> Answer:
        await asyncio.sleep(seconds)
        return await forward()

    return fault


def late(seconds: float) -> Fault:
    """Return a fault that forwards the request at once and the answer late."""

    async def fault(_: Call, forward: Forward) -> Answer:
        answer = await forward()
        await asyncio.sleep(seconds)
        return answer

    return fault


async def swallow(_: Call, __: Forward) -> None:
    """Accept the request, and never answer: a black hole."""
    await asyncio.sleep(3600)


async def garble(_: Call, forward: Forward) -> Answer:
    """Send half of the answer, which is invalid JSON."""
    answer = await forward()
    return Answer(answer.status, answer.body[: len(answer.body) // 2], answer.headers)


M = TypeVar("M")
F = TypeVar("F")


@dataclass
class Armed(Generic[M, F]):
    """A fault that waits for matching calls, or for matching events of watches."""

    match: M
    fault: F
    times: float
    #: Whether it is no mistake of the test if it is never met.
    may_miss: bool
    #: The test's line that armed it.
    where: str = field(default_factory=lambda: _line_of_test())
    hits: int = 0

    @property
    def waits(self) -> bool:
        """Whether it has not happened often enough yet."""
        return self.hits < self.times


def _line_of_test() -> str:
    """Return the file and line that called into this module."""
    here = (__file__, "<string>")  # the latter is what `dataclass` generates
    stack = reversed(traceback.extract_stack())
    caller = next(frame for frame in stack if frame.filename not in here)
    return f"{Path(caller.filename).name}:{caller.lineno}: {caller.line}"


class Proxy:
    """An HTTP server in front of the API server."""

    def __init__(self, server: str, session: aiohttp.ClientSession, log: list[Write], who: str):
        self._server = server
        self._session = session
        self._log = log
        self.who = who
        self._faults: list[Armed[Match, Fault]] = []
        self._harms: list[Armed[EventMatch, Harm]] = []
        self._open: dict[int, web.Request] = {}
        #: What the operator has asked, in order.
        self.calls: list[Call] = []
        #: The names that the operator behind it goes by in the Lease.
        self.identities: set[str] = set()
        self.url = ""
        self.on_port = 0

    def arm(
        self, match: Match, fault: Fault, times: float = 1, *, may_miss: bool = False
    ) -> Armed[Match, Fault]:
        """Inject the fault into the given number of the next matching calls."""
        armed = Armed(match, fault, times, may_miss)
        self._faults.append(armed)
        return armed

    def arm_events(
        self, match: EventMatch, harm: Harm, times: float = 1, *, may_miss: bool = False
    ) -> Armed[EventMatch, Harm]:
        """Disturb the given number of the next matching events of watches, see `arm`."""
        armed = Armed(match, harm, times, may_miss)
        self._harms.append(armed)
        return armed

    def disarm(self) -> None:
        """Remove all faults."""
        for armed in self._armed():
            armed.times = 0

    def _armed(self) -> list[Armed[Any, Any]]:
        return [*self._faults, *self._harms]

    def unmet(self) -> list[str]:
        """Return the lines that armed faults that never happened."""
        return [armed.where for armed in self._armed() if not (armed.hits or armed.may_miss)]

    def drop_connections(self) -> None:
        """Close all open connections."""
        for request in list(self._open.values()):
            if request.transport:
                request.transport.abort()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve one request."""
        call = Call(
            request.method,
            request.path,
            dict(request.query),
            dict(request.headers),
            await request.read(),
        )
        self.calls.append(call)
        if call.lease and call.body:
            self.identities.add(json.loads(call.body)["spec"].get("holderIdentity") or "")
        self._open[id(request)] = request
        try:
            answer = await self._harmed(call, request)
            if isinstance(answer, web.StreamResponse):
                return answer
            if answer is None:
                if request.transport:
                    request.transport.abort()
                return web.Response()
            return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
        except (aiohttp.ClientError, TimeoutError, ConnectionError):
            if request.transport:
                request.transport.abort()
            return web.Response()
        finally:
            del self._open[id(request)]

    async def _harmed(self, call: Call, request: web.Request) -> Answer | web.StreamResponse | None:
        for armed in self._faults:
            if armed.waits and armed.match(call):
                armed.hits += 1
                return await armed.fault(call, lambda: self._forward(call))
        if call.watch:
            return await self._stream(call, request)
        return await self._forward(call)

    def _outgoing(self, call: Call) -> dict[str, Any]:
        keep = ("Authorization", "Content-Type", "User-Agent", "Accept")
        return {
            "method": call.method,
            "url": self._server + call.path,
            "params": call.query,
            "data": call.body or None,
            "timeout": aiohttp.ClientTimeout(total=None),
            "headers": {name: call.headers[name] for name in keep if name in call.headers},
            "skip_auto_headers": ("Content-Type",),  # a client that sends none means JSON
        }

    async def _forward(self, call: Call) -> Answer:
        status = 0
        # Whatever becomes of the operator, a write that was passed on is carried out and logged.
        try:
            async with self._session.request(**self._outgoing(call)) as response:
                body = await response.read()
                status = response.status
                kept = {"Content-Type", "Retry-After"}
                headers = {k: v for k, v in response.headers.items() if k in kept}
                return Answer(status, body, headers)
        finally:
            if call.writes:
                self._log.append(
                    Write(time.monotonic(), self.who, call.method, call.path, status, call.body)
                )

    async def _stream(self, call: Call, request: web.Request) -> web.StreamResponse:
        async with self._session.request(**self._outgoing(call)) as upstream:
            downstream = web.StreamResponse(status=upstream.status)
            downstream.content_type = "application/json"
            await downstream.prepare(request)
            await downstream.write(b"\n")  # otherwise aiohttp holds the headers back
            rest = b""
            with contextlib.suppress(Cut):
                async for chunk in upstream.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        await self._pass(call, line, downstream, request)
            return downstream

    async def _pass(
        self, call: Call, line: bytes, downstream: web.StreamResponse, request: web.Request
    ) -> None:
        try:
            passed = self._harmed_event(call, line)
        except Cut as cut:
            await downstream.write(cut.rest)
            await asyncio.sleep(0.01)
            if request.transport:
                request.transport.abort()
            raise
        if passed is not None:
            await downstream.write(passed + b"\n")

    def _harmed_event(self, call: Call, line: bytes) -> bytes | None:
        for armed in self._harms:
            if armed.waits and armed.match(call, line):
                armed.hits += 1
                return armed.fault(call, line)
        return line


@asynccontextmanager
async def proxying(server: str, log: list[Write], who: str = "operator") -> AsyncIterator[Proxy]:
    """Run a proxy during the block."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=False), auto_decompress=True
    ) as session:
        proxy = Proxy(server, session, log, who)
        application = web.Application(client_max_size=2**24)
        application.router.add_route("*", "/{path:.*}", proxy.handle)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        proxy.on_port = runner.addresses[0][1]
        proxy.url = f"http://127.0.0.1:{proxy.on_port}"
        try:
            yield proxy
        finally:
            proxy.drop_connections()
            await runner.cleanup()
