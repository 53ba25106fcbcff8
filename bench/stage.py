"""What every measurement needs: a watched control plane, Messages, and a way to wait.

Used by `measures`, `bare` and `trouble`.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from bench import environment
from bench.api import MESSAGES, Api, message
from bench.peers import OURS, Peer, Process
from bench.world import World
from kopf_kit.rig.control_plane import ControlPlane

#: A measurement's results by their names, which `report` knows; None if it never happened.
Numbers = dict[str, float | None]

NAMESPACES_OF_MESSAGES = "/apis/myorg.dev/v1/namespaces"
#: Timeout in seconds for 1,000 Messages; the peer from the tutorials needs most of it.
PATIENCE = 300.0


def texts(count: int, say: str, first: int = 0) -> dict[str, str]:
    """Return the names and texts of some Messages, numbered from `first`."""
    return {f"m{i:05}": f"{say} {i}" for i in range(first, first + count)}


async def create(api: Api, wanted: dict[str, str], path: str = MESSAGES) -> None:
    """Create Messages."""
    await api.each(wanted.items(), lambda item: api.request("POST", path, message(*item)))


def spread_path(name: str, each: int) -> str:
    """Return the path of a Message's collection, if a namespace has so many each."""
    return f"{NAMESPACES_OF_MESSAGES}/team-{int(name[1:]) // each}/messages"


async def spread(api: Api, wanted: dict[str, str], each: int) -> list[str]:
    """Create Messages in namespaces with so many each; return the namespaces."""
    names = [f"team-{number}" for number in range(-(-len(wanted) // each))]
    for name in names:
        await api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    await api.each(
        wanted.items(),
        lambda item: api.request("POST", spread_path(item[0], each), message(*item)),
    )
    return names


async def edit(api: Api, wanted: dict[str, str]) -> None:
    """Set the texts of Messages."""
    await api.each(
        wanted.items(),
        lambda item: api.patch(f"{MESSAGES}/{item[0]}", {"spec": {"text": item[1]}}),
    )


async def quiet(process: Process, patience: float = 60.0) -> None:
    """Wait until the operator has nothing more to do, that is, until it uses no CPU."""
    deadline = time.monotonic() + patience
    calm = 0
    while calm < 3 and time.monotonic() < deadline:
        before = process.cpu()
        await asyncio.sleep(0.5)
        calm = calm + 1 if process.cpu() - before <= 0.01 else 0


@contextlib.asynccontextmanager
async def observed(
    peer: Peer = OURS, *, audited: bool = False, crowded: bool = False
) -> AsyncIterator[tuple[ControlPlane, Api, World]]:
    """Run a control plane for a peer, and watch its Messages and Pods.

    The control plane may be `crowded`, as `environment.running` says.
    """
    async with (
        environment.running(audited=audited, crowded=crowded) as plane,
        Api(plane.server) as api,
    ):
        world = World(tells_generation=peer.tells_generation)
        async with world.watched(api):
            yield plane, api, world


async def latency(api: Api, world: World, name: str, patience: float = 20.0) -> float | None:
    """Create one Message; return the time from its arrival at the watch to that of its Pod."""
    text = "하나"
    world.want({name: text})
    await api.request("POST", MESSAGES, message(name, text))
    if not await world.until_right(patience):
        return None
    await asyncio.sleep(0.05)
    return world.pod_since[name] - world.message_since[name]


async def latencies(api: Api, world: World, count: int, prefix: str) -> list[float]:
    """Create Messages in a row; return their sorted times, or an empty list if a Pod is missing."""
    found: list[float] = []
    for number in range(count):
        one = await latency(api, world, f"{prefix}{number:03}")
        if one is None:
            return []
        found.append(one)
    return sorted(found)
