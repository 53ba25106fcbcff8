"""Waiting for conditions, connections that take long, and virtual time for tests."""

import asyncio
import functools
import selectors
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, ParamSpec

import pytest

P = ParamSpec("P")


async def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until a condition holds; the seconds only end a test that would hang."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Run a task beside the block; fail if it ends by itself."""
    task = asyncio.create_task(work)
    try:
        yield task
        if task.done():
            task.result()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class _Skipping(selectors.SelectSelector):
    """Does not wait: if there is nothing to read, it skips the time until the next timer."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(20.0 if timeout is None else 0)
        assert ready or timeout is not None, "nothing happens any more"
        if not ready and timeout:
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer when there is nothing else to do."""

    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        return 1000.0 + self._skipping.now


def now() -> float:
    """Return the running loop's time, the clock of a test in virtual time."""
    return asyncio.get_running_loop().time()


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test in virtual time: sleeping takes no time, and every run is the same."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run


class SlowConnection:
    """A connection attempt: `begun` is set when it begins, and it succeeds once `end` is set."""

    def __init__(self) -> None:
        self.begun, self.end = asyncio.Event(), asyncio.Event()


@asynccontextmanager
async def connecting_slowly(url: str = "") -> AsyncIterator[SlowConnection]:
    """Delay new connections of this process during the block: those to a URL, or all."""
    loop, slow = asyncio.get_running_loop(), SlowConnection()
    connect = loop.sock_connect

    async def wait(sock: socket.socket, address: Any) -> None:
        if not url or url.endswith(f":{address[1]}"):
            slow.begun.set()
            await slow.end.wait()
        await connect(sock, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "sock_connect", wait)
        yield slow
