"""The work queue: it holds a key at most once, reconciles it in one task at a time, and is fair.

Sources, resyncs and the queue itself add keys; `engine` runs the queue while this replica
leads.
It works like client-go's rate-limiting work queue with its backoff per item, and adds jitter,
Retry-After, and fairness:

- Namespaces take turns, so a thousand keys of one do not delay the only key of another. An object
  without a namespace counts as one of its own.
- What has changed goes before what a list or a resync brings: a new object does not wait for a
  hundred thousand old ones. Every eighth turn is theirs all the same. What follows from a reconcile
  of a listed key, such as that its child is ready, goes behind the other listed keys if the caller
  says so: each object of a backlog has its child before the first one has its second status.
- A reconcile that takes longer than a second no longer occupies a worker, as long as there are not
  too many of them. It counts against its namespace, whose number of simultaneous reconciles is then
  limited for a while. So a namespace whose webhook hangs does not slow down the others. If it
  waits for an API outside the cluster, it counts alone: one that hangs for a few objects does not
  slow down the others of their namespace.

Adding a key and starting one cost the same however many wait.
"""

import asyncio
import contextvars
import logging
import random
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from kopf_runtime.cluster import tracing
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.errors import MAX_RETRY_SECONDS, RetryError
from kopf_runtime.declaring.kinds import Key
from kopf_runtime.reporting import logs

logger = logging.getLogger(__name__)

#: Seconds after which a reconcile is slow, and seconds for which its namespace is then slow.
SLOW, SLOW_FOR = 1.0, 30.0
#: Simultaneous slow reconciles: per namespace, and in total per worker, in the cluster and outside.
SLOW_EACH, SLOW_PER_WORKER, OUTSIDE_PER_WORKER = 4, 4, 32
#: Keys of a namespace that may be slow by themselves; the next one slows down the namespace.
SLOW_ALONE = 16
#: One turn of so many is of what was listed, even if there is always something that has changed.
_LISTED_TURN = 8

#: Longest delay if something happened during a reconcile that failed, even if it was its own doing.
SOON = 1.0

#: Reconciles a key; returns the seconds after which to requeue it, or None.
Reconcile = Callable[[Key], Awaitable[float | None]]


class _Turns:
    """Waiting keys by namespace: the namespaces take turns, each with its oldest key first."""

    def __init__(self) -> None:
        self._lanes: OrderedDict[str, OrderedDict[Key, None]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._lanes)

    def add(self, key: Key) -> None:
        self._lanes.setdefault(_lane(key), OrderedDict())[key] = None

    def discard(self, key: Key) -> bool:
        """Remove a key; return whether it was there."""
        keys = self._lanes.get(lane := _lane(key))
        if keys is None or key not in keys:
            return False
        del keys[key]
        if not keys:
            del self._lanes[lane]
        return True

    def next(self) -> Key:
        """Remove the key whose turn it is."""
        lane, keys = self._lanes.popitem(last=False)
        key, _ = keys.popitem(last=False)
        if keys:
            self._lanes[lane] = keys  # at the end: the other namespaces are first now
        return key

    def move(self, lane: str, to: "_Turns") -> None:
        """Move all keys of a namespace elsewhere, behind the keys that wait there already.

        The cost grows with the smaller of the two groups.
        """
        if (keys := self._lanes.pop(lane, None)) is None:
            return
        first = to._lanes.get(lane) or OrderedDict[Key, None]()
        if len(first) > len(keys):
            first.update(keys)
            return
        for key in reversed(first):
            keys[key] = None
            keys.move_to_end(key, last=False)
        to._lanes[lane] = keys

    def clear(self) -> None:
        self._lanes.clear()


