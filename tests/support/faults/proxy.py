"""Between one operator and the API server: passes all on, logs each write, and does harm on demand.

A fault is a function that is handed a call and the means to pass it on, and decides what becomes
of it; the ones below are all that the tests need. Watches are harmed event by event. `unmet` tells
which faults were armed and never befell anything: with one of them, a test fails at its end.
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

Raw = dict[str, Any]


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
        """Whether it is the election's."""
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
        """Whether it asks for all objects of a kind, or for a page of them."""
        plural = self.plural
        return bool(plural) and not (self.writes or self.watch) and self.path.endswith(plural)

    @property
    def plural(self) -> str:
        """The kind that it is about, such as pods; empty if it is about none."""
        match = re.match(r"/(?:api|apis/[^/]+)/[^/]+(?:/namespaces/[^/]+)?/([^/]+)", self.path)
        return match[1] if match else ""


@dataclass(frozen=True)
class Answer:
    """What the operator is answered."""

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
#: Gives the answer, or None to have the connection dropped without one.
Fault = Callable[[Call, Forward], Awaitable[Answer | None]]
Match = Callable[[Call], bool]
#: Is handed an event of a watch as a line; returns the line to pass on, None to swallow it.
#: Raises ``Cut`` to end the stream.
Harm = Callable[[Call, bytes], bytes | None]
EventMatch = Callable[[Call, bytes], bool]

M = TypeVar("M")
F = TypeVar("F")


class Cut(Exception):  # noqa: N818 (no error: an order)
    """End the stream after these bytes."""

    def __init__(self, rest: bytes = b"") -> None:
        super().__init__()
        self.rest = rest


@dataclass
class Armed(Generic[M, F]):
    """A fault that waits for the calls, or for the events of watches, that match."""

    match: M
    fault: F
    times: float
    #: Whether it is no mistake of the test if it is never met.
    may_miss: bool
    #: The line that armed it.
    where: str = field(default_factory=lambda: _line_of_test())
    hits: int = 0

    @property
    def waits(self) -> bool:
        """Whether it is still to befall something."""
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
        """Have the fault befall the next so many calls that match."""
        armed = Armed(match, fault, times, may_miss)
        self._faults.append(armed)
        return armed

    def arm_events(
        self, match: EventMatch, harm: Harm, times: float = 1
    ) -> Armed[EventMatch, Harm]:
        """Harm the next so many events of watches that match."""
        armed = Armed(match, harm, times, may_miss=False)
        self._harms.append(armed)
        return armed

    def disarm(self) -> None:
        """Do no more harm."""
        for armed in self._armed():
            armed.times = 0

    def _armed(self) -> list[Armed[Any, Any]]:
        return [*self._faults, *self._harms]

    def unmet(self) -> list[str]:
        """Return where faults were armed that have befallen nothing."""
        return [armed.where for armed in self._armed() if not (armed.hits or armed.may_miss)]

    def drop_connections(self) -> None:
        """Cut all that is open."""
        for request in list(self._open.values()):
            if request.transport:
                request.transport.abort()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve one request."""
        call = Call(
            request.method, request.path, dict(request.query), dict(request.headers),
            await request.read(),
        )  # fmt: skip
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
            "method": call.method, "url": self._server + call.path, "params": call.query,
            "data": call.body or None, "timeout": aiohttp.ClientTimeout(total=None),
            "headers": {name: call.headers[name] for name in keep if name in call.headers},
        }  # fmt: skip

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
            await downstream.write(b"\n")  # else aiohttp keeps the headers back
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
    """Have a proxy while the block lasts."""
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


# --- faults ---------------------------------------------------------------------------------------


async def lose(_: Call, forward: Forward) -> None:
    """Have the server do it, and the operator never hear of it."""
    await forward()


async def drop(_: Call, __: Forward) -> None:
    """Let it never reach the server."""


def refuse(status: int, reason: str, retry_after: int | None = None) -> Fault:
    """Refuse it, as the API server would."""
    body = {"kind": "Status", "status": "Failure", "code": status, "reason": reason,
            "message": f"{reason}: this is a drill"}  # fmt: skip
    headers = {"Content-Type": "application/json"}
    if retry_after is not None:
        headers["Retry-After"] = str(retry_after)

    async def fault(_: Call, __: Forward) -> Answer:
        return Answer(status, json.dumps(body).encode(), headers)

    return fault


def delay(seconds: float) -> Fault:
    """Pass it on late."""

    async def fault(_: Call, forward: Forward) -> Answer:
        await asyncio.sleep(seconds)
        return await forward()

    return fault


def late(seconds: float) -> Fault:
    """Have the server do it at once, and the operator hear of it late."""

    async def fault(_: Call, forward: Forward) -> Answer:
        answer = await forward()
        await asyncio.sleep(seconds)
        return answer

    return fault


async def swallow(_: Call, __: Forward) -> None:
    """Take it, and never answer: a black hole."""
    await asyncio.sleep(3600)


async def garble(_: Call, forward: Forward) -> Answer:
    """Answer with half of it: no JSON."""
    answer = await forward()
    return Answer(answer.status, answer.body[: len(answer.body) // 2], answer.headers)


# --- calls ----------------------------------------------------------------------------------------


def nth_write(number: int, about: str = "") -> Match:
    """Match the n-th write that comes by and names the object, the Lease's aside."""
    seen = 0

    def match(call: Call) -> bool:
        nonlocal seen
        if not call.writes or call.lease or not (about in call.path or about.encode() in call.body):
            return False
        seen += 1
        return seen == number

    return match
