"""The chart in a cluster: each test has releases of its own.

They take over the kind that the release before them has left, unless a test asks for a cluster
`without_kind`: a kind takes its time to go.
"""

import contextlib
import dataclasses
import re
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chart import foreign_kinds
from chart.helm import CHART, helm
from kopf_kit.olm import manifests
from kopf_kit.release import artifacts
from kopf_kit.release.artifacts import Published
from kopf_kit.rig import registry
from kopf_kit.rig.cluster import Cluster
from kopf_kit.testing import Kubectl
from tests.e2e import release
from tests.e2e.messages import Namespace, make_namespace
from tests.e2e.release import Operator

#: The version that `previous` is published as.
OLDER = "0.0.9"


#: Gives a release of that name in that namespace; nothing is installed yet.
Releases = Callable[..., Operator]


@pytest.fixture(scope="session")
def published(e2e_cluster: Cluster) -> Published:
    """What there is to install."""
    if e2e_cluster.existing:
        pytest.skip("these tests remove the kind and every Message: only in a cluster of our own")
    return artifacts.publish_installation(e2e_cluster)


@pytest.fixture(scope="session")
def previous(published: Published, tmp_path_factory: pytest.TempPathFactory) -> Published:
    """The release before this one, as far as upgrades go.

    As long as none was published, it is this chart under an older version, with a kind that does
    not know `intervalSeconds` yet.
    """
    folder = tmp_path_factory.mktemp("previous")
    chart = folder / "message-operator"
    shutil.copytree(CHART, chart)
    crd = chart / "templates" / "crd.yaml"
    former, fields = re.subn(r"( +)intervalSeconds:\n(\1 +.*\n)+", "", crd.read_text())
    assert fields == 1
    crd.write_text(former)
    helm("package", chart, "--destination", folder, "--version", OLDER, "--app-version", OLDER)
    package = folder / f"message-operator-{OLDER}.tgz"
    helm("push", package, f"oci://{registry.ADDRESS}/charts", "--plain-http")
    repository, _, _ = published.chart.partition("@")
    options = ("--version", OLDER, *published.options)
    return dataclasses.replace(published, chart=repository, options=options)


def image_digest(published: Published) -> str:
    """Return the digest of the operator's image."""
    (option,) = (o for o in published.options if o.startswith("--set-string=image.digest="))
    return option.rpartition("=")[2]


@pytest.fixture
def cluster(e2e_cluster: Cluster) -> Cluster:
    """The cluster, with the Helm that installs the releases."""
    return e2e_cluster


@pytest.fixture
def kubectl(cluster: Cluster) -> Kubectl:
    """kubectl for what has no namespace: the kit's is for one operator of all tests."""
    return Kubectl(cluster, "default")


def the_kind(kubectl: Kubectl) -> None:
    """Install the kind alone, as an administrator does who lets others install operators."""
    kubectl("apply", "-f", "-", stdin=manifests.texts()["crds.yaml"])
    kubectl("wait", "--for=condition=Established", f"crd/{release.CRD}")


@contextlib.contextmanager
def monitoring_kinds(kubectl: Kubectl) -> Iterator[None]:
    """Have the kinds of the Prometheus Operator for a while, which does not run itself."""
    crds = foreign_kinds.crds(foreign_kinds.PROMETHEUS_OPERATOR)
    names = [f"crd/{crd['metadata']['name']}" for crd in crds]
    kubectl.apply(*crds)
    try:
        kubectl("wait", "--for=condition=Established", *names)
        yield
    finally:
        kubectl("delete", *names)


@pytest.fixture
def without_kind(e2e_cluster: Cluster, published: Published) -> None:
    """Have a cluster that has neither an operator nor the kind."""
    release.clean(e2e_cluster)


@pytest.fixture
def releases(cluster: Cluster, published: Published) -> Iterator[Releases]:
    """Make releases in a cluster that has no other operator; then remove them."""
    made: list[Operator] = []

    def make(namespace: Namespace, *, published: Published = published, **of: Any) -> Operator:
        kubectl = Kubectl(cluster, namespace.name)
        made.append(Operator(kubectl, published, **of))
        return made[-1]

    release.clean(cluster, kind=False)
    yield make
    troubles = {operator.name: operator.trouble() for operator in made}
    for operator in made:
        operator.uninstall()
    assert not any(troubles.values()), f"an operator was in trouble: {troubles}"


@pytest.fixture
def place(
    request: pytest.FixtureRequest, cluster: Cluster, releases: Releases
) -> Iterator[Callable[[str], Namespace]]:
    """Make namespaces that are named after the test."""
    test = request.node.originalname[:40]
    with contextlib.ExitStack() as made:
        yield lambda name: made.enter_context(make_namespace(cluster, f"{test}{name}"))


@pytest.fixture
def home(place: Callable[[str], Namespace]) -> Namespace:
    """The namespace of the operator."""
    return place("-home")


@pytest.fixture
def namespace(place: Callable[[str], Namespace]) -> Namespace:
    """A namespace for the test's Messages."""
    return place("")


@pytest.fixture
def other(place: Callable[[str], Namespace]) -> Namespace:
    """One more namespace."""
    return place("-other")


@pytest.fixture(autouse=True)
def the_operator_is_well() -> None:
    """Have no operator beside those of the test, which `releases` looks after."""
