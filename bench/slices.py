"""The measurement of a division by namespaces: one release, and two over half of them each.

Used by `run`. Each has its own control plane, with the same Messages.
"""

import contextlib

from bench import peers, stage
from bench.peers import OURS
from bench.stage import Numbers
from kopf_kit.rig.run import KitError

_NAMESPACES = 20


async def slices(count: int) -> Numbers:
    """Measure the CPU of the start and a backlog: of one process, and of each of two."""
    (alone,), alone_pod = await _backlog(count, 1)
    both, both_pod = await _backlog(count, 2)
    return {
        "slices_alone_cpu": alone,
        "slices_first_cpu": both[0],
        "slices_second_cpu": both[1],
        "slices_busier": max(both) / alone,
        "slices_both": sum(both) / alone,
        "slices_alone_pod": alone_pod,
        "slices_both_pod": both_pod,
    }


async def _backlog(count: int, processes: int) -> tuple[list[float], float]:
    """Return the CPU of each process, and the time to the last Pod; one alone serves all."""
    async with stage.observed() as (plane, api, world), contextlib.AsyncExitStack() as stack:
        texts = stage.texts(count, "안녕")
        spaces = await stage.spread(api, texts, -(-count // _NAMESPACES))
        world.want(texts)
        flags = [f"--namespace={space}" for space in spaces] if processes > 1 else []
        started = [
            await stack.enter_async_context(
                peers.running(
                    plane,
                    OURS,
                    *flags[number::processes],
                    name=f"slices-{number + 1}-of-{processes}",
                )
            )
            for number in range(processes)
        ]
        if not await world.until_right(stage.PATIENCE * max(1, count / 1000)):
            raise KitError(f"{len(world.podless | world.untold)} Messages are not right")
        took = world.last_pod - started[0].started
        for process in started:
            await stage.quiet(process)
        return [process.cpu() for process in started], took
