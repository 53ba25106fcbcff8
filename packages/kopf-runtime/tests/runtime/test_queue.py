import asyncio
import itertools
import math
import random
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import Any

import pytest

from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.errors import MAX_RETRY_SECONDS
from kopf_runtime.declaring.kinds import Key
from kopf_runtime.reporting.troubles import DONE, Outcome, StepError
from kopf_runtime.working.fairness import (
    OUTSIDE_PER_WORKER,
    SLOW,
    SLOW_EACH,
    SLOW_PER_WORKER,
    Fairness,
    Item,
)
from kopf_runtime.working.queue import Retries, WorkQueue
from runtime.support.waiting import beside, in_virtual_time, now, until

RAISES = True  # what is called here
A, B = ("ns", "a"), ("ns", "b")
Reconcile = Callable[[Key], Awaitable[float | None]]


def again(**given: Any) -> StepError:
    """Return the error that has a key tried again."""
    return StepError(Outcome(why="not yet", fails=True, **given))


def ending(reconcile: Reconcile) -> Callable[[Key], Awaitable[Outcome]]:
    """Return a function that returns when to reconcile again, as a `Reconciler` does."""

    async def run(key: Key) -> Outcome:
        try:
            return Outcome(again=await reconcile(key))
        except StepError as error:
            return error.outcome

    return run


def queue_of(reconcile: Reconcile, workers: int = 4) -> WorkQueue:
    return WorkQueue("things", ending(reconcile), workers, Metrics("test"), clock=now)


@asynccontextmanager
async def working(
    reconcile: Reconcile, workers: int = 4, keys: tuple[Key, ...] = ()
) -> AsyncIterator[WorkQueue]:
    queue = queue_of(reconcile, workers)
    async with beside(queue.run(lambda: list(keys))):
        await until(lambda: queue.running)
        yield queue


class Slow:
    """Reconciles that take so many seconds in a namespace; remembers when which ended."""

    def __init__(self, **seconds: float) -> None:
        self._seconds = seconds
        self.began: dict[Key, float] = {}
        self.done: dict[Key, float] = {}

    async def __call__(self, key: Key) -> None:
        self.began[key] = now()
        await asyncio.sleep(self._seconds.get(key[0], 0.0))
        self.done[key] = now()


@in_virtual_time
async def test_what_is_measured_has_the_names_of_controller_runtime_and_client_go() -> None:
    metrics, errors = Metrics("test"), [again(), ValueError("unforeseen")]

    async def reconcile(_: Key) -> None:
        await asyncio.sleep(2)
        if errors:
            raise errors.pop()

    queue = WorkQueue("things", ending(reconcile), 1, metrics, clock=now)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(queue.run(lambda: [A]))
        value = metrics.registry.get_sample_value
        done = {"controller": "things", "result": "success"}
        await until(lambda: value("controller_runtime_reconcile_total", done))
        running.cancel()

    kind, queued = {"controller": "things"}, {"name": "things"}
    assert value("controller_runtime_reconcile_errors_total", kind) == 1
    assert value("controller_runtime_reconcile_time_seconds_count", kind) == 3
    assert value("workqueue_retries_total", queued) == 2
    assert value("workqueue_adds_total", queued) == 3
    assert value("workqueue_depth", queued) == 0
    assert value("workqueue_queue_duration_seconds_count", queued) == 3
    assert value("workqueue_queue_duration_seconds_sum", queued) == pytest.approx(0)
    assert value("controller_runtime_reconcile_time_seconds_sum", kind) == pytest.approx(6)
    assert value("workqueue_work_duration_seconds_sum", queued) == pytest.approx(6)
    assert value("workqueue_work_duration_seconds_count", queued) == 3


