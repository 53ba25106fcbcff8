"""Carries a client's requests to the tests' API server in virtual time, without a network.

A request and its answer may each be late or lost, and the server may refuse it. A request goes on
when its sender gives up or ends.
"""

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from kopf_runtime.cluster import fence
from kopf_runtime.cluster.client import JSON, Client
from kopf_runtime.cluster.metrics import Metrics
from runtime.support.api_server import _PATH, ApiServer, RefusedError
from runtime.support.running import NAME

#: Seconds after which a request arrives at the latest, and its answer.
ARRIVES, ANSWERED = 4.0, 20.0


@dataclass
class _Request:
    """What the server reads of a request."""

    method: str
    path: str
    query: Mapping[str, str]
    content_type: str
    headers: Mapping[str, str]
    data: bytes

    async def read(self) -> bytes:
        return self.data

    async def json(self) -> Any:
        return json.loads(self.data)


@dataclass
class _Answer:
    """An answer as `http` gives it."""

    status: int
    body: bytes = b""
    reason: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    stream: AsyncGenerator[bytes, None] | None = None

    async def read(self, _: int | None = None) -> bytes:
        return self.body

    def chunks(self) -> AsyncGenerator[bytes, None]:
        assert self.stream is not None
        return self.stream


class Wire(Client):
    """A client of the server; `calm` ends its faults."""

    def __init__(self, server: ApiServer, draw: random.Random) -> None:
        super().__init__(NAME, "1", 5.0, Metrics(NAME))
        self.server, self.draw, self.calm = server, draw, False
        self._sent = set[asyncio.Task[_Answer]]()

    async def _answer(
        self,
        method: str,
        path: str,
        query: str,
        data: bytes | None = None,
        content_type: str = JSON,
    ) -> Any:
        fence.check(method, path)
        agent = {"User-Agent": self.agent}
        asked = _Request(method, path, dict(parse_qsl(query)), content_type, agent, data or b"")
        if "watch" in asked.query:
            await asyncio.sleep(self._late(ARRIVES))
            return _Answer(200, stream=self._stream(asked))
        self._sent.add(sent := asyncio.ensure_future(self._carry(asked)))
        sent.add_done_callback(self._sent.discard)
        return await asyncio.shield(sent)

    def release(self, _: Any) -> None:
        """Do nothing: there is no connection."""

    def _late(self, most: float) -> float:
        slow = not self.calm and self.draw.random() < 0.2
        return self.draw.uniform(0, most if slow else 0.02)

    async def _carry(self, asked: Any) -> _Answer:
        fault = "" if self.calm else self.draw.choice([""] * 30 + ["lost", "unanswered", "refused"])
        await asyncio.sleep(self._late(ARRIVES))
        if fault == "lost":
            await asyncio.sleep(1000)
        if fault == "refused":
            error = RefusedError(self.draw.choice((403, 409, 429, 500)), "Drawn")
            answer: Any = error.response()
        else:
            answer = await self.server._answer(asked)
        await asyncio.sleep(1000 if fault == "unanswered" else self._late(ANSWERED))
        return _Answer(answer.status, answer.body)

    async def _stream(self, asked: _Request) -> AsyncGenerator[bytes, None]:
        match = _PATH.fullmatch(asked.path)
        assert match is not None
        named = match["group"] or "", match["plural"]
        (kind,) = (k for k in self.server.kinds if (k.group, k.plural) == named)
        with self.server.watched(kind, match["namespace"], asked.query) as queue:
            while (line := await queue.get()) is not None:
                await asyncio.sleep(self._late(ANSWERED))
                if self.calm or self.draw.random() > 0.02:
                    yield line
