"""The work queue: it holds a key at most once, reconciles it in one task at a time, and is fair.

Sources, resyncs and the queue itself add keys; `process.runtime` runs it while this replica leads.
It works like client-go's rate-limiting work queue with its backoff per item, and adds jitter,
Retry-After, and the order of `fairness`.
"""

import asyncio
import contextvars
import functools
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import msgspec

from kopf_runtime.cluster import tracing
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.errors import MAX_RETRY_SECONDS
from kopf_runtime.declaring.kinds import Key
from kopf_runtime.reporting import logs
from kopf_runtime.reporting.troubles import Outcome
from kopf_runtime.working.fairness import SLOW, Fairness, Item

logger = logging.getLogger(__name__)

#: Longest delay if something happened during a reconcile that failed, even if it was its own doing.
SOON = 1.0

#: Reconciles a key; returns when to do that again.
Reconcile = Callable[[Key], Awaitable[Outcome]]


class Retries(msgspec.Struct, frozen=True):
    """Delays of a key that fails: from `base` seconds, doubling up to `cap`."""

    base: float = 0.005
    cap: float = 60.0

    def delay(self, failures: int, outcome: Outcome, *, news: bool) -> float:
        """Return the seconds after which a key is tried again that failed so often in a row.

        `news` says that it was added meanwhile, perhaps only because its status tells of the
        failure.
        """
        # The jitter spreads the retries of keys that failed at the same time.
        jitter = random.uniform(0.5, 1.0)  # noqa: S311
        delay = min(self.cap, self.base * 2.0 ** min(failures, 32)) * jitter
        again = min(MAX_RETRY_SECONDS, outcome.again or 0.0)  # 600 if it is NaN
        delay = min(delay, SOON) if news else max(delay, again)
        due = delay if outcome.due is None else min(delay, outcome.due)
        return max(outcome.not_before, due)


