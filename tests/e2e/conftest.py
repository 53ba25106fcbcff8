"""What all end-to-end tests stand on: a cluster, the operator in it, a namespace per test.

`make e2e` runs these tests; they get the cluster, the image and the chart from `hack`. Those of
this folder run side by side, in several processes that share one operator, so they leave it alone:
a test that stops, changes or replaces it, or asks how the whole cluster is, is in alone/ or chart/.
"""

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from kopf_kit.release import artifacts
from kopf_kit.release.artifacts import Published
from kopf_kit.rig import cluster as hack_cluster
from kopf_kit.rig import tools
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
def operator(
    hack_made: hack_cluster.Cluster, kube: Kube, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    """The operator and its CRD, as the chart comes; the first process installs it by Helm.

    The last one removes it.
    """
    folder = tmp_path_factory.getbasetemp()
    users = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "users"
    installed = Operator(kube, Published("only the first process installs it", ()))
    with tools.lock("e2e-operator"):
        if not _count(users, 1):
            installed = _install(hack_made, kube)
    yield installed
    with tools.lock("e2e-operator"):
        if _count(users, -1) == 1:
            installed.uninstall()
            release.remove_namespaces(kube)
            release.remove_crd(kube)


def _count(users: Path, more: int) -> int:
    """Count those who use the operator; return how many they were before."""
    before = int(users.read_text()) if users.exists() else 0
    users.write_text(str(before + more))
    return before


def _install(hack_made: hack_cluster.Cluster, kube: Kube) -> Operator:
    ours = not hack_made.existing
    release.clean(kube, ours=ours)
    metadata = {"name": release.NAMESPACE, "labels": LABELS}
    if kube.get("Namespace", release.NAMESPACE) is None:
        kube.create({"kind": "Namespace", "metadata": metadata})
    # The CRD and its roles may be there already, of another release that was removed just now.
    installed = Operator(kube, artifacts.publish_installation(hack_made), takes_over=ours)
    installed.install()
    return installed


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
    item.stash[_BEGAN] = release.now()


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
