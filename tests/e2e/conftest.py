"""What all end-to-end tests stand on: a cluster, the operator in it, a namespace per test.

`make e2e` runs these tests; they get the cluster, the image and the chart from `hack`.
"""

from collections.abc import Generator, Iterator
from datetime import UTC, datetime

import pytest

from hack.pack import artifacts
from hack.rig import cluster as hack_cluster
from tests.e2e import release
from tests.e2e.kube import Cluster, CommandError, Kube
from tests.e2e.messages import LABELS, Namespace, make_namespace
from tests.e2e.release import Operator
from tests.e2e.shared import cluster, hack_made, kube
from tests.support.plugin import Plugin

__all__ = ["cluster", "hack_made", "kube"]

_BEGAN = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def plugin(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Plugin:
    """`kubectl message`, as a user of the cluster has it."""
    return Plugin(tmp_path_factory.mktemp("plugin"), cluster.kubectl_path, cluster.kubeconfig_path)


@pytest.fixture(scope="session")
def operator(hack_made: hack_cluster.Cluster, kube: Kube) -> Iterator[Operator]:
    """The operator and its CRD, installed once by Helm, and removed at the end."""
    ours = not hack_made.existing
    release.clean(kube, ours=ours)
    metadata = {"name": release.NAMESPACE, "labels": LABELS}
    if kube.get("Namespace", release.NAMESPACE) is None:
        kube.create({"kind": "Namespace", "metadata": metadata})
    installed = Operator(kube, artifacts.publish(hack_made))
    # The CRD and its roles may be there already, of another release that was removed just now.
    installed.install(*(["--take-ownership"] if ours else []))
    yield installed
    installed.uninstall()
    release.remove_namespaces(kube)
    release.remove_crd(kube)


@pytest.fixture
def namespace(
    request: pytest.FixtureRequest, kube: Kube, operator: Operator
) -> Iterator[Namespace]:
    """A namespace of the test's own."""
    yield from make_namespace(kube, request.node.name)


@pytest.fixture(autouse=True)
def the_operator_is_well(operator: Operator) -> Iterator[None]:
    """Fail a test during which the operator logged an error or was restarted by the kubelet."""
    yield
    trouble = operator.trouble()
    assert not trouble, "the operator is in trouble:\n" + "\n".join(trouble)


# --- what a failed test shows -----------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note when the test began."""
    item.stash[_BEGAN] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show, with a failure, what one would look at next."""
    report = yield
    if report.failed:
        report.sections.extend(_findings(item))
    return report


def _findings(item: pytest.Item) -> Iterator[tuple[str, str]]:
    fixtures = getattr(item, "funcargs", {}).values()
    for found in fixtures:
        if isinstance(found, Operator):
            yield "the operator's log", found.log(since=item.stash[_BEGAN])
    for found in fixtures:
        if isinstance(found, Namespace):
            for what, args in _LOOKS.items():
                try:
                    yield f"{what} in {found.name}", found.kubectl("get", *args)
                except (CommandError, OSError) as error:
                    yield f"{what} in {found.name}", str(error)


_LOOKS = {
    "Events": ["events", "--sort-by=.metadata.resourceVersion"],
    "Messages": ["messages", "-o", "yaml"],
    "Pods": ["pods", "-o", "wide"],
}
