"""The keyed work queue: each key waits at most once, and is worked on by one worker at a time.

``handlers``, the sweep and the queue itself add keys; ``controller`` runs the workers, and only
while this replica leads. Knows nothing of what a key stands for. The semantics are those of
client-go's work queue with its per-item exponential backoff, plus jitter and Retry-After.
"""

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable

from message_operator import logs, metrics
from message_operator.cache import Key

logger = logging.getLogger(__name__)

#: Reconciles a key; returns the seconds after which to look again, None for no need.
Reconcile = Callable[[Key], Awaitable[float | None]]


class RetryError(Exception):
    """Work on the key again, later: the longer, the more often it was asked for in a row."""

    def __init__(self, reason: str, *, after: float = 0.0) -> None:
        super().__init__(reason)
        #: The least seconds to wait (an API server's Retry-After).
        self.after = after


class WorkQueue:
    """Deduplicating queue with per-key backoff (``base`` doubling up to ``cap``, in seconds)."""

    def __init__(
        self, reconcile: Reconcile, workers: int, *, base: float = 0.005, cap: float = 60.0
    ) -> None:
        self._reconcile = reconcile
        self._workers = workers
        self._base, self._cap = base, cap
        self._waiting: dict[Key, float] = {}  # key -> when it was added
        self._order: deque[Key] = deque()
        self._busy: dict[Key, float] = {}  # key -> when its reconcile began
        self._again: set[Key] = set()  # busy keys that were added meanwhile
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._failures: dict[Key, int] = {}
        self._idle: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: Key) -> None:
        """Have the key reconciled soon."""
        if key in self._busy:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting[key] = time.monotonic()
            self._order.append(key)
            metrics.QUEUE_ADDS.inc()
            while self._idle:
                waiter = self._idle.popleft()
                if not waiter.done():
                    waiter.set_result(None)
                    break

    def add_after(self, key: Key, seconds: float) -> None:
        """Have the key reconciled in so many seconds; the earliest wish wins."""
        loop = asyncio.get_running_loop()
        when = loop.time() + seconds
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= when:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(when, self._due, key)

    def _due(self, key: Key) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def longest_running(self) -> float:
        """Tell for how many seconds the oldest reconcile has been under way; 0 if there is none."""
        return time.monotonic() - min(self._busy.values()) if self._busy else 0.0

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"worker {number}")

    async def _next(self) -> Key:
        while not self._order:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(waiter)
            await waiter
        return self._order.popleft()

    async def _work(self) -> None:
        while True:
            key = await self._next()
            now = time.monotonic()
            metrics.QUEUE_LATENCY.observe(now - self._waiting.pop(key))
            self._busy[key] = now
            result = "success"
            try:
                with logs.about(key):
                    after = await self._reconcile(key)
                self._failures.pop(key, None)
                if after is not None:
                    result = "requeue_after"
                    self.add_after(key, after)
            except asyncio.CancelledError:
                self._again.add(key)  # whoever leads next starts with it
                raise
            except RetryError as error:
                result = "requeue"
                self._retry(key, error.after)
                with logs.about(key):
                    logger.info("%s", error)
            except Exception:
                result = "error"
                self._retry(key, 0.0)
                with logs.about(key):
                    logger.exception("the reconcile failed; it will be tried again")
            finally:
                del self._busy[key]
                metrics.RECONCILES.labels(result).inc()
                metrics.RECONCILE_TIME.observe(time.monotonic() - now)
                if key in self._again:
                    self._again.discard(key)
                    self.add(key)

    def _retry(self, key: Key, after: float) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        backoff = min(self._cap, self._base * 2 ** min(failures, 32))
        # Jitter, so that keys that failed together do not come back together.
        self.add_after(key, max(after, backoff * random.uniform(0.5, 1.0)))  # noqa: S311
