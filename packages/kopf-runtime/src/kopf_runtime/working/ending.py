"""Ends what an author calls, if it takes too long or its caller is cancelled."""

import asyncio
import logging
from collections.abc import Awaitable
from typing import TypeVar

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