@in_virtual_time
async def test_each_failure_in_a_row_makes_the_pause_longer_and_a_success_ends_that() -> None:
    times: list[float] = []

    async def reconcile(_: Key) -> None:
        times.append(now())
        if len(times) not in (20, 21):
            raise again()

    async with working(reconcile) as queue:
        queue.add(A)
        await until(lambda: len(times) == 20, seconds=3600)
        queue.add(A)
        await until(lambda: len(times) == 21)
        queue.add(A)
        await until(lambda: len(times) == 23)

    pauses = [later - sooner for sooner, later in itertools.pairwise(times)]
    assert pauses[0] < 0.02
    assert 2.5 < pauses[9] < 5.2
    assert 25 <= pauses[18] <= 61  # jitter takes up to a half
    assert pauses[21] < 0.02


async def test_minor_2_a_resync_leaves_time_for_other_tasks() -> None:
    turns = 0
    seen: list[int] = []

    async def reconcile(_: Key) -> None:
        """Nothing is to be done, so it never waits."""
        seen.append(turns)

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.create_task(other())
    keys = tuple(("ns", str(number)) for number in range(500))
    async with working(reconcile, workers=2, keys=keys):
        await until(lambda: len(seen) == len(keys))
    task.cancel()

    assert seen[-1] - seen[0] > 100


@in_virtual_time
async def test_a_step_that_begins_shows_that_a_reconcile_is_not_stuck() -> None:
    async with working(Slow(ns=3600.0)) as queue:
        assert queue.longest_running() == 0.0
        queue.add(A)
        await asyncio.sleep(301)
        assert queue.longest_running() >= 300
        queue.progress(A)
        queue.progress(B)  # which is not under way
        await asyncio.sleep(200)

        assert 200 <= queue.longest_running() < 250


@in_virtual_time
async def test_a_failure_that_queues_its_own_key_makes_no_hot_loop() -> None:
    """As the status in which it is told does, if the words differ each time."""
    runs = 0

    async def reconcile(key: Key) -> None:
        nonlocal runs
        runs += 1
        queue.add(key)
        if runs > 1000:  # let time pass
            await asyncio.sleep(3600)
        raise again()

    async with working(reconcile) as queue:
        queue.add(A)
        await asyncio.sleep(60)

    assert 60 <= runs <= 150  # it may have been an edit: that waits for a second at most


# --- L2: fairness -------------------------------------------------------------------------------


@in_virtual_time
async def test_an_api_outside_that_hangs_for_some_objects_slows_no_other() -> None:
    looks: Counter[str] = Counter()

    async def reconcile(key: Key) -> float:
        with queue.outside(key):
            await asyncio.sleep(5.0 if key[1].startswith("hanging") else 0.01)
        looks[key[1]] += 1
        return 2.0

    hanging = [("ns", f"hanging-{number}") for number in range(8)]
    others = [("ns", f"{number}") for number in range(92)]
    async with working(reconcile, workers=4, keys=(*hanging, *others)) as queue:
        await asyncio.sleep(3)
        looks.clear()
        await asyncio.sleep(20)

    assert min(looks[name] for _, name in others) >= 9
    assert min(looks[name] for _, name in hanging) >= 1


@in_virtual_time
async def test_so_many_reconciles_at_most_wait_for_apis_outside() -> None:
    began: list[Key] = []

    async def reconcile(key: Key) -> None:
        began.append(key)
        with queue.outside(key):
            await asyncio.sleep(1000)

    async with working(reconcile, workers=2) as queue:
        for lane in range(200):
            queue.add((str(lane), "hanging"))
        await asyncio.sleep(300)
    assert len(began) == 2 + 2 * OUTSIDE_PER_WORKER


@pytest.mark.parametrize("seconds", [0.9, 10.0])
@in_virtual_time
async def test_what_hangs_in_the_cluster_after_a_call_outside_slows_its_namespace(
    seconds: float,
) -> None:
    done: dict[Key, float] = {}

    async def reconcile(key: Key) -> None:
        with queue.outside(key):
            await asyncio.sleep(0.9)
        await asyncio.sleep(seconds if key == A else 0.0)
        done[key] = now()

    later = [("ns", f"later-{number}") for number in range(8)]
    async with working(reconcile, workers=4, keys=(A,)) as queue:
        await asyncio.sleep(5)
        for key in later:
            queue.add(key)
        await until(lambda: len(done) == 9, seconds=60)

        assert ("ns" in queue._fairness._slow_until) is (seconds > SLOW)
    took = max(done[key] for key in later) - min(done[key] for key in later)
    assert (took > 1.6) is (seconds > SLOW)  # three at once


