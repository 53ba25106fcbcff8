"""Runs what an author awaits: ends it in time, and calls a task of the leader again if it fails."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from kopf_runtime.declaring import errors

T = TypeVar("T")

logger = logging.getLogger(__name__)

#: Seconds for which a call that is cancelled may go on, to clean up after itself.
ENDING = 2.0


async def ending(call: Awaitable[T], seconds: float | None = None) -> T:
    """Return the result of an author's call, and end it if it takes too long or we are cancelled.

    A call that goes on nevertheless is left to itself: who waited for it would hold the Lease, or a
    worker, for good. It can write nothing more through our clients once this replica leads no more.
    """
    task = asyncio.ensure_future(call)
    try:
        await asyncio.wait((task,), timeout=seconds)
        if not task.done():
            raise TimeoutError
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait((task,), timeout=ENDING)
        if not task.done():
            logger.error(
                "%s goes on though it was cancelled; it must not catch CancelledError",
                getattr(call, "__qualname__", call),
            )


async def keep(function: Callable[..., Awaitable[None]], *given: object) -> None:
    """Run an author's task until it returns; call it again after each failure."""
    backoff = errors.Backoff()
    while True:
        began, after = time.monotonic(), 0.0
        try:
            return await ending(function(*given))
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise
            logger.error("A task ended, because what it awaited was cancelled")
        except errors.ApiError as error:
            after = error.after
            logger.warning("A task failed: %s", error)
        except Exception:
            logger.exception("A task failed")
        if time.monotonic() - began > errors.MAX_PAUSE_SECONDS:
            backoff.reset()
        await asyncio.sleep(max(after, backoff.next()))
