"""The operator of PROJECT in the tests' own cluster, by OLM; for the operators of examples/."""

from collections.abc import Iterator
from contextlib import contextmanager

from kopf_kit.commands import crd, operators
from kopf_kit.pack import artifacts
from kopf_kit.rig import cluster as clusters
from kopf_kit.rig import olm
from kopf_kit.rig.cluster import Cluster
from tests.e2e.kube import ExistingCluster, Kube
from tests.e2e.messages import Namespace
from tests.e2e.waiting import wait_until
from tests.olm import releases
from tests.olm.subscription import NAME, Catalog, Subscription

#: Where the Subscription is.
HOME = f"{NAME}-by-olm"


@contextmanager
def by_olm() -> Iterator[Subscription]:
    """Have a catalog with the present release, and a Subscription that has installed it.

    Everything is removed afterwards, the kinds with all their objects included.
    """
    cluster = olm.up(clusters.TEST_NAME)
    kube = Kube(ExistingCluster(cluster.name, cluster.kubeconfig, cluster.kubectl), cluster.helm)
    subscription = Subscription(Namespace(kube, HOME), Catalog(kube, NAME))
    _remove(subscription, cluster)
    # The release of an interrupted run of the tests by Helm; two would act on the same objects.
    kube.helm(
        *("uninstall", operators.RELEASE, "-n", operators.NAMESPACE),
        *("--ignore-not-found", "--wait", "--timeout=3m"),
    )
    published = artifacts.publish(cluster)
    assert published.image is not None
    release = releases.publish_bundle(releases.PRESENT, published.image, published.pod_images)
    subscription.catalog.make(releases.publish_catalog([release], olm.image()))
    subscription.namespace.make()
    subscription.group()
    subscription.subscribe()
    subscription.wait_until_installed(releases.PRESENT)
    yield subscription
    _remove(subscription, cluster)


def _remove(subscription: Subscription, cluster: Cluster) -> None:
    """Remove the objects while the operator can still let them go, then all that OLM has."""
    kube = subscription.kube
    crd.delete(cluster)
    subscription.uninstall()
    subscription.catalog.remove()
    subscription.namespace.remove()
    wait_until(
        f"the namespace {HOME} to be gone",
        lambda: kube.get("Namespace", HOME),
        lambda found: found is None,
    )