@in_virtual_time
async def test_d23_in_a_backlog_what_follows_waits_unless_it_follows_an_edit() -> None:
    order: list[Key] = []

    async def reconcile(key: Key) -> float | None:
        order.append(key)
        await asyncio.sleep(0.01)
        return 0.001 if order.count(key) < 4 else None

    keys = tuple(("ns", str(number)) for number in range(60))
    async with working(reconcile, workers=1, keys=keys) as queue:
        await until(lambda: len(order) == 20)
        assert len({*order}) == 17  # only the first one found nothing that waits
        queue.add(edited := order[-1])
        await until(lambda: order.count(edited) == 4)
        assert len({*order}) < 30
        await until(lambda: {*order} == {*keys})
        assert len(order) < 70


def begin(fairness: Fairness, *keys: Key, at: float = 0.0) -> None:
    for key in keys:
        fairness.begin(Item(key), at)


def test_d14_a_key_costs_the_same_however_many_are_held() -> None:
    def seconds(held: int) -> float:
        fairness = Fairness(workers=1)
        slow = [("", f"slow-{number}") for number in range(SLOW_PER_WORKER)]
        begin(fairness, A, *slow)
        fairness._slow.update(dict.fromkeys(slow))
        fairness._slow_until.update({f"{number}": 60.0 for number in range(held)})
        for number in range(held):
            fairness.add(("", f"{number}"), listed=False)
        began = time.process_time()
        for number in range(500):
            fairness.add(("ns", f"{number}"), listed=False)
            assert fairness.next() is None
        return time.process_time() - began

    assert min(seconds(20_000) for _ in range(3)) < 20 * min(seconds(0) for _ in range(3))


def test_d14_a_slow_reconcile_costs_the_same_however_many_its_namespace_holds() -> None:
    def seconds(held: int) -> float:
        fairness = Fairness(workers=1)
        fairness._slow_until["ns"] = 1.0
        slow = [("ns", f"slow-{number}") for number in range(SLOW_EACH)]
        begin(fairness, *slow)
        for key in slow:
            fairness._is_slow(key)
        for number in range(held):
            fairness._full.add(("ns", f"{number}"))
        began = time.process_time()
        for _ in range(500):
            fairness.end(fairness.running[slow[0]])
            begin(fairness, slow[0])
            fairness._is_slow(slow[0])
        took = time.process_time() - began
        assert fairness._full
        assert not fairness._held
        return took

    assert min(seconds(20_000) for _ in range(3)) < 20 * min(seconds(1) for _ in range(3))


class Counted(tuple[str, str]):
    """A key that counts how often it is looked up or stored."""

    __slots__ = ()
    looks = 0

    def __hash__(self) -> int:
        Counted.looks += 1
        return super().__hash__()


def keys_of(name: str, number: int) -> list[Key]:
    return [Counted(("ns", f"{name}-{at}")) for at in range(number)]


def looked_through(
    until: dict[str | Key, float], *busy: Key, **waiting: list[Key]
) -> dict[str, list[Key]]:
    """Look at second 100 for what is slow; return which keys wait where then.

    It may look at or move a few of them only, and not those of a whole namespace.
    """
    fairness = Fairness(workers=1)
    fairness._slow_until.update(until)
    begin(fairness, *busy, at=50.0)
    for place, keys in waiting.items():
        for key in keys:
            getattr(fairness, f"_{place}").add(key)
    Counted.looks = 0
    fairness.look(100.0, late=0.0)
    assert Counted.looks < 500
    places = {name: getattr(fairness, f"_{name}") for name in ("changed", "listed", "held", "full")}
    left: dict[str, list[Key]] = {}
    for name, turns in places.items():
        while turns:
            left.setdefault(name, []).append(turns.next())
    return left


