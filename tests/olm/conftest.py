"""What the tests by OLM stand on: OLM in the cluster, releases in the registry, a Subscription.

`make e2e` runs them after the tests by Helm, in the same cluster, of which those have removed the
operator and its CRD again.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

import pytest

from kopf_kit.olm.bundle import Release
from kopf_kit.release import artifacts
from kopf_kit.release.artifacts import Published
from kopf_kit.rig import cluster as hack_cluster
from kopf_kit.rig import olm, tools
from tests.e2e import release
from tests.e2e.kube import Cluster, CommandError, Kube
from tests.e2e.messages import Namespace, make_namespace
from tests.e2e.shared import cluster
from tests.olm import releases
from tests.olm.subscription import NAME, Catalog, Subscription

__all__ = ["cluster"]

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
def hack_made() -> hack_cluster.Cluster:
    """The tests' own cluster, with OLM in it."""
    return olm.up(hack_cluster.TEST_NAME)


@pytest.fixture(scope="session")
def kube(hack_made: hack_cluster.Cluster, cluster: Cluster) -> Iterator[Kube]:
    """The cluster, to talk to; without an operator, before and after."""
    kube = Kube(cluster, tools.path("helm3"))
    _clean(kube)
    yield kube
    _clean(kube)


@pytest.fixture(scope="session")
def published(hack_made: hack_cluster.Cluster, kube: Kube) -> Published:
    """The operator's image, the message Pods' and the chart."""
    return artifacts.publish_installation(hack_made)


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
        told = releases.DEPRECATED if version == releases.MENDED else ""
        catalogs.append(releases.publish_catalog(made, olm.image(), deprecations=told))
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
def catalog(kube: Kube, offers: Offers) -> Iterator[Catalog]:
    """A catalog for the whole cluster, with the former and the present release."""
    made = Catalog(kube, NAME)
    made.make(offers.present)
    yield made
    made.remove()


@pytest.fixture
def make(request: pytest.FixtureRequest, kube: Kube) -> Iterator[MakeNamespace]:
    """Makes namespaces of the test's own."""
    with suppress(CommandError):  # there are none, or there is not even the kind
        kube.kubectl("delete", "messages", "-A", "--all")
    made: list[Iterator[Namespace]] = []

    def make_one(name: str) -> Namespace:
        made.append(make_namespace(kube, name))
        return next(made[-1])

    yield make_one
    for making in made:
        next(making, None)


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
    made = Catalog(home.kube, "own", home.name)
    made.make(offers.former)
    return made


@pytest.fixture
def followed(home: Namespace, own_catalog: Catalog) -> Iterator[Subscription]:
    """A Subscription to the catalog that changes."""
    yield from _subscription(home, own_catalog)


def _subscription(home: Namespace, catalog: Catalog) -> Iterator[Subscription]:
    made = Subscription(home, catalog)
    yield made
    trouble = [line for line in made.log().splitlines() if release.is_trouble(line)]
    made.uninstall()
    assert not trouble, "the operator is in trouble:\n" + "\n".join(trouble)


def _clean(kube: Kube) -> None:
    """Remove the tests' operators, those that an interrupted run left included, and the CRD."""
    release.clean(kube, ours=True)
    for kind in ("subscriptions", "clusterserviceversions"):
        for namespace in release.namespaces(kube):
            kube.kubectl("delete", f"{kind}.operators.coreos.com", "--all", "-n", namespace)
    ours = ("catalogsources.operators.coreos.com", "clustercatalogs.olm.operatorframework.io")
    for kind in ours:
        kube.kubectl("delete", kind, NAME, "-n", olm.NAMESPACE, "--ignore-not-found")
    release.remove_namespaces(kube)
    release.remove_crd(kube)


# --- what a failed test shows -----------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show, with a failure, what one would look at next."""
    report = yield
    if report.failed:
        for found in getattr(item, "funcargs", {}).values():
            if isinstance(found, Subscription):
                report.sections.append(("the operator's log", found.log()))
                report.sections.extend(_looks(found.namespace))
    return report


def _looks(namespace: Namespace) -> Iterator[tuple[str, str]]:
    looks = (
        ("subscriptions,csv,installplans,operatorgroups,catalogsources", "-o", "wide"),
        ("subscriptions", "-o", "jsonpath={.items[*].status.conditions}"),
        ("deployments,pods,jobs", "-o", "wide"),
        ("events", "--sort-by=.metadata.resourceVersion"),
        ("messages", "-A", "-o", "wide"),
    )
    for look in looks:
        try:
            yield f"{look[0]} in {namespace.name}", namespace.kubectl("get", *look)
        except (CommandError, OSError) as error:
            yield f"{look[0]} in {namespace.name}", str(error)
