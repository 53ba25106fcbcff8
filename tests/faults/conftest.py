from collections.abc import AsyncIterator, Sequence

import pytest

from faults.worlds import own_world as _own_world
from kopf_kit.rig import versions
from kopf_kit.rig.control_plane import ControlPlane, chosen
from kopf_kit.rig.run import KitError
from kopf_kit.testing.requests import Cluster
from kopf_kit.testing.under_test import Subject
from kopf_kit.testing.world import World
from tests.faults.messages import SUBJECTS


def pytest_configure() -> None:
    """Refuse a Kubernetes version that the project does not build, before anything starts."""
    try:
        chosen()
    except KitError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_report_header() -> str:
    """Say which Kubernetes the tests run on."""
    return f"Kubernetes {versions.PROVED[chosen()]}"


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
def subject() -> Subject:
    """The operator under faults: the first one, unless the test names another."""
    return SUBJECTS[0]


@pytest.fixture
async def own_world(subject: Subject) -> AsyncIterator[World]:
    """Have a control plane of one's own, to change its kinds, and a namespace on it."""
    async with _own_world(subject, subject) as here:
        yield here