def test_keys_that_are_quick_again_move_no_other_key_of_a_slow_namespace() -> None:
    alone, others = keys_of("alone", 16), keys_of("other", 1000)
    waiting = looked_through({"ns": 200.0, **dict.fromkeys(alone, 99.0)}, held=[*alone, *others])
    assert waiting == {"held": [*alone, *others]}


def test_keys_that_are_quick_again_in_a_quick_namespace_wait_like_all() -> None:
    quick, slow, others = keys_of("quick", 2), keys_of("slow", 2), keys_of("other", 1000)
    until: dict[str | Key, float] = {**dict.fromkeys(quick, 99.0), **dict.fromkeys(slow, 200.0)}
    waiting = looked_through(until, changed=others, held=[*slow, *quick])
    assert waiting == {"changed": [*others, *quick], "held": slow}


@pytest.mark.parametrize("place", ["held", "full"])
def test_a_namespace_that_is_quick_again_moves_at_once_but_for_slow_keys(place: str) -> None:
    slow, others = keys_of("slow", 2), keys_of("other", 1000)
    until: dict[str | Key, float] = {"ns": 99.0, **dict.fromkeys(slow, 200.0)}
    waiting = looked_through(until, **{place: [*others, *slow]})
    assert waiting == {"changed": others, "held": slow}


def test_a_namespace_that_turns_slow_moves_at_once() -> None:
    alone, changed, listed = keys_of("alone", 2), keys_of("changed", 3), keys_of("listed", 1000)
    until: dict[str | Key, float] = dict.fromkeys(alone, 200.0)
    waiting = looked_through(until, ("ns", "busy"), held=alone, changed=changed, listed=listed)
    assert waiting == {"held": [*alone, *changed, *listed]}
    waiting = looked_through({}, ("ns", "busy"), changed=listed, listed=changed)
    assert waiting == {"held": [*listed, *changed]}


@in_virtual_time
async def test_c7_a_stall_of_this_process_slows_no_namespace_down() -> None:
    stalled, busy, most = 0.0, 0, 0

    async def reconcile(_: Key) -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0.6)
        busy -= 1

    queue = WorkQueue(
        "things", ending(reconcile), 16, Metrics("test"), clock=lambda: now() + stalled
    )
    task = asyncio.create_task(queue.run(lambda: [("ns", str(number)) for number in range(16)]))
    await asyncio.sleep(0.45)
    stalled += 10.0  # as a long list, or an author's slow `desired`
    await asyncio.sleep(0.5)
    most = 0
    for number in range(32):
        queue.add(("ns", f"later-{number}"))
    await asyncio.sleep(1)
    task.cancel()

    assert most == 16  # not four


@in_virtual_time
async def test_s9_an_edit_during_a_reconcile_goes_before_what_was_listed() -> None:
    order: list[Key] = []

    async def reconcile(key: Key) -> None:
        order.append(key)
        if order == [A]:
            queue.add(A)
            queue.add(A, listed=True)
        await asyncio.sleep(0.1)

    async with working(reconcile, workers=1) as queue:
        for key in (A, *(("ns", str(number)) for number in range(20))):
            queue.add(key, listed=True)
        await until(lambda: order.count(A) == 2)

    assert len(order) <= 3


@in_virtual_time
async def test_a_rate_spreads_reconciles_however_many_workers_are_free() -> None:
    times: list[float] = []

    async def reconcile(_: Key) -> None:
        times.append(now())

    keys = [("ns", f"k{number}") for number in range(30)]
    queue = WorkQueue("things", ending(reconcile), 16, Metrics("test"), rate=4.0, clock=now)
    running = asyncio.create_task(queue.run(lambda: keys))
    await asyncio.sleep(10)
    running.cancel()

    assert not queue._items  # nothing is kept of what is done
    apart = [later - sooner for sooner, later in itertools.pairwise(times)]
    assert apart[:4] == pytest.approx([0.0] * 4)  # which the second before has saved
    assert apart[4:] == pytest.approx([0.25] * 25)


