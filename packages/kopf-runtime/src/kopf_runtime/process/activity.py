"""Says whether the process is ready, and what each of its tasks does now (SIGUSR1)."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FrameType
from typing import Any

from kopf_runtime.process.runtime import Runtime
from kopf_runtime.reporting import logs

logger = logging.getLogger(__name__)


async def log_readiness(why_not: Callable[[], str], runtimes: Sequence[Runtime]) -> None:
    """Log that the process is ready; later on and before, why it is not, at growing intervals."""
    await logs.until_ready(why_not)
    sources = [source for runtime in runtimes for source in runtime.caches.sources]
    counts = ", ".join(f"{len(list(source))} {source.kind.plural}" for source in sources)
    logger.info("Ready; there are %s", counts)
    while True:
        await asyncio.sleep(1.0)
        await logs.until_ready(why_not)


def guarded(function: Callable[[], str]) -> Callable[[], str]:
    """Return an author's readiness check, which says so if it fails."""

    def why() -> str:
        try:
            return str(function() or "")
        except Exception as error:
            name = getattr(function, "__name__", function)
            return f"{name} failed: {type(error).__name__}: {error}"

    return why


def log_tasks(runtimes: Sequence[Runtime]) -> None:
    """Log what every worker, and every other named task, does now."""
    for line in lines(runtimes):
        logger.info("%s", line)


def lines(runtimes: Sequence[Runtime]) -> Iterator[str]:
    """Yield a line for each queue, and for each task that has a name, with where it waits."""
    for runtime in runtimes:
        queue = runtime.queue
        longest = f"the longest step since {queue.longest_running():.0f} s"
        yield f"{runtime.kind}: {len(queue)} wait, {queue.working} are reconciled, {longest}"
    for task in sorted(asyncio.all_tasks(), key=asyncio.Task.get_name):
        if not task.get_name().startswith("Task-"):
            yield f"{task.get_name()}: {_where(task.get_coro())}"


def _where(waiting: Any) -> str:
    """Return the innermost place at which a coroutine waits."""
    place = "it is at its end"
    while waiting is not None:
        code: CodeType | None = getattr(waiting, "cr_code", getattr(waiting, "ag_code", None))
        frame: FrameType | None = getattr(waiting, "cr_frame", getattr(waiting, "ag_frame", None))
        if code is not None and frame is not None:
            place = f"{code.co_qualname} ({code.co_filename}:{frame.f_lineno})"
        waiting = getattr(waiting, "cr_await", getattr(waiting, "ag_await", None))
    return place