class WorkQueue:
    """Deduplicating, fair queue with backoff per key: from `base` seconds, doubling up to `cap`."""

    def __init__(
        self,
        kind: str,
        reconcile: Reconcile,
        workers: int,
        metrics: Metrics,
        *,
        base: float = 0.005,
        cap: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reconcile, self._workers = reconcile, workers
        self._base, self._cap, self._clock = base, cap, clock
        self._waiting: dict[Key, float] = {}  # key -> when it was added
        self._changed, self._listed = _Turns(), _Turns()  # what waits for a worker
        self._since_listed = 0  # turns of what has changed since one of what was listed
        self._begun: set[Key] = set()  # reconciled as listed, until no listed key waits
        self._held = _Turns()  # what waits in slow namespaces,
        self._full = _Turns()  # and in those that have all the slow reconciles that they may have
        self._busy: dict[Key, float] = {}  # key -> when what may be slow of its reconcile began
        self._progress: dict[Key, float] = {}  # busy key -> when it began its last step
        self._slow: dict[Key, None] = {}  # busy keys that no longer occupy a worker
        self._slow_in: Counter[str] = Counter()
        self._outside: set[Key] = set()  # busy keys that wait for an API outside the cluster
        self._slow_until: dict[str | Key, float] = {}  # until when a namespace, or a key, is slow
        self._again: dict[Key, bool] = {}  # busy keys that were added again -> only as listed
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._not_before: dict[Key, float] = {}  # until when a Retry-After holds a key
        self._failures: dict[Key, int] = {}
        self._group: asyncio.TaskGroup | None = None
        self._context = contextvars.copy_context()
        self._reconciles = metrics.reconciles
        self._time = metrics.reconcile_time.labels(kind)
        self._adds = metrics.queue_adds.labels(kind)
        self._queue_time = metrics.queue_time.labels(kind)
        self._work_time = metrics.work_time.labels(kind)
        self._errors = metrics.reconcile_errors.labels(kind)
        self._retries = metrics.retries.labels(kind)
        self._kind = kind
        metrics.queue_depth.labels(kind).set_function(lambda: len(self._waiting))

    def __len__(self) -> int:
        return len(self._waiting)

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
        listed = listed or (follows and key in self._begun)
        if key in self._waiting:
            if not listed and self._turns_of(key) is self._changed:
                self._listed.discard(key)
                self._changed.add(key)  # no news if it was there before
            return
        if key in self._busy:
            self._again[key] = listed and self._again.get(key, True)
            return
        now = self._clock()
        if (wait := self._not_before.get(key, 0.0) - now) > 0:
            self.add_after(key, wait)
            return
        self._waiting[key] = now
        self._turns_of(key, listed=listed).add(key)
        self._adds.inc()
        self._pump()

    def add_after(self, key: Key, seconds: float) -> None:
        """Queue a key after a delay in seconds, unless it is due earlier already."""
        loop = asyncio.get_running_loop()
        when = loop.time() + min(MAX_RETRY_SECONDS, seconds)
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= when:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(when, self._due, key)

    def _due(self, key: Key) -> None:
        self._timers.pop(key, None)
        self.add(key, follows=True)

    def progress(self, key: Key) -> None:
        """Record that a reconcile begins its next step: it may have a thousand slow ones."""
        if key in self._busy:
            self._progress[key] = self._clock()

    @contextmanager
    def outside(self, key: Key) -> Iterator[None]:
        """Count what a reconcile waits for during the block against its key alone."""
        self._outside.add(key)
        try:
            yield
        finally:
            self._outside.discard(key)
            self._busy[key] = self._clock()  # whether it is slow from now on is another question

    def longest_running(self) -> float:
        """Return for how many seconds the longest step of a reconcile has been running, or 0."""
        return self._clock() - min(self._progress.values()) if self._progress else 0.0

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
                        self._excuse(self._clock() - due)
                        self._find_slow()
                finally:
                    self._group = None  # the group accepts no task while it waits for the last ones
        finally:
            for timer in self._timers.values():
                timer.cancel()
            # Including busy keys: a task that is cancelled before it begins does no cleanup.
            for state in (
                self._waiting,
                self._changed,
                self._listed,
                self._begun,
                self._held,
                self._full,
                self._busy,
                self._progress,
                self._slow,
                self._slow_in,
                self._outside,
                self._again,
                self._timers,
                self._not_before,
                self._failures,
                self._slow_until,
            ):
                state.clear()

    # --- who is next --------------------------------------------------------------------------

    def _turns_of(self, key: Key, *, listed: bool = False) -> _Turns:
        """Return where a key waits."""
        if (lane := _lane(key)) in self._slow_until or key in self._slow_until:
            return self._full if self._slow_in[lane] >= SLOW_EACH else self._held
        return self._listed if listed else self._changed

    def _move(self, key: Key) -> None:
        """Move a key to where it belongs, if it waits elsewhere."""
        place = self._turns_of(key)
        for other in (self._changed, self._held, self._full):
            if other is not place and other.discard(key):
                place.add(key)

    def _pump(self) -> None:
        """Start as many reconciles as allowed; the namespaces with waiting keys take turns."""
        if self._group is None:
            return
        while len(self._busy) - len(self._slow) < self._workers:
            if self._changed and not (self._listed and self._since_listed >= _LISTED_TURN - 1):
                self._since_listed += 1
                self._begun.discard(key := self._changed.next())
                self._start(key)
            elif self._listed:
                self._since_listed = 0
                self._begun.add(key := self._listed.next())
                self._start(key)
            else:
                break
        if not self._listed:
            self._begun.clear()
        while self._held and self._may_be_slow():
            self._start(key := self._held.next())
            self._is_slow(key)

    def _start(self, key: Key) -> None:
        assert self._group is not None
        now = self._clock()
        self._queue_time.observe(now - self._waiting.pop(key))
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()  # each reconcile says itself when the next one is due
        self._busy[key] = self._progress[key] = now
        self._group.create_task(
            self._work(key), name=f"{self._kind} {key[0]}/{key[1]}", context=self._context.copy()
        )

    def _may_be_slow(self) -> bool:
        """Tell whether one more reconcile may go on without a worker."""
        outside = len(self._slow.keys() & self._outside)
        return (
            len(self._slow) - outside < self._workers * SLOW_PER_WORKER
            and outside < self._workers * OUTSIDE_PER_WORKER
        )

    def _is_slow(self, key: Key) -> None:
        self._slow[key] = None
        self._slow_in[lane := _lane(key)] += 1
        if self._slow_in[lane] >= SLOW_EACH:
            self._held.move(lane, self._full)

    def _is_over(self, key: Key) -> None:
        if key in self._slow:
            del self._slow[key]
            lane = _lane(key)
            self._slow_in[lane] -= 1
            if self._slow_in[lane] < SLOW_EACH:
                self._full.move(lane, self._held)
            if not self._slow_in[lane]:
                del self._slow_in[lane]

    def _excuse(self, late: float) -> None:
        """Count no reconcile as slow for what this process itself was late, as by an author."""
        now = self._clock()
        for key, began in self._busy.items():
            self._busy[key] = min(now, began + max(0.0, late))

    def _find_slow(self) -> None:
        now = self._clock()
        alone = Counter(_lane(slow) for slow in self._slow_until if not isinstance(slow, str))
        for key, began in self._busy.items():
            if now - began > SLOW:
                lane, was_slow = _lane(key), key in self._slow_until
                if key in self._outside and (was_slow or alone[lane] < SLOW_ALONE):
                    self._slow_until[key] = now + SLOW_FOR
                    alone[lane] += not was_slow
                else:
                    self._slow_until[lane] = now + SLOW_FOR
                    for place in (self._changed, self._listed):
                        place.move(lane, self._turns_of(key))
                if key not in self._slow and self._may_be_slow():
                    self._is_slow(key)
        self._forget_slow(now)
        self._pump()

    def _forget_slow(self, now: float) -> None:
        """Let what has been slow for long enough wait like the others."""
        before = list(self._slow_until.items())
        for slow, until in before:
            if until < now:
                del self._slow_until[slow]
                if isinstance(slow, str):
                    self._held.move(slow, self._changed)
                    self._full.move(slow, self._changed)
        for slow, _ in before:  # a key may be slow though its namespace is not
            if not isinstance(slow, str):
                self._move(slow)

    # --- work ---------------------------------------------------------------------------------

    async def _work(self, key: Key) -> None:
        named = {"controller": self._kind, "namespace": key[0], "name": key[1]}
        about = {f"reconcile.{name}": value for name, value in named.items()}
        with tracing.span(f"reconcile {self._kind}", about):
            await self._attempt(key)

    async def _attempt(self, key: Key) -> None:
        result = "success"
        began = self._busy[key]
        self._again.pop(key, None)  # earlier events are observed now
        logs.about(key)
        try:
            after = await self._reconcile(key)
            self._failures.pop(key, None)
            self._not_before.pop(key, None)
            if after is not None:
                result = "requeue_after"
                self.add_after(key, after)
        except RetryError as error:
            result = "requeue"
            self._retry(key, error.after, error.pause, error.due)
            tracing.failed("RetryError", str(error))
            logger.log(logging.DEBUG if error.told else logging.INFO, "%s", error)
        except Exception as error:
            result = "error"
            self._errors.inc()
            self._retry(key)
            tracing.failed(type(error).__name__, str(error))
            logger.exception("The reconcile failed; it will be tried again")
        finally:
            del self._busy[key], self._progress[key]
            self._is_over(key)
            self._reconciles.labels(self._kind, result).inc()
            self._time.observe(took := self._clock() - began)
            self._work_time.observe(took)
        tracing.note("reconcile.result", result)
        if key in self._again:
            self.add(key, listed=self._again.pop(key))
        self._pump()

    def _retry(
        self, key: Key, after: float = 0.0, pause: float = 0.0, due: float | None = None
    ) -> None:
        self._retries.inc()
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        backoff = min(self._cap, self._base * 2 ** min(failures, 32))
        if after:
            self._not_before[key] = self._clock() + after
        # The jitter spreads the retries of keys that failed at the same time.
        backoff *= random.uniform(0.5, 1.0)  # noqa: S311
        if key in self._again:  # perhaps only because the failure was written into the status
            del self._again[key]
            pause, backoff = 0.0, min(backoff, SOON)
        delay = max(pause, backoff)
        self.add_after(key, max(after, delay if due is None else min(delay, due)))


def _lane(key: Key) -> str:
    """Return what a key takes turns for: its namespace, or itself if it has none."""
    return key[0] or key[1]
