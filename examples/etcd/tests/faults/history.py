"""Clients that write and read without pause, and the checks of what etcd acknowledged.

Each value is written once, and etcd says at which revision it answered. So the order of all
operations is known: whether they were strictly serializable is checked without any search. A second
opinion is porcupine's, by the clock, of the calls of each key alone. It believes these revisions
for one thing: whether and until when a write without an answer took effect. With a dozen of those
that may take effect at any time, or never, its search would not end.
"""

import asyncio
import base64
import bisect
import itertools
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp

COUNT = itertools.count()
Write = tuple[int, str, str]  # a revision, a key and a value


@dataclass
class Operation:
    """One call of a client; `end` is infinite while nobody knows what has become of it."""

    key: str
    #: What was written; None for a read.
    value: str | None
    start: float
    end: float = float("inf")
    revision: int = 0
    #: What a read has seen.
    seen: tuple[int, str] = (0, "")


@dataclass
class Clients:
    """Clients of members that `choose` returns the URL of, if there is one."""

    session: aiohttp.ClientSession
    choose: Callable[[], str | None]
    operations: list[Operation] = field(default_factory=list)
    #: The longest time without an acknowledged write, in seconds.
    longest: float = 0.0
    #: How they connect, if they need certificates.
    options: dict[str, Any] = field(default_factory=dict)
    #: The part of the history that a restore has left, and the first revision after it.
    past: list[Write] = field(default_factory=list)
    since: int = 1
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._work(n)) for n in range(3)]

    async def stop(self) -> None:
        """End; raise what ended one of the clients before, which is a fault of this test."""
        for task in self._tasks:
            if task.done():
                task.result()
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    @property
    def acknowledged(self) -> int:
        return sum(call.value is not None and call.revision > 0 for call in self.operations)

    async def _work(self, number: int) -> None:
        clock = asyncio.get_running_loop().time
        last = clock()
        while True:
            await asyncio.sleep(0.03)
            if (url := self.choose()) is None:
                continue
            key = f"k{random.randrange(5)}"  # noqa: S311
            call = Operation(key, None if number == 2 else f"{number}-{next(COUNT)}", clock())
            self.operations.append(call)
            try:
                await self._call(url, call)
            except (aiohttp.ClientError, TimeoutError):
                continue
            call.end = clock()
            if call.value is not None:
                self.longest, last = max(self.longest, call.end - last), call.end

    async def _call(self, url: str, call: Operation) -> None:
        if call.value is not None:
            body = {"key": _b64(call.key), "value": _b64(call.value)}
            answer = await self.ask(f"{url}/v3/kv/put", body)
        else:
            answer = await self.ask(f"{url}/v3/kv/range", {"key": _b64(call.key)})
            for pair in answer.get("kvs", ()):
                call.seen = int(pair["mod_revision"]), _text(pair["value"])
        call.revision = int(answer["header"]["revision"])

    async def ask(self, url: str, body: Any) -> Any:
        limit = aiohttp.ClientTimeout(total=5, sock_connect=1)
        async with self.session.post(
            url, json=body, timeout=limit, raise_for_status=True, **self.options
        ) as got:
            return await got.json(content_type=None)

    async def history(self, url: str) -> list[Write]:
        """Return all writes that ever took effect."""
        until, since = await self.revision(url), str(self.since)
        body = {"create_request": {"key": "AA==", "range_end": "AA==", "start_revision": since}}
        writes: list[Write] = []
        limit = aiohttp.ClientTimeout(total=60)
        async with self.session.post(
            f"{url}/v3/watch", json=body, timeout=limit, read_bufsize=2**24, **self.options
        ) as stream:
            async for line in stream.content:
                for event in json.loads(line)["result"].get("events", ()):
                    pair = event["kv"]
                    write = int(pair["mod_revision"]), _text(pair["key"]), _text(pair["value"])
                    writes.append(write)
                if until < max(self.since, 2) or (writes and writes[-1][0] >= until):
                    break
        return [*self.past, *writes]

    async def revision(self, url: str) -> int:
        return int((await self.ask(f"{url}/v3/kv/range", {"key": "AA=="}))["header"]["revision"])

    def go_back(self, operations: list[Operation], past: list[Write], revision: int) -> None:
        """Forget what came after a backup, from which a restore goes on after a revision."""
        kept, last = {value for _, _, value in past}, past[-1][0] if past else 1
        self.operations = [
            call
            for call in operations
            if (call.revision <= last if call.revision else call.value in kept)
        ]
        self.past, self.since = past, revision + 1


def wrong(operations: list[Operation], history: list[Write]) -> list[str]:
    """Return what contradicts strict serializability, or is lost."""
    by_value = {value: revision for revision, _, value in history}
    at = {revision: (key, value) for revision, key, value in history}
    issued = {call.value for call in operations}
    writes: dict[str, list[tuple[int, str]]] = {}
    for revision, key, value in history:
        writes.setdefault(key, []).append((revision, value))
    faults = [f"nobody wrote {value}" for value in by_value if value not in issued]
    if len(by_value) != len(history):
        faults.append("a value took effect twice")
    timed = []
    for call in operations:
        written = call.key, call.value
        if call.value is not None and call.revision and at.get(call.revision) != written:
            faults.append(f"lost: {call}")
        if call.value is None and call.revision:
            theirs = writes.get(call.key, [])
            place = bisect.bisect_right(theirs, call.revision, key=lambda write: write[0])
            if call.seen != (theirs[place - 1] if place else (0, "")):
                faults.append(f"stale: {call}")
        if revision := call.revision or by_value.get(call.value or "", 0):
            timed.append((call, revision))
    ended = sorted(timed, key=lambda pair: pair[0].end)
    highest = place = 0
    for call, revision in sorted(timed, key=lambda pair: pair[0].start):
        while ended[place][0].end < call.start:
            highest = max(highest, ended[place][1])
            place += 1
        if revision < highest or (call.value is not None and revision == highest):
            faults.append(f"{call} is older than {highest}, which had ended before")
    return faults


def settled(operations: list[Operation], history: list[Write]) -> list[Operation]:
    """Return the calls; of those without an answer, only writes that took effect, with an end."""
    revisions: dict[str | None, int] = {value: revision for revision, _, value in history}
    ends = [(call.revision, call.end) for call in operations if call.revision]

    def end(value: str | None) -> float:
        return min((end for at, end in ends if at >= revisions[value]), default=float("inf"))

    return [
        call if call.revision else replace(call, end=end(call.value))
        for call in operations
        if call.revision or call.value in revisions
    ]


async def unexplained(operations: list[Operation], history: list[Write]) -> str:
    """Return the keys whose calls have no order that explains every answer."""
    from kopf_kit.rig import tools  # which a Pod of tests/e2e, where this runs, too, lacks

    [program] = await asyncio.to_thread(tools.built, "linearizable")
    calls = [
        {
            "key": call.key,
            "value": call.value,
            "seen": call.seen[1],
            "start": call.start,
            "end": call.end if call.end < float("inf") else None,
        }
        for call in settled(operations, history)
    ]
    process = await asyncio.create_subprocess_exec(
        program, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    complaint, _ = await process.communicate("\n".join(map(json.dumps, calls)).encode())
    assert (process.returncode == 0) == (not complaint), process.returncode
    return complaint.decode()


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _text(data: str) -> str:
    return base64.b64decode(data).decode()
