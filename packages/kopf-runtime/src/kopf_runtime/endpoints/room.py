"""Divides what all clients share, so that none of them can keep it from the others.

`reviews` uses it for memory and for the processor.
"""

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from typing import NamedTuple


class _Waiting(NamedTuple):
    address: str
    size: int
    turn: asyncio.Future[None]


class Room:
    """Room of a fixed size, of which one address gets at most `each`.

    While `each` is at most half of `most`, one address never has to wait for another one; it waits
    for two or more. Addresses take turns then, and nobody overtakes, so that many small ones cannot
    keep out a large one.
    """

    def __init__(self, most: int, each: int) -> None:
        self._most, self._each = most, each
        self._taken: Counter[str] = Counter()
        self._waiting: list[_Waiting] = []
        self._last: dict[str, int] = {}  # when each address was let in
        self._count = itertools.count()

    @contextlib.asynccontextmanager
    async def part(self, address: str, size: int) -> AsyncIterator[None]:
        """Hold a part of the room during the block; `size` is at most `each`."""
        waiting = _Waiting(address, size, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._let_in()
        try:
            await waiting.turn
            yield
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            else:
                self._taken[address] -= size
            if not self._taken[address]:
                del self._taken[address]
                if not any(other.address == address for other in self._waiting):
                    self._last.pop(address, None)
            self._let_in()

    def _let_in(self) -> None:
        while True:
            first: dict[str, _Waiting] = {}
            for waiting in self._waiting:
                if not waiting.turn.done():  # else it has been cancelled
                    first.setdefault(waiting.address, waiting)
            able = [
                one for one in first.values() if self._taken[one.address] + one.size <= self._each
            ]
            following = min(able, key=lambda one: self._last.get(one.address, -1), default=None)
            if following is None or self._taken.total() + following.size > self._most:
                return
            self._waiting.remove(following)
            self._taken[following.address] += following.size
            self._last[following.address] = next(self._count)
            following.turn.set_result(None)
