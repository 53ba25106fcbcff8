"""The requests of an operator, and the faults that can happen to them.

A fault is a function that gets a call and a function to forward it, and decides what happens; the
ones below suffice for most tests. Watches are disturbed event by event.
"""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field


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
