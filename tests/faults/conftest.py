from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import yaml

from kopf_kit.rig import paths, versions
from kopf_kit.rig.control_plane import ControlPlane, chosen
from kopf_kit.rig.run import HackError
from kopf_kit.testing.cluster import Cluster, connected
from kopf_kit.testing.subject import Subject, prepare
from kopf_kit.testing.world import World, world
from tests.faults.subjects import SUBJECTS
from tests.support import control_plane


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the operator that PROJECT names."""
    text = "only the tests of the operator in this folder, such as examples/memcached"
    parser.addoption("--project", metavar="FOLDER", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a Kubernetes version that the project does not build, before anything starts."""
    try:
        chosen()
    except HackError as error:
        raise pytest.UsageError(str(error)) from None
    _kinds(config)


def _kinds(config: pytest.Config) -> set[str]:
    """Return the kinds of the operator that is asked for; raise `UsageError` if it is unknown."""
    folder = config.getoption("project", None)
    if not folder:
        return set()
    file = paths.CHECKOUT / folder / "PROJECT"
    if not file.is_file():
        raise pytest.UsageError(f"{file} does not exist; name the folder of an operator")
    return {resource["kind"] for resource in yaml.safe_load(file.read_text())["resources"]}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep only the tests of the operator that is asked for."""
    if kinds := _kinds(config):
        config.hook.pytest_deselected(items=[item for item in items if not _tries(item, kinds)])
        items[:] = [item for item in items if _tries(item, kinds)]


def _tries(item: pytest.Item, kinds: set[str]) -> bool:
    """Tell whether a test tries one of these kinds: as its parameter, or by its module's name."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    if "subject" in parameters:
        return str(parameters["subject"]) in kinds
    return item.path.stem in {f"test_{kind.lower()}" for kind in kinds}


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """Say what to do where there is no test of the operator that is asked for."""
    folder = config.getoption("project", None)
    if folder and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        terminalreporter.line(
            f"No test of the operator in {folder} is selected; try the slow ones: "
            f"make test ARGS='--tier faults-long' PROJECT={folder}"
        )


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
