import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from hack.rig import versions
from hack.rig.control_plane import ControlPlane, chosen
from hack.rig.run import HackError
from tests.faults.subjects import SUBJECTS
from tests.support.faults import control_plane
from tests.support.faults.cluster import Cluster, connected
from tests.support.faults.subject import Subject, prepare
from tests.support.faults.world import World, world


def pytest_configure() -> None:
    """Refuse a Kubernetes version that the project does not build, before anything starts."""
    try:
        chosen()
    except HackError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_report_header() -> str:
    """Say which Kubernetes the tests run on."""
    return f"Kubernetes {versions.PROVED[chosen()]}"


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    """Have one control plane for all tests that only need a namespace of it."""
    logging.getLogger("aiohttp.access").setLevel(logging.CRITICAL)
    with control_plane.running() as one:
        asyncio.run(_prepare(one))
        one.start_controllers(*control_plane.CONTROLLERS)
        yield one


async def _prepare(plane: ControlPlane) -> None:
    async with connected(plane) as one:
        await prepare(one, *SUBJECTS)


@pytest.fixture
async def cluster(plane: ControlPlane) -> AsyncIterator[Cluster]:
    async with connected(plane) as one:
        yield one


@pytest.fixture
def subject() -> Subject:
    """The operator under faults: the first one, unless the test is one of `each.on_each`."""
    return SUBJECTS[0]


@pytest.fixture
async def here(cluster: Cluster, subject: Subject) -> AsyncIterator[World]:
    """Have a namespace of one's own, and no operator yet."""
    async with world(cluster, subject) as one:
        yield one


@pytest.fixture
async def own_world(subject: Subject) -> AsyncIterator[World]:
    """Have a control plane of one's own, to change its kinds, and a namespace on it."""
    async with _own_world(subject, subject) as here:
        yield here


@pytest.fixture
async def world_without_the_kind(subject: Subject) -> AsyncIterator[World]:
    """Have a control plane of one's own that does not know the kind, and a namespace on it."""
    async with _own_world(subject) as here:
        yield here


@asynccontextmanager
async def _own_world(subject: Subject, *installed: Subject) -> AsyncIterator[World]:
    with control_plane.running() as one:
        async with connected(one) as cluster:
            await prepare(cluster, *installed)
            one.start_controllers(*control_plane.CONTROLLERS)
            async with world(cluster, subject) as here:
                yield here
