import asyncio
import logging
from collections.abc import AsyncIterator, Iterator

import pytest

from hack.rig.control_plane import ControlPlane
from tests.support.faults import control_plane
from tests.support.faults.cluster import Cluster, connected
from tests.support.faults.world import World, world


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    """Have one control plane for all tests that only need a namespace of it."""
    logging.getLogger("aiohttp.access").setLevel(logging.CRITICAL)
    with control_plane.running() as one:
        asyncio.run(_install(one))
        one.start_controllers(*control_plane.CONTROLLERS)
        yield one


async def _install(plane: ControlPlane) -> None:
    async with connected(plane) as one:
        await one.install()


@pytest.fixture
async def cluster(plane: ControlPlane) -> AsyncIterator[Cluster]:
    async with connected(plane) as one:
        yield one


@pytest.fixture
async def here(cluster: Cluster) -> AsyncIterator[World]:
    """Have a namespace of one's own, and no operator yet."""
    async with world(cluster) as one:
        yield one


@pytest.fixture
async def own_world() -> AsyncIterator[World]:
    """Have a control plane of one's own, to change its kinds, and a namespace on it."""
    with control_plane.running() as one:
        async with connected(one) as cluster:
            await cluster.install()
            one.start_controllers(*control_plane.CONTROLLERS)
            async with world(cluster) as here:
                yield here