@in_virtual_time
async def test_retries_are_those_that_the_author_declares() -> None:
    times: list[float] = []

    async def reconcile(_: Key) -> None:
        times.append(now())
        raise again()

    retries = Retries(10.0, 20.0)
    queue = WorkQueue("things", ending(reconcile), 1, Metrics("test"), retries, clock=now)
    running = asyncio.create_task(queue.run(lambda: [A]))
    await asyncio.sleep(100)
    running.cancel()

    pauses = [later - before for before, later in itertools.pairwise(times)]
    assert len(pauses) >= 4
    assert all(10.0 <= pause <= 20.1 for pause in pauses)
    assert retries.delay(1, Outcome(again=math.nan), news=False) == MAX_RETRY_SECONDS


# --- drawn walks of the work queue, and what it promises in each: nothing is lost, nor done twice


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
        #: What an author may give in place of a time; each counts as the longest one.
        self.odd = [math.nan, math.inf, 1e9] if seed % 20 == 0 else []
        self.broken: list[str] = []
        self.busy: set[Key] = set()
        #: By when each key has to begin, and before when it must not.
        self.due: dict[Key, float] = {}
        self.held: dict[Key, float] = defaultdict(lambda: -math.inf)
        #: How often each was reconciled, and during which reconcile it was queued last.
        self.runs, self.meanwhile = Counter[Key](), dict[Key, int]()

    async def __call__(self, key: Key) -> Outcome:
        """Check that a reconcile may begin now, and end as is drawn."""
        # The queue would take an assertion for an error of the author's.
        if key in self.busy:
            self.broken.append(f"{key} has two workers")
        if now() < self.held[key]:
            self.broken.append(f"{key} does not wait")
        self.runs[key] += 1
        if key not in self.due and self.meanwhile.get(key) != self.runs[key] - 1:
            self.broken.append(f"{key} has no reason")
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
            await asyncio.sleep(0)  # as to close a connection
            self.busy.discard(key)

    def _ended(self, key: Key, *, news: bool) -> Outcome:
        how = (
            "well" if self.calm else self.dice.choice(("well", "again", "retry", "after", "error"))
        )
        if how in ("well", "again"):
            self.held.pop(key, None)
            again = self.dice.choice((0.5, 20.0, *self.odd)) if how == "again" else None
            self._expect(key, 0.0 if news else _meant(again))
            return Outcome(again=again)
        self._expect(key, 1.0 if news else 60.0)
        if how == "error":
            raise ValueError("unforeseen")
        after = self.dice.choice((1.0, 30.0, *self.odd)) if how == "after" else 0.0
        again = self.dice.choice((None, *self.odd)) if how == "retry" else None
        if after:
            self.held[key] = now() + _meant(after)
            self.due[key] = max(self.due[key], self.held[key])
        elif not news:
            self.due[key] = now() + max(60.0, _meant(again or 0.0))
        return Outcome(why="not yet", again=again, not_before=after, fails=True)

    def _expect(self, key: Key, seconds: float | None) -> None:
        if seconds is not None:
            when = max(now() + seconds, self.held[key])
            self.due[key] = min(self.due.get(key, math.inf), when)

    def step(self) -> None:
        """Do something to the queue from outside."""
        key, seconds = self.dice.choice(KEYS), self.dice.choice((0.0, 3.0, 40.0))
        runs = key in self.queue._fairness.running
        if self.dice.random() < 0.3:
            self.queue.add_after(key, seconds)
        else:
            self.queue.add(key, listed=self.dice.random() < 0.5)
            seconds = 0.0
        # What is queued during a reconcile may wait for as long as that fails.
        if runs:
            self.meanwhile[key] = self.runs[key] + (key not in self.busy)  # or it begins now
        else:
            self._expect(key, seconds)

    def late(self) -> list[Key]:
        """Return the keys that should have begun by now."""
        return [
            key for key, due in self.due.items() if key not in self.busy and due + SLACK < now()
        ]


def _meant(seconds: float | None) -> Any:
    return seconds if seconds is None or seconds <= MAX_RETRY_SECONDS else MAX_RETRY_SECONDS


