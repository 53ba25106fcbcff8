"""The end-to-end tests: a cluster, the operator in it, a namespace per test, by the kit's fixtures.

Those of this folder run side by side, in several processes that share one operator, so they leave
it alone: a test that stops, changes or replaces it, or asks how the whole cluster is, is in alone/
or chart/.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace

import pytest
from pytest_kind import KindCluster

from kopf_kit.rig import tools
from kopf_kit.rig.cluster import Cluster
from kopf_kit.testing import Installed
from tests.e2e import release
from tests.e2e.messages import RESTRICTED, Namespace, make_namespace
from tests.e2e.release import Operator
from tests.support.plugin import Plugin


@pytest.fixture(scope="session")
def e2e_cluster(e2e_cluster: Cluster) -> Cluster:
    """The tests' cluster, as pytest-kind finds it: it downloads nothing, and makes no other."""
    if e2e_cluster.kind is not None:
        made, programs = e2e_cluster, (e2e_cluster.kind, e2e_cluster.kubectl)
        KindCluster(made.name, made.kubeconfig, None, programs[0], programs[1]).create()
    return replace(e2e_cluster, helm=tools.path("helm3"))


@pytest.fixture(scope="session")
def plugin(e2e_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Plugin:
    """`kubectl message`, as a user of the cluster has it."""
    folder = tmp_path_factory.mktemp("plugin")
    return Plugin(folder, e2e_cluster.kubectl, e2e_cluster.kubeconfig)


@pytest.fixture(scope="session")
def helm_options(e2e_cluster: Cluster) -> Sequence[str]:
    """The chart's defaults, without another operator, such as an interrupted run left."""
    if not e2e_cluster.existing:
        release.uninstall(e2e_cluster, but=release.NAME)
    return ()


@pytest.fixture(scope="session")
def operator(installed: Installed) -> Operator:
    """The operator that the processes share, in a namespace that admits what is restricted."""
    kubectl = installed.kubectl
    kubectl("label", "--overwrite", "namespace", kubectl.namespace, RESTRICTED)
    return Operator(kubectl)


@pytest.fixture
def namespace(
    request: pytest.FixtureRequest, e2e_cluster: Cluster, operator: Operator
) -> Iterator[Namespace]:
    """A namespace of the test's own."""
    with make_namespace(e2e_cluster, request.node.name) as made:
        yield made


@pytest.fixture(autouse=True)
def the_operator_is_well(operator: Operator) -> Iterator[None]:
    """Fail a test during which the operator logged an error or was restarted by the kubelet."""
    yield
    trouble = operator.trouble()
    assert not trouble, "the operator is in trouble:\n" + "\n".join(trouble)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show, with a failure, what one would look at next."""
    report = yield
    for found in getattr(item, "funcargs", {}).values() if report.failed else ():
        if isinstance(found, Installed):
            report.sections.append(("the operator's log", found.log()[-20_000:]))
        if isinstance(found, Namespace):
            report.sections.extend(found.looks(*_LOOKS))
    return report


_LOOKS = ("events --sort-by=.metadata.resourceVersion", "messages -o yaml", "pods -o wide")
