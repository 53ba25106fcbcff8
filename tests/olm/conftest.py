"""What the tests by OLM stand on: OLM in the cluster, releases in the registry, a Subscription.

`make e2e` runs them after the tests by Helm, in the same cluster, of which those have removed the
operator and its CRD again.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from kopf_kit.project.releases import Release
from kopf_kit.release import artifacts
from kopf_kit.release.artifacts import Published
from kopf_kit.rig import cluster as clusters
from kopf_kit.rig import olm
from kopf_kit.rig.cluster import Cluster
from kopf_kit.testing import Kubectl
from tests.e2e import release
from tests.e2e.messages import PART_OF, Namespace, make_namespace
from tests.olm import releases
from tests.olm.subscription import NAME, Catalog, Subscription, remove

MakeNamespace = Callable[[str], Namespace]
#: The operator's image, and those of its Pods by their names in PROJECT.
Images = tuple[str, Mapping[str, str]]


@dataclass(frozen=True)
class Offers:
    """Catalog images: with the former release alone, and with the present one, too."""

    former: str
    present: str


@dataclass(frozen=True)
class Later:
    """Catalog images with a release that cannot start, and one more, with one that can.

    With it, the former release is deprecated.
    """

    broken: str
    mended: str


@pytest.fixture(scope="session")
def e2e_cluster() -> Iterator[Cluster]:
    """The tests' own cluster, with OLM in it; without an operator, before and after."""
    made = olm.up(clusters.TEST_NAME)
    _clean(made)
    yield made
    _clean(made)


@pytest.fixture(scope="session")
def kubectl(e2e_cluster: Cluster) -> Kubectl:
    """kubectl in OLM's own namespace."""
    return Kubectl(e2e_cluster, olm.NAMESPACE)


@pytest.fixture(scope="session")
def published(e2e_cluster: Cluster) -> Published:
    """The operator's image, the message Pods' and the chart."""
    return artifacts.publish_installation(e2e_cluster)


@pytest.fixture(scope="session")
def images(published: Published) -> Images:
    """The operator's image and those of its Pods, in the registry."""
    assert published.image is not None
    return published.image, published.pod_images


def _catalogs(images: Images, *versions: str) -> list[str]:
    """Return catalog images, each with one release more than the one before it."""
    image, pod_images = images
    missing = f"{image.partition('@')[0]}:missing"
    made: list[Release] = []
    catalogs = []
    for version in versions:
        of = missing if version == releases.BROKEN else image
        made.append(releases.publish_bundle(version, of, pod_images))
        deprecations = releases.DEPRECATED if version == releases.MENDED else ""
        catalogs.append(releases.publish_catalog(made, olm.image(), deprecations=deprecations))
    return catalogs


@pytest.fixture(scope="session")
def offers(images: Images) -> Offers:
    """The catalogs that the tests offer."""
    return Offers(*_catalogs(images, releases.FORMER, releases.PRESENT))


@pytest.fixture(scope="session")
def later(images: Images) -> Later:
    """The catalogs that come after them."""
    versions = (releases.FORMER, releases.PRESENT, releases.BROKEN, releases.MENDED)
    _, _, broken, mended = _catalogs(images, *versions)
    return Later(broken, mended)


@pytest.fixture(scope="session")
def catalog(kubectl: Kubectl, offers: Offers) -> Catalog:
    """A catalog for the whole cluster, with the former and the present release."""
    made = Catalog(kubectl)
    made.make(offers.present)
    return made


@pytest.fixture
def make(e2e_cluster: Cluster) -> Iterator[MakeNamespace]:
    """Make namespaces of the test's own."""
    release.clean(e2e_cluster, kind=False)
    with ExitStack() as made:
        yield lambda name: made.enter_context(make_namespace(e2e_cluster, name))


@pytest.fixture
def home(make: MakeNamespace) -> Namespace:
    """The namespace that the operator is installed into."""
    return make("home")


@pytest.fixture
def subscription(home: Namespace, catalog: Catalog) -> Iterator[Subscription]:
    """A Subscription that is yet to be made; what it installed is removed after the test."""
    yield from _subscription(home, catalog)


@pytest.fixture
def own_catalog(home: Namespace, offers: Offers) -> Catalog:
    """A catalog for the operator's namespace alone, which has the former release at first."""
    made = Catalog(home.kubectl, "own")
    made.make(offers.former)
    return made


@pytest.fixture
def followed(home: Namespace, own_catalog: Catalog) -> Iterator[Subscription]:
    """A Subscription to the catalog that changes."""
    yield from _subscription(home, own_catalog)


def _subscription(home: Namespace, catalog: Catalog) -> Iterator[Subscription]:
    made = Subscription(home.kubectl, catalog)
    yield made
    trouble = release.errors(made.log())
    made.uninstall()
    assert not trouble, "the operator is in trouble:\n" + "\n".join(trouble)


def _clean(cluster: Cluster) -> None:
    """Remove the tests' operators, those that an interrupted run left included, and the CRD."""
    ours = Kubectl(cluster, NAME)("get", "namespaces", "-l", PART_OF, "-o", "name").split()
    for name in (NAME, *(found.partition("/")[2] for found in ours)):  # OLM's has its own CSV
        remove(Kubectl(cluster, name))
    release.clean(cluster)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show, with a failure, what one would look at next."""
    report = yield
    for found in getattr(item, "funcargs", {}).values() if report.failed else ():
        if isinstance(found, Subscription):
            report.sections.append(("the operator's log", found.log()))
            report.sections.extend(Namespace(found.kubectl).looks(*_LOOKS))
    return report


_LOOKS = (
    "subscriptions,csv,installplans,operatorgroups,catalogsources -o wide",
    "subscriptions -o jsonpath={.items[*].status.conditions}",
    "deployments,pods,jobs -o wide",
    "events --sort-by=.metadata.resourceVersion",
    "messages -A -o wide",
)
