"""The pytest plugin: fixtures for tests of operators, and the conformance suite's parameters.

pytest loads it in every run of an environment that has `kopf-kit[testing]`, so it imports nothing
until a fixture is used. A fixture of the same name in a conftest replaces one of these.

api_server   a real etcd and API server, for the session
api          a client of it with all rights
subject      the operator under test: define it, or the module's SUBJECTS
here         a namespace of one's own, with a kubelet, users and replicas: a `World`
operator     the subject's process in that namespace, ready
faults       the proxy between the operator and the API server
cluster      a kind cluster, for the session

In a repository with PROJECT, for `kopf-kit e2e`:

e2e_cluster  the tests' cluster, which stays; the operator is not in it yet
helm_options with which Helm installs the operator: define your own
installed    the operator in that cluster, for the session
kubectl      kubectl in an empty namespace of it
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_kind import KindCluster

    from kopf_kit.rig.cluster import Cluster as E2eCluster
    from kopf_kit.rig.control_plane import ControlPlane
    from kopf_kit.testing.calls import Proxy
    from kopf_kit.testing.installed import Installed, Kubectl
    from kopf_kit.testing.process import Operator
    from kopf_kit.testing.requests import Cluster
    from kopf_kit.testing.under_test import Subject
    from kopf_kit.testing.webhook import Conversions
    from kopf_kit.testing.world import World

pytest.register_assert_rewrite("kopf_kit.testing.conformance")
_SUITE = "kopf_kit.testing.conformance."


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the end-to-end tests use an operator that somebody else installed, such as OLM."""
    text = "the namespace of an operator that is installed already, for the fixture `installed`"
    parser.addoption("--installed-in", metavar="NAMESPACE", help=text)
    text = "have OLM, which is in the cluster, install the operator for the fixture `installed`"
    parser.addoption("--by-olm", action="store_true", help=text)
    text = "print what the operator survived of the conformance suite, as a table for a README"
    parser.addoption("--survived", action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Describe the mark that the suite's slow tests have."""
    config.addinivalue_line("markers", "long: takes minutes; leave out with -m 'not long'")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test of the suite with every subject in the module's SUBJECTS."""
    if not metafunc.function.__module__.startswith(_SUITE):
        return
    subjects: Sequence[Any] | None = getattr(metafunc.module, "SUBJECTS", None)
    if subjects is None:
        message = f"{metafunc.module.__file__} runs the suite, but has no SUBJECTS = (…,)"
        raise pytest.UsageError(message)
    essential = getattr(metafunc.function, "essential", False)
    if "scenario" not in metafunc.fixturenames:
        quick = [essential or subject.thorough for subject in subjects]
        params = [
            pytest.param(subject, id=str(subject), marks=() if soon else pytest.mark.long)
            for subject, soon in zip(subjects, quick, strict=True)
        ]
        metafunc.parametrize("subject", params)
        return
    left_out, least = metafunc.function.scenarios
    metafunc.parametrize(
        ("subject", "scenario"),
        [
            pytest.param(
                subject,
                name,
                id=f"{subject}-{name}",
                marks=() if name in {*subject.quick} - {*left_out} else pytest.mark.long,
            )
            for subject in subjects
            for name, writes in subject.writes.items()
            if writes >= least
        ],
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expect the failures that a subject knows of; have each report name its part of the suite."""
    for item in items:
        subject = _subject_of(item)
        fails = getattr(subject, "fails", None)
        module = item.function.__module__  # type: ignore[attr-defined]
        if module.startswith(_SUITE):
            item.user_properties.append((_SUITE, module.removeprefix(_SUITE)))
        if fails and module.startswith(_SUITE):
            why = fails.get(item.name) or fails.get(item.originalname)  # type: ignore[attr-defined]
            if why:
                item.add_marker(pytest.mark.xfail(reason=why, strict=True))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table of `--survived`."""
    if not terminalreporter.config.getoption("--survived"):
        return
    #: The part of each test, and why it failed; a test may also fail after it has passed.
    tests: dict[str, tuple[str, str]] = {}
    for outcome in ("passed", "xfailed", "failed"):
        for report in terminalreporter.stats.get(outcome, ()):
            if part := dict(report.user_properties).get(_SUITE):
                why = getattr(report, "wasxfail", "not expected") if outcome != "passed" else ""
                tests[report.nodeid] = str(part), why
    lines = ["", "| conformance suite | survived |", "|---|---|"]
    for part in sorted({part for part, _ in tests.values()}):
        ours = [why for other, why in tests.values() if other == part]
        lines.append(f"| `{part}` | {ours.count('')} of {len(ours)} |")
    lines += ["", "| not survived | why |", "|---|---|"]
    lines += [
        f"| `{test.rpartition('::')[2]}` | {why} |" for test, (_, why) in tests.items() if why
    ]
    terminalreporter.write_line("\n".join(lines))


def _subject_of(item: pytest.Item) -> Any:
    return getattr(getattr(item, "callspec", None), "params", {}).get("subject")


@pytest.fixture(scope="session")
def subjects(request: pytest.FixtureRequest) -> Sequence[Subject]:
    """Return the operators whose kinds are served from the start: those of the collected tests."""
    collected = [_subject_of(item) for item in request.session.items]
    return [*dict.fromkeys(subject for subject in collected if subject is not None)]


@pytest.fixture(scope="session")
def conversions() -> Iterator[Conversions]:
    """Convert objects of kinds with several versions, whatever happens to the operators."""
    from kopf_kit.testing.webhook import Conversions

    server = Conversions()
    yield server
    server.close()


@pytest.fixture(scope="session")
def api_server(subjects: Sequence[Subject], conversions: Conversions) -> Iterator[ControlPlane]:
    """Run etcd, the API server and some controllers; each xdist worker has its own.

    Its `server` is the URL, and `kubeconfig("admin")` writes a kubeconfig with all rights.
    """
    import logging

    from kopf_kit.rig.run import KitError
    from kopf_kit.testing import api_server, requests, under_test

    async def prepare(plane: ControlPlane) -> None:
        async with requests.connected(plane) as client:
            await under_test.prepare(client, *subjects, conversions=conversions)

    logging.getLogger("aiohttp.access").setLevel(logging.CRITICAL)
    users = {api_server.OPERATOR, *(operator.user for operator in subjects)}
    try:
        with api_server.running(users=users) as plane:
            asyncio.run(prepare(plane))
            plane.start_controllers(*api_server.CONTROLLERS)
            yield plane
    except KitError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
async def api(api_server: ControlPlane) -> AsyncIterator[Cluster]:
    """Return a client of the API server with all rights."""
    from kopf_kit.testing.requests import connected

    async with connected(api_server) as client:
        yield client


@pytest.fixture
def subject(request: pytest.FixtureRequest) -> Subject:
    """Return the operator under test: the first of the module's SUBJECTS."""
    subjects = getattr(request.module, "SUBJECTS", ())
    if not subjects:
        pytest.fail("define SUBJECTS in this module, or a fixture `subject`", pytrace=False)
    first: Subject = subjects[0]
    return first


@pytest.fixture
async def here(
    api: Cluster, subject: Subject, subjects: Sequence[Subject], conversions: Conversions
) -> AsyncIterator[World]:
    """Create a namespace for one test, without an operator yet."""
    from kopf_kit.testing.under_test import prepare
    from kopf_kit.testing.world import world

    if subject not in subjects:
        await prepare(api, subject, conversions=conversions)
    async with world(api, subject) as created:
        yield created


@pytest.fixture
async def operator(here: World) -> Operator:
    """Return the operator as a process that is ready; it is restarted whenever it ends."""
    return await here.start()


@pytest.fixture
def faults(here: World, operator: Operator) -> Proxy:
    """Return the proxy in front of the operator: `arm` faults of `kopf_kit.testing.calls` in it."""
    return here.proxy


@pytest.fixture(scope="session")
def cluster() -> Iterator[KindCluster]:
    """Create a kind cluster, and delete it after the session; it needs an engine such as Docker."""
    from pytest_kind import KindCluster

    from kopf_kit.rig import engine, kind, tools

    name = "kopf-kit-testing"
    engine.up()
    kind_cluster = KindCluster(
        name,
        kind.kubeconfig(name),
        kind_path=tools.path("kind"),
        kubectl_path=tools.path("kubectl"),
    )
    with contextlib.ExitStack() as stack:
        stack.callback(kind_cluster.delete)
        kind.create(name)
        kind_cluster.create()  # which finds it, and connects its client
        yield kind_cluster


@pytest.fixture(scope="session")
def e2e_cluster() -> E2eCluster:
    """Return the cluster of `kopf-kit e2e`; what the operator needs there is for you to add."""
    from kopf_kit.rig import cluster

    return cluster.up(cluster.TEST_NAME)


@pytest.fixture(scope="session")
def helm_options() -> Sequence[str]:
    """Return the options with which Helm installs the operator, such as `--set=replicas=2`."""
    return ()


@pytest.fixture(scope="session")
def installed(
    request: pytest.FixtureRequest,
    e2e_cluster: E2eCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Installed]:
    """Install the operator; remove it after the session, with its kinds and their objects.

    The processes of pytest-xdist share it. With `--installed-in`, it is there already, and it
    stays.
    """
    from kopf_kit.testing.installed import Installed, Kubectl, by_helm, by_olm

    if where := request.config.getoption("--installed-in"):
        yield Installed(Kubectl(e2e_cluster, where))
    elif request.config.getoption("--by-olm"):
        yield from by_olm(e2e_cluster)
    else:
        folder = tmp_path_factory.getbasetemp()
        users = (folder.parent if hasattr(request.config, "workerinput") else folder) / "users"
        yield from by_helm(e2e_cluster, request.getfixturevalue("helm_options"), users)


@pytest.fixture(scope="session")
def kubectl(request: pytest.FixtureRequest, installed: Installed) -> Iterator[Kubectl]:
    """Return kubectl in an empty namespace, which is deleted after the session."""
    from kopf_kit.testing.installed import HOME, namespace

    worker = getattr(request.config, "workerinput", {}).get("workerid")
    name = f"{HOME}-{worker}" if worker else HOME
    with namespace(installed.kubectl.cluster, name) as kubectl:
        yield kubectl
