"""The requests of an operator, and what may befall them.

A fault is a function that is handed a call and the means to pass it on, and decides what becomes
of it; the ones below are all that most tests need. Watches are harmed event by event.
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


class Cut(Exception):  # noqa: N818 (no error: an order)
    """End the stream after these bytes."""

    def __init__(self, rest: bytes = b"") -> None:
        super().__init__()
        self.rest = rest


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
