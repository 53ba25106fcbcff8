import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.kinds import Key
from kopf_runtime.reporting.troubles import Outcome, StepError
from kopf_runtime.working.fairness import (
    OUTSIDE_PER_WORKER,
    SLOW_EACH,
    SLOW_PER_WORKER,
    Fairness,
    Item,
)
from kopf_runtime.working.queue import Retries, WorkQueue
from runtime.support.waiting import in_virtual_time, now, until

A, B = ("ns", "a"), ("ns", "b")
ELSEWHERE = ("elsewhere", "a")

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
    task = asyncio.create_task(queue.run(lambda: list(keys)))
    await until(lambda: queue.running)
    try:
        yield queue
        if task.done():
            task.result()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


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
    assert 25 <= pauses[18] <= 61  # jitter takes up to a half
    assert pauses[21] < 0.02


@in_virtual_time
async def test_minor_4_nothing_brings_a_key_back_before_the_server_allows_it() -> None:
    times: list[float] = []

    async def reconcile(_: Key) -> None:
        times.append(now())
        if len(times) == 1:
            queue.add_after(A, 0.5)  # an earlier timer
            raise again(not_before=20.0)

    async with working(reconcile) as queue:
        queue.add(A)
        await asyncio.sleep(1)
        queue.add(A)  # an event
        await until(lambda: len(times) == 2, seconds=100)

    assert times[1] - times[0] >= 20.0


@in_virtual_time
async def test_a_reconcile_that_comes_earlier_takes_the_place_of_the_later_one() -> None:
    began: list[float] = []

    async def reconcile(_: Key) -> float | None:
        began.append(now())
        return 10.0 if len(began) == 1 else None

    async with working(reconcile, keys=(A,)) as queue:
        await asyncio.sleep(5)
        queue.add(A)
        await asyncio.sleep(60)

    assert len(began) == 2


@in_virtual_time
async def test_minor_1_a_new_leader_does_not_work_on_what_is_long_gone() -> None:
    slow = Slow()
    queue = queue_of(slow)
    queue.add(("ns", "gone"))

    task = asyncio.create_task(queue.run(lambda: [A]))
    await asyncio.sleep(60)
    task.cancel()

    assert list(slow.done) == [A]


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
async def test_news_that_comes_while_a_leader_steps_down_is_no_error() -> None:
    async def reconcile(_: Key) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0)  # such as closing a connection

    queue = queue_of(reconcile)
    task = asyncio.create_task(queue.run(lambda: [A]))
    await until(lambda: queue.longest_running() > 0)

    task.cancel()
    await asyncio.sleep(0)
    queue.add(B)
    with suppress(asyncio.CancelledError):
        await task

    assert not queue.running


@in_virtual_time
async def test_the_age_of_the_oldest_reconcile_tells_of_a_stuck_one() -> None:
    async with working(Slow(ns=3600.0)) as queue:
        assert queue.longest_running() == 0.0
        queue.add(A)
        await asyncio.sleep(301)

        assert queue.longest_running() >= 300


@in_virtual_time
async def test_a_step_that_begins_shows_that_a_reconcile_is_not_stuck() -> None:
    async with working(Slow(ns=3600.0)) as queue:
        queue.add(A)
        await asyncio.sleep(200)
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
async def test_l2_a_slow_namespace_costs_the_others_nothing() -> None:
    slow = Slow(slow=10.0)
    keys = tuple(("slow", str(number)) for number in range(100))
    async with working(slow, workers=16, keys=keys) as queue:
        await asyncio.sleep(30)  # by now it is known
        added = now()
        for number in range(50):
            queue.add(("elsewhere", str(number)))
        await until(lambda: sum(key[0] == "elsewhere" for key in slow.done) == 50)

        assert now() - added < 0.1


@in_virtual_time
async def test_l2_a_namespace_that_turns_slow_holds_up_the_others_for_a_moment_only() -> None:
    slow = Slow(slow=10.0)
    keys = tuple(("slow", str(number)) for number in range(100))
    async with working(slow, workers=16, keys=keys) as queue:
        queue.add(ELSEWHERE)
        added = now()
        await until(lambda: ELSEWHERE in slow.done)

        assert now() - added <= 2.0


@in_virtual_time
async def test_l2_slow_objects_without_a_namespace_hold_up_the_others_for_a_moment_only() -> None:
    done: dict[str, float] = {}

    async def reconcile(key: Key) -> None:
        await asyncio.sleep(0.0 if key[1] == "quick" else 100.0)
        done[key[1]] = now()

    keys = tuple(("", str(number)) for number in range(50))
    async with working(reconcile, workers=16, keys=keys) as queue:
        began = now()
        queue.add(("", "quick"))
        await until(lambda: "quick" in done)

    assert done["quick"] - began < 10


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
async def test_an_api_outside_that_hangs_for_a_whole_namespace_slows_no_other() -> None:
    done: list[Key] = []

    async def reconcile(key: Key) -> None:
        with queue.outside(key):
            await asyncio.sleep(10.0 if key[0] == "slow" else 0.0)
        done.append(key)

    keys = tuple(("slow", str(number)) for number in range(1000))
    async with working(reconcile, workers=16, keys=keys) as queue:
        await asyncio.sleep(30)  # by now it is known
        added = now()
        queue.add(ELSEWHERE)
        await until(lambda: ELSEWHERE in done)

        assert now() - added < 0.1