class WorkQueue:
    """Deduplicating, fair queue with backoff per key."""

    def __init__(
        self,
        kind: str,
        reconcile: Reconcile,
        workers: int,
        metrics: Metrics,
        retries: Retries | None = None,
        rate: float = float("inf"),
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reconcile, self._workers, self._clock = reconcile, workers, clock
        self._items: dict[Key, Item] = {}
        self._fairness = Fairness(workers)
        self._waiting = 0  # items that wait for a worker
        self._retries = retries or Retries()
        # Seconds between two reconciles, and when the next one may begin.
        self._apart, self._next = 1.0 / rate, 0.0
        self._later: asyncio.TimerHandle | None = None
        self._group: asyncio.TaskGroup | None = None
        self._kind = kind
        metrics.queue_depth.labels(kind).set_function(lambda: self._waiting)
        # They are 0 until something happens, not missing.
        self._adds, self._retried = metrics.queue_adds.labels(kind), metrics.retries.labels(kind)
        self._errors = metrics.reconcile_errors.labels(kind)
        self._queued = metrics.queue_time.labels(kind)
        self._took = metrics.reconcile_time.labels(kind), metrics.work_time.labels(kind)
        self._results = functools.cache(lambda result: metrics.reconciles.labels(kind, result))

    def __len__(self) -> int:
        return self._waiting

    @property
    def running(self) -> bool:
        """Whether the queue accepts keys: a standby's queue stays empty."""
        return self._group is not None

    def add(self, key: Key, *, listed: bool = False, follows: bool = False) -> None:
        """Queue a key, behind all that has changed if it was only listed.

        It also goes there if that `follows` from its last reconcile, and it was only listed then.
        """
        if self._group is None:
            return
        listed = listed or (follows and self._fairness.began_listed(key))
        item = self._item(key)
        if item.added is not None:
            if not listed:
                self._fairness.prefer(key)
        elif item.began is not None:
            item.again = listed and item.again is not False
        elif (wait := item.not_before - self._clock()) > 0:
            self.add_after(key, wait)
        else:
            item.added = self._clock()
            self._waiting += 1
            self._fairness.add(key, listed=listed)
            self._adds.inc()
            self._pump()

    def add_after(self, key: Key, seconds: float) -> None:
        """Queue a key after a delay in seconds, unless it is due earlier already."""
        if self._group is None:
            return
        loop, item = asyncio.get_running_loop(), self._item(key)
        when = loop.time() + min(MAX_RETRY_SECONDS, seconds)
        if item.timer is not None:
            if item.timer.when() <= when:
                return
            item.timer.cancel()
        item.timer = loop.call_at(when, self._due, item)

    def _due(self, item: Item) -> None:
        item.timer = None
        self.add(item.key, follows=True)

    def _item(self, key: Key) -> Item:
        if (item := self._items.get(key)) is None:
            item = self._items[key] = Item(key)
        return item

    def progress(self, key: Key) -> None:
        """Record that a reconcile begins its next step: it may have a thousand slow ones."""
        if (item := self._items.get(key)) is not None:
            item.step = self._clock()

    @contextmanager
    def outside(self, key: Key) -> Iterator[None]:
        """Count what a reconcile waits for during the block against its key alone."""
        item = self._items.get(key) or Item(key)
        item.outside = True
        try:
            yield
        finally:
            item.outside = False
            item.began = self._clock()  # whether it is slow from now on is another question

    @property
    def working(self) -> int:
        """The number of objects that are being reconciled."""
        return len(self._fairness.running)

    def longest_running(self) -> float:
        """Return for how many seconds the longest step of a reconcile has been running, or 0."""
        steps = [item.step for item in self._fairness.running.values()]
        return self._clock() - min(steps) if steps else 0.0

    async def run(self, keys: Callable[[], list[Key]]) -> None:
        """Reconcile until cancelled, starting with all existing keys."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                # What a task says of itself, such as its trace, is not for those that it starts.
                self._context = contextvars.copy_context()
                try:
                    for key in keys():
                        self.add(key, listed=True)
                    while True:
                        due = self._clock() + SLOW / 2
                        await asyncio.sleep(SLOW / 2)
                        now = self._clock()
                        self._fairness.look(now, now - due)
                        self._pump()
                finally:
                    self._group = None  # the group accepts no task while it waits for the last ones
        finally:
            for item in self._items.values():
                if item.timer is not None:
                    item.timer.cancel()
            # Including busy keys: a task that is cancelled before it begins does no cleanup.
            self._items, self._fairness, self._waiting = {}, Fairness(self._workers), 0

    def _pump(self) -> None:
        """Start as many reconciles as allowed."""
        while self._group is not None and self._may_begin():
            if (key := self._fairness.next()) is None:
                return
            item, now = self._items[key], self._clock()
            # Those that a second without any has saved may come at once.
            self._next = max(self._next, now - 1.0) + self._apart
            assert item.added is not None
            self._queued.observe(now - item.added)
            item.added = None
            self._waiting -= 1
            if item.timer is not None:
                item.timer.cancel()  # each reconcile says itself when the next one is due
                item.timer = None
            self._fairness.begin(item, now)
            name, context = f"{self._kind} {key[0]}/{key[1]}", self._context.copy()
            self._group.create_task(self._work(item), name=name, context=context)

    def _may_begin(self) -> bool:
        """Return whether the rate allows another reconcile; if not, ask again when it does."""
        if (wait := self._next - self._clock()) <= 0:
            return True
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(wait, self._pump_later)
        return False

    def _pump_later(self) -> None:
        self._later = None
        self._pump()

    async def _work(self, item: Item) -> None:
        named = {"controller": self._kind, "namespace": item.key[0], "name": item.key[1]}
        about = {f"reconcile.{name}": value for name, value in named.items()}
        with tracing.span(f"reconcile {self._kind}", about):
            await self._attempt(item)

    async def _attempt(self, item: Item) -> None:
        key, result, began = item.key, "success", item.step
        item.again = None  # earlier events are observed now
        logs.about(key)
        try:
            outcome = await self._reconcile(key)
            if outcome.fails:
                result = "requeue"
                self._retry(item, outcome)
                tracing.failed("RetryError", outcome.why)
                logger.log(logging.DEBUG if outcome.reported else logging.INFO, "%s", outcome.why)
            else:
                item.failures, item.not_before = 0, 0.0
                if outcome.again is not None:
                    result = "requeue_after"
                    self.add_after(key, outcome.again)
        except Exception as error:
            result = "error"
            self._errors.inc()
            self._retry(item, Outcome())
            tracing.failed(type(error).__name__, str(error))
            logger.exception("The reconcile failed; it will be tried again")
        finally:
            self._fairness.end(item)
            took = self._clock() - began
            self._results(result).inc()
            for histogram in self._took:
                histogram.observe(took)
        tracing.note("reconcile.result", result)
        listed, item.again = item.again, None
        if listed is not None:
            self.add(key, listed=listed)
        elif item.timer is None and not item.failures:
            del self._items[key]  # nothing is left to know of it
        self._pump()

    def _retry(self, item: Item, outcome: Outcome) -> None:
        self._retried.inc()
        item.failures += 1
        if outcome.not_before:
            item.not_before = self._clock() + min(MAX_RETRY_SECONDS, outcome.not_before)
        news, item.again = item.again is not None, None
        self.add_after(item.key, self._retries.delay(item.failures, outcome, news=news))
