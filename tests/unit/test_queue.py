import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from message_operator.cache import Key
from message_operator.queue import RetryError, WorkQueue

A, B = ("ns", "a"), ("ns", "b")


@asynccontextmanager
async def working(
    reconcile: Callable[[Key], Awaitable[float | None]], workers: int = 4
) -> AsyncIterator[WorkQueue]:
    queue = WorkQueue(reconcile, workers, base=0.001, cap=0.01)
    task = asyncio.create_task(queue.run())
    try:
        yield queue
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def test_a_key_that_waits_is_not_queued_twice() -> None:
    seen: list[Key] = []

    async def reconcile(key: Key) -> None:
        seen.append(key)

    async with working(reconcile) as queue:
        queue.add(A)
        queue.add(A)
        queue.add(B)
        await until(lambda: len(seen) == 2 and not len(queue))

    assert sorted(seen) == [A, B]


async def test_a_key_has_one_worker_and_is_worked_on_again_if_added_meanwhile() -> None:
    at_once, most, runs = 0, 0, 0
    go_on = asyncio.Event()

    async def reconcile(_: Key) -> None:
        nonlocal at_once, most, runs
        at_once, runs = at_once + 1, runs + 1
        most = max(most, at_once)
        await go_on.wait()
        at_once -= 1

    async with working(reconcile) as queue:
        queue.add(A)
        await until(lambda: runs == 1)
        queue.add(A)
        queue.add(A)
        go_on.set()
        await until(lambda: runs == 2)
        await asyncio.sleep(0.01)

    assert (most, runs) == (1, 2)


@pytest.mark.parametrize("error", [RetryError("not yet"), ValueError("unforeseen")])
async def test_what_fails_is_tried_again(error: Exception) -> None:
    runs = 0

    async def reconcile(_: Key) -> None:
        nonlocal runs
        runs += 1
        if runs < 5:
            raise error

    async with working(reconcile) as queue:
        queue.add(A)
        await until(lambda: runs == 5)
        await asyncio.sleep(0.03)

    assert runs == 5


async def test_a_failing_key_does_not_hold_up_another() -> None:
    done: list[Key] = []

    async def reconcile(key: Key) -> None:
        if key == A:
            raise RetryError("never")
        done.append(key)

    async with working(reconcile, workers=1) as queue:
        queue.add(A)
        queue.add(B)
        await until(lambda: done == [B])


async def test_the_server_says_how_long_to_wait_at_least() -> None:
    loop = asyncio.get_running_loop()
    times: list[float] = []

    async def reconcile(_: Key) -> None:
        times.append(loop.time())
        if len(times) == 1:
            raise RetryError("too many requests", after=0.2)

    async with working(reconcile) as queue:
        queue.add(A)
        await until(lambda: len(times) == 2)

    assert times[1] - times[0] >= 0.2


async def test_a_reconcile_may_ask_to_be_called_again_later() -> None:
    runs = 0

    async def reconcile(_: Key) -> float | None:
        nonlocal runs
        runs += 1
        return 0.01 if runs == 1 else None

    async with working(reconcile) as queue:
        queue.add(A)
        await until(lambda: runs == 2)


async def test_work_that_was_stopped_half_way_is_taken_up_by_the_next_run() -> None:
    runs = 0
    hang = asyncio.Event()

    async def reconcile(_: Key) -> None:
        nonlocal runs
        runs += 1
        await hang.wait()

    queue = WorkQueue(reconcile, 2)
    first = asyncio.create_task(queue.run())
    queue.add(A)
    await until(lambda: runs == 1)
    first.cancel()
    with suppress(asyncio.CancelledError):
        await first
    hang.set()
    second = asyncio.create_task(queue.run())
    await until(lambda: runs == 2)
    second.cancel()


async def test_the_age_of_the_oldest_reconcile_tells_of_a_stuck_one() -> None:
    hang = asyncio.Event()

    async def reconcile(_: Key) -> None:
        await hang.wait()

    async with working(reconcile) as queue:
        assert queue.longest_running() == 0.0
        queue.add(A)
        await until(lambda: queue.longest_running() > 0.01)
