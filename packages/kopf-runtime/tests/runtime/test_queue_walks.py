"""Drawn walks of the work queue, and what it promises in each: nothing is lost, nor done twice."""

import asyncio
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress

import pytest

from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.kinds import Key
from kopf_runtime.reporting.troubles import DONE, Outcome
from kopf_runtime.working.fairness import SLOW, SLOW_EACH, SLOW_PER_WORKER
from kopf_runtime.working.queue import WorkQueue
from runtime.support.waiting import in_virtual_time, now

#: Seconds by which a reconcile may be late though a worker is free.
SLACK = 0.05
KEYS = [(f"ns-{number % 3}", str(number)) for number in range(7)]


class Walk:
    """A queue whose quick reconciles do and end as is drawn, and what is known of each key."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)  # noqa: S311 (the seed is in the test's name)
        self.workers = self.dice.choice((1, 2, 16))
        self.queue = WorkQueue("things", self, self.workers, Metrics("test"), clock=now)
        self.calm = False
        self.broken: list[str] = []
        self.busy: set[Key] = set()
        #: By when each key has to begin, and before when it must not.
        self.due: dict[Key, float] = {}
        self.held: dict[Key, float] = defaultdict(lambda: -math.inf)

    async def __call__(self, key: Key) -> Outcome:
        """Check that a reconcile may begin now, and end as is drawn."""
        # The queue would take an assertion for an error of the author's.
        if key in self.busy:
            self.broken.append(f"{key} has two workers")
        if now() < self.held[key]:
            self.broken.append(f"{key} does not wait")
        if now() > self.due.pop(key, math.inf) + SLACK:
            self.broken.append(f"{key} is late")
        self.busy.add(key)
        try:
            await asyncio.sleep(self.dice.uniform(0.0, 0.001))
            news = not self.calm and self.dice.random() < 0.3
            if news:
                self.queue.add(key, listed=self.dice.random() < 0.5)
            return self._ended(key, news=news)
        finally:
            self.busy.discard(key)

    def _ended(self, key: Key, *, news: bool) -> Outcome:
        how = (
            "well" if self.calm else self.dice.choice(("well", "again", "retry", "after", "error"))
        )
        if how in ("well", "again"):
            self.held.pop(key, None)
            again = self.dice.choice((0.5, 20.0)) if how == "again" else None
            self._expect(key, 0.0 if news else again)
            return Outcome(again=again)
        self._expect(key, 1.0 if news else 60.0)
        if how == "error":
            raise ValueError("unforeseen")
        after = self.dice.choice((1.0, 30.0)) if how == "after" else 0.0
        if after:
            self.held[key] = now() + after
            self.due[key] = max(self.due[key], now() + after)
        elif not news:
            self.due[key] = now() + 60.0
        return Outcome(why="not yet", not_before=after, fails=True)

    def _expect(self, key: Key, seconds: float | None) -> None:
        if seconds is not None:
            when = max(now() + seconds, self.held[key])
            self.due[key] = min(self.due.get(key, math.inf), when)

    def step(self) -> None:
        """Do something to the queue from outside."""
        key, seconds = self.dice.choice(KEYS), self.dice.choice((0.0, 3.0, 40.0))
        if self.dice.random() < 0.3:
            self.queue.add_after(key, seconds)
        else:
            self.queue.add(key, listed=self.dice.random() < 0.5)
            seconds = 0.0
        # What is queued during a reconcile may wait for as long as that fails.
        if key not in self.busy:
            self._expect(key, seconds)

    def late(self) -> list[Key]:
        """Return the keys that should have begun by now."""
        return [
            key for key, due in self.due.items() if key not in self.busy and due + SLACK < now()
        ]


@pytest.mark.parametrize("seed", range(100))
@in_virtual_time
async def test_a_walk_loses_no_key_works_on_none_twice_and_is_never_late(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(2):  # it leads twice
        walk.due.clear()
        walk.held.clear()
        walk.calm = False
        task = asyncio.create_task(walk.queue.run(lambda: list(KEYS)))
        for key in KEYS:
            walk.due[key] = now()
        for _ in range(60):
            await asyncio.sleep(walk.dice.choice((0.0, 0.01, 2.0)))
            walk.step()
            assert (walk.late(), walk.broken) == ([], [])
        walk.calm = True
        await asyncio.sleep(100)
        assert (walk.due, len(walk.queue), walk.broken) == ({}, 0, [])
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        walk.step()
        await asyncio.sleep(100)
        assert len(walk.queue) == 0
        assert not walk.busy


class Backlog:
    """A queue with one or two workers and more keys than they can do, and who began in which order.

    The namespaces have very different numbers of keys, some listed and some changed; each is queued
    once more by its own reconcile, as by its child.
    """

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)  # noqa: S311 (the seed is in the test's name)
        self.workers = self.dice.choice((1, 2))
        self.queue = WorkQueue("things", self, self.workers, Metrics("test"), clock=now)
        self.order: list[Key] = []
        self.listed: list[Key] = []
        self.changed: list[Key] = []

    async def __call__(self, key: Key) -> Outcome:
        """Take a millisecond; the first time, queue the key again."""
        self.order.append(key)
        await asyncio.sleep(0.001)
        if self.order.count(key) == 1:
            self.queue.add(key, follows=True)
        return DONE

    def fill(self) -> None:
        """Queue what the walk is about, in a drawn order."""
        sizes = self.dice.sample((1, 3, 10, 40), 4)
        keys = [(f"ns-{lane}", str(at)) for lane, size in enumerate(sizes) for at in range(size)]
        self.dice.shuffle(keys)
        for key in keys:
            listed = self.dice.random() < 0.6
            (self.listed if listed else self.changed).append(key)
            if self.dice.random() < 0.3:
                self.queue.add(key, listed=True)  # a list brings it first
            self.queue.add(key, listed=listed)

    def overtaken(self, keys: list[Key]) -> Iterator[str]:
        """Yield where a key began before one that waited longer or whose namespace was next."""
        waiting, turns = defaultdict[str, list[Key]](list), Counter[str]()
        for key in keys:
            waiting[key[0]].append(key)
        for key in filter(set(keys).__contains__, self.order):
            mine = waiting[key[0]]
            if mine and mine[0] != key:
                yield f"{key} begins before {mine[0]}"
            if key in mine:
                mine.remove(key)
                turns[key[0]] += 1
            if late := [ns for ns in waiting if waiting[ns] and turns[ns] < turns[key[0]] - 1]:
                yield f"{late} wait while {key} has turn {turns[key[0]]}"


@pytest.mark.parametrize("seed", range(60))
@in_virtual_time
async def test_d23_in_a_backlog_namespaces_take_turns_and_changes_go_first(seed: int) -> None:
    walk = Backlog(seed)
    task = asyncio.create_task(walk.queue.run(list))
    await asyncio.sleep(0)
    walk.fill()
    await asyncio.sleep(1)
    task.cancel()

    at_once = walk.order[: walk.workers]  # they did not wait
    listed, changed = (
        [key for key in keys if key not in at_once] for keys in (walk.listed, walk.changed)
    )
    assert [*walk.overtaken(listed), *walk.overtaken(changed)] == []
    last = max(at for at, key in enumerate(walk.order) if key in changed)
    between = sum(key in listed for key in walk.order[:last])
    assert between <= last / 8 + walk.workers
    assert between >= min(len(listed), last / 8 - walk.workers)
    assert Counter(walk.order) == Counter([*walk.listed, *walk.changed] * 2)


class Neighbours:
    """A queue of one to four namespaces whose requests take long, and of quick others."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)  # noqa: S311 (the seed is in the test's name)
        self.workers = self.dice.choice((4, 16))
        self.seconds = self.dice.choice((10.0, 30.0))
        self.queue = WorkQueue("things", self, self.workers, Metrics("test"), clock=now)
        self.slow = [f"slow-{lane}" for lane in range(self.dice.choice((1, 1, 2, 4)))]
        self.busy: dict[Key, float] = {}  # since when
        self.added: dict[Key, float] = {}
        self.broken: list[str] = []

    async def __call__(self, key: Key) -> Outcome:
        """Take as long as the namespace does."""
        waited, slow = now() - self.added.pop(key), key[0] in self.slow
        mine = [since for other, since in self.busy.items() if other[0] == key[0]]
        if not slow and waited > 5 * SLOW:
            self.broken.append(f"{key} waited for {waited} seconds")
        known = slow and now() - min(mine, default=now()) > 2 * SLOW
        # What is slow beyond the most in all still occupies a worker, and does not count.
        crowded = len(self.busy) >= self.workers * SLOW_PER_WORKER
        if known and len(mine) >= SLOW_EACH and self.quick_wait() and not crowded:
            self.broken.append(f"{key} begins beside {len(mine)}, and others wait")
        self.busy[key] = now()
        await asyncio.sleep(self.seconds if slow else 0.2)
        del self.busy[key]
        return DONE

    def quick_wait(self) -> bool:
        """Return whether a key of a quick namespace waits, and was not added right now."""
        return any(key[0] not in self.slow and at < now() for key, at in self.added.items())

    async def live(self) -> None:
        """Add keys now and then; all workers have to be at work while any key waits."""
        number = 0
        for lane in self.slow:
            for _ in range(self.dice.choice((20, 100))):
                self.add((lane, str(number := number + 1)))
        for _ in range(60):
            sizes = (0, 0, 0, 1, self.workers // 2, self.workers * 4)
            for _ in range(0 if self.quick_wait() else self.dice.choice(sizes)):
                self.add((f"quick-{self.dice.randrange(3)}", str(number := number + 1)))
            await asyncio.sleep(self.dice.choice((0.011, 0.511, 3.011)))
            if self.added and len(self.busy) < self.workers:
                self.broken.append(f"{len(self.busy)} are at work, and {len(self.added)} wait")
            if len(self.busy) > self.workers * (1 + SLOW_PER_WORKER):
                self.broken.append(f"{len(self.busy)} are at work")

    def add(self, key: Key) -> None:
        """Queue a key."""
        self.added[key] = now()
        self.queue.add(key)


@pytest.mark.parametrize("seed", range(60))
@in_virtual_time
async def test_c12_slow_namespaces_use_all_workers_and_delay_nobody(seed: int) -> None:
    walk = Neighbours(seed)
    task = asyncio.create_task(walk.queue.run(list))
    await asyncio.sleep(0)
    await walk.live()
    task.cancel()

    assert walk.broken == []