@pytest.mark.parametrize("seed", range(100))
@in_virtual_time
async def test_minor_1_minor_4_s9_no_key_is_lost_done_twice_or_late(seed: int) -> None:
    random.seed(seed)
    walk = Walk(seed)
    for _ in range(2):  # it leads twice
        walk.due.clear()
        walk.meanwhile.clear()
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
        await asyncio.sleep(700 if walk.odd else 100)
        assert (walk.due, len(walk.queue), walk.broken) == ({}, 0, [])
        walk.step()
        await asyncio.sleep(0)
        task.cancel()
        for _ in range(2):  # before its task is cancelled, and while that ends
            walk.step()
            await asyncio.sleep(0)
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
    """A queue of quick keys, and of slow ones: of some namespaces, or of objects without one.

    Their requests take long in the cluster, or outside.
    """

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)  # noqa: S311 (the seed is in the test's name)
        self.workers = self.dice.choice((4, 16))
        self.seconds = self.dice.choice((10.0, 30.0))
        self.queue = WorkQueue("things", self, self.workers, Metrics("test"), clock=now)
        self.outside = self.dice.random() < 0.5
        lanes, each = self.dice.choice((1, 1, 2, 4)), self.dice.choice((20, 60))
        self.slow = [(f"slow-{lane}", str(at)) for lane in range(lanes) for at in range(each)]
        if self.dice.random() < 0.3:
            self.slow = [("", f"slow-{number}") for number in range(3 * self.workers)]
        self.busy: dict[Key, float] = {}  # since when
        self.added: dict[Key, float] = {}
        self.broken: list[str] = []

    async def __call__(self, key: Key) -> Outcome:
        """Take as long as the namespace does."""
        waited, slow = now() - self.added.pop(key), key in self.slow
        mine = [since for other, since in self.busy.items() if other[0] == key[0] != ""]
        alone = self.outside or not self.slow[0][0]  # each slows down none of its namespace
        if not slow and waited > (15 if alone else 2 if now() > self.began + 10 else 5) * SLOW:
            self.broken.append(f"{key} waited for {waited} seconds")
        known = slow and not self.outside and now() - min(mine, default=now()) > 2 * SLOW
        # What is slow beyond the most in all still occupies a worker, and does not count.
        crowded = len(self.busy) >= self.workers * SLOW_PER_WORKER
        if known and len(mine) >= SLOW_EACH and self.quick_wait() and not crowded:
            self.broken.append(f"{key} begins beside {len(mine)}, and others wait")
        self.busy[key] = now()
        with self.queue.outside(key) if self.outside else nullcontext():
            await asyncio.sleep(self.seconds if slow else 0.2)
        del self.busy[key]
        return DONE

    def quick_wait(self) -> bool:
        """Return whether a key of a quick namespace waits, and was not added right now."""
        return any(key not in self.slow and at < now() for key, at in self.added.items())

    async def live(self) -> None:
        """Add keys now and then; all workers have to be at work while any key waits."""
        number, self.began = 0, now()
        most = OUTSIDE_PER_WORKER if self.outside else SLOW_PER_WORKER
        for key in self.slow:
            self.add(key)
        for _ in range(60):
            sizes = (0, 0, 0, 1, self.workers // 2, self.workers * 4)
            for _ in range(0 if self.quick_wait() else self.dice.choice(sizes)):
                lane = self.dice.choice(("quick-1", "quick-2", ""))
                self.add((lane, str(number := number + 1)))
            await asyncio.sleep(self.dice.choice((0.011, 0.511, 3.011)))
            if self.added and len(self.busy) < self.workers:
                self.broken.append(f"{len(self.busy)} are at work, and {len(self.added)} wait")
            if len(self.busy) > self.workers * (1 + most):
                self.broken.append(f"{len(self.busy)} are at work")

    def add(self, key: Key) -> None:
        """Queue a key."""
        self.added[key] = now()
        self.queue.add(key)


@pytest.mark.parametrize("seed", range(40))
@in_virtual_time
async def test_c12_l2_slow_requests_use_all_workers_and_delay_nobody(seed: int) -> None:
    walk = Neighbours(seed)
    task = asyncio.create_task(walk.queue.run(list))
    await asyncio.sleep(0)
    await walk.live()
    task.cancel()

    assert walk.broken == []
