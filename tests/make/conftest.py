"""What the tests of the Makefile's commands stand on: `make` itself, on the tests' own cluster.

The tier `make` runs them: they remove every operator, and at the end OLM.
"""

from collections.abc import Iterator

import pytest

from kopf_kit.release import artifacts
from kopf_kit.release.artifacts import Published
from kopf_kit.rig import cluster as hack_cluster
from kopf_kit.rig.cluster import Cluster
from kopf_kit.testing import Kubectl
from tests.e2e import release
from tests.e2e.messages import Namespace, make_namespace
from tests.make.commands import CHECKOUT, Make


@pytest.fixture(scope="session")
def make() -> Make:
    """The commands, on the tests' own cluster."""
    return Make(CHECKOUT, KIND_CLUSTER_NAME=hack_cluster.TEST_NAME)


@pytest.fixture(scope="session")
def published(e2e_cluster: Cluster) -> Published:
    """What another user installs, in another namespace."""
    return artifacts.publish_installation(e2e_cluster)


@pytest.fixture
def kubectl(e2e_cluster: Cluster) -> Kubectl:
    """kubectl where `make deploy` installs; the kit's has an operator of its own."""
    return Kubectl(e2e_cluster, release.NAME)


@pytest.fixture
def namespace(request: pytest.FixtureRequest, e2e_cluster: Cluster) -> Iterator[Namespace]:
    """A namespace for Messages, in a cluster that has neither an operator nor the CRD."""
    release.clean(e2e_cluster)
    with make_namespace(e2e_cluster, request.node.originalname) as made:
        yield made
    release.clean(e2e_cluster)


@pytest.fixture
def home(request: pytest.FixtureRequest, namespace: Namespace) -> Iterator[Namespace]:
    """A namespace for another user's operator."""
    cluster, test = namespace.kubectl.cluster, request.node.originalname[:40]
    with make_namespace(cluster, f"{test}-home") as made:
        yield made
