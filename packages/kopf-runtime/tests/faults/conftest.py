from collections.abc import AsyncIterator, Sequence

import pytest

from faults.holders import STORE, SUBJECTS
from faults.worlds import own_world as _own_world
from kopf_kit.rig.control_plane import ControlPlane
from kopf_kit.testing.requests import Cluster
from kopf_kit.testing.under_test import Subject
from kopf_kit.testing.world import World


@pytest.fixture(scope="session")
def subjects() -> Sequence[Subject]:
    """Have the kinds of all operators from the start: the garbage collector looks for them then."""
    return SUBJECTS


@pytest.fixture(scope="session")
def plane(api_server: ControlPlane) -> ControlPlane:
    """Have one control plane for all tests that only need a namespace of it."""
    return api_server


@pytest.fixture
def cluster(api: Cluster) -> Cluster:
    return api


@pytest.fixture
def subject(request: pytest.FixtureRequest) -> Subject:
    """The operator under faults: the SUBJECT of the test's module, unless the test names one."""
    subject: Subject = getattr(request.module, "SUBJECT", STORE)
    return subject


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