@in_virtual_time
async def test_an_api_outside_that_hangs_for_some_namespaces_slows_no_other() -> None:
    done: dict[Key, float] = {}

    async def reconcile(key: Key) -> None:
        with queue.outside(key):
            await asyncio.sleep(0.0 if key[0] == "elsewhere" else 30.0)
        done[key] = now()

    async with working(reconcile, workers=16) as queue:
        for lane, number in itertools.product(range(8), range(30)):
            queue.add((f"hanging-{lane}", str(number)))
        for number in range(40):
            key, added = ("elsewhere", str(number)), now()
            queue.add(key)
            await until(lambda key=key: key in done)  # type: ignore[misc]
            assert done[key] - added < 2.5
            await asyncio.sleep(1)


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


@in_virtual_time
async def test_what_hangs_in_the_cluster_after_a_call_outside_slows_its_namespace() -> None:
    done: dict[Key, float] = {}

    async def reconcile(key: Key) -> None:
        with queue.outside(key):
            await asyncio.sleep(0.9)
        await asyncio.sleep(10.0 if key == A else 0.0)
        done[key] = now()

    later = [("ns", f"later-{number}") for number in range(8)]
    async with working(reconcile, workers=4, keys=(A,)) as queue:
        await asyncio.sleep(5)
        for key in later:
            queue.add(key)
        await until(lambda: len(done) == 9, seconds=60)

    assert max(done[key] for key in later) - min(done[key] for key in later) > 1.6  # three at once


@in_virtual_time
async def test_l2_a_namespace_that_is_quick_again_is_treated_like_all() -> None:
    slow = Slow(slow=10.0)
    keys = tuple(("slow", str(number)) for number in range(8))
    async with working(slow, workers=16, keys=keys) as queue:
        await until(lambda: len(slow.done) == 8, seconds=600)
        slow._seconds["slow"] = 0.5
        await asyncio.sleep(60)
        added = now()
        for number in range(16):
            queue.add(("slow", f"later-{number}"))
        await until(lambda: len(slow.done) == 24)

        assert now() - added < 1.0  # sixteen at once, not four


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
        began = time.perf_counter()
        for number in range(500):
            fairness.add(("ns", f"{number}"), listed=False)
            assert fairness.next() is None
        return time.perf_counter() - began

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
        began = time.perf_counter()
        for _ in range(500):
            fairness.end(fairness.running[slow[0]])
            begin(fairness, slow[0])
            fairness._is_slow(slow[0])
        took = time.perf_counter() - began
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
async def test_in_a_backlog_every_object_has_its_children_before_one_has_its_next_status() -> None:
    order: list[Key] = []

    async def reconcile(key: Key) -> None:
        order.append(key)
        if order.count(key) == 1:
            queue.add(key, follows=True)  # its child is there, and soon it is ready
            asyncio.get_running_loop().call_later(0.05, lambda: queue.add(key, follows=True))
        await asyncio.sleep(0.01)

    keys = [("ns", str(number)) for number in range(100)]
    async with working(reconcile, workers=2) as queue:
        for key in keys:
            queue.add(key, listed=True)
        await until(lambda: len(order) > 20)
        queue.add(edited := order[9])
        await until(lambda: order.count(edited) > 1)
        assert len(order) < 30  # an edit does not wait

        await until(lambda: set(order) == set(keys))
        assert len(order) < 110  # the first two found nothing that waits

        await until(lambda: all(order.count(key) > 1 for key in keys))


@in_virtual_time
async def test_a_key_whose_task_never_began_is_worked_on_by_the_next_leader() -> None:
    seen: list[Key] = []

    async def reconcile(key: Key) -> None:
        seen.append(key)

    queue = queue_of(reconcile)
    first = asyncio.create_task(queue.run(list))
    await until(lambda: queue.running)
    first.cancel()
    queue.add(A)  # its task is cancelled before it begins
    with suppress(asyncio.CancelledError):
        await first
    assert seen == []

    second = asyncio.create_task(queue.run(lambda: [A]))
    await until(lambda: seen == [A])
    second.cancel()


@in_virtual_time
@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 1e9])
@pytest.mark.parametrize("how", ["not_before", "again", "returned"])
async def test_no_time_of_an_author_keeps_a_key_away_for_good(seconds: float, how: str) -> None:
    began: list[float] = []

    async def reconcile(_: Key) -> float | None:
        began.append(now())
        if len(began) > 1:
            return None
        if how == "returned":
            return seconds
        raise again(**{how: seconds})

    async with working(reconcile, keys=(A,)):
        await asyncio.sleep(601)

    assert len(began) == 2
    assert began[1] - began[0] == pytest.approx(600)


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
@pytest.mark.parametrize("times", [(5.0, 50.0), (50.0, 5.0), (50.0, 5.0, 20.0)])
async def test_s9_the_earliest_of_several_timers_is_kept(times: tuple[float, ...]) -> None:
    began: list[float] = []

    async def reconcile(_: Key) -> None:
        began.append(now())

    async with working(reconcile) as queue:
        at = now()
        for seconds in times:
            queue.add_after(A, seconds)
        await asyncio.sleep(100)

    assert [round(moment - at, 3) for moment in began] == [5.0]


@in_virtual_time
async def test_a_rate_spreads_reconciles_however_many_workers_are_free() -> None:
    times: list[float] = []

    async def reconcile(_: Key) -> None:
        times.append(now())

    keys = [("ns", f"k{number}") for number in range(12)]
    queue = WorkQueue("things", ending(reconcile), 16, Metrics("test"), rate=2.0, clock=now)
    running = asyncio.create_task(queue.run(lambda: keys))
    await asyncio.sleep(10)
    running.cancel()

    assert len(times) == 12
    assert times[-1] - times[0] >= 4.5
    assert all(later - before >= 0.9 for before, later in zip(times, times[4:], strict=False))


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
