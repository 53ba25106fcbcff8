"""What the tests of the Makefile's commands stand on: `make` itself, on the tests' own cluster.

The tier `make` runs them: they remove every operator, and at the end OLM.
"""

from collections.abc import Iterator

import pytest

from kopf_kit.release import artifacts
from kopf_kit.release.artifacts import Published
from kopf_kit.rig import cluster as hack_cluster
from tests.e2e import release
from tests.e2e.kube import Kube
from tests.e2e.messages import Namespace, make_namespace
from tests.e2e.shared import cluster, hack_made, kube
from tests.make.commands import CHECKOUT, Make

__all__ = ["cluster", "hack_made", "kube"]


@pytest.fixture(scope="session")
def make() -> Make:
    """The commands, on the tests' own cluster."""
    return Make(CHECKOUT, KIND_CLUSTER_NAME=hack_cluster.TEST_NAME)


@pytest.fixture(scope="session")
def published(hack_made: hack_cluster.Cluster) -> Published:
    """What another user installs, in another namespace."""
    return artifacts.publish_installation(hack_made)


@pytest.fixture
def namespace(request: pytest.FixtureRequest, kube: Kube) -> Iterator[Namespace]:
    """A namespace for Messages, in a cluster that has neither an operator nor the CRD."""
    _clean(kube)
    yield from make_namespace(kube, request.node.originalname)
    _clean(kube)


@pytest.fixture
def home(request: pytest.FixtureRequest, kube: Kube, namespace: Namespace) -> Iterator[Namespace]:
    """A namespace for another user's operator."""
    yield from make_namespace(kube, f"{request.node.originalname[:40]}-home")


def _clean(kube: Kube) -> None:
    release.clean(kube, ours=True)
    release.remove_crd(kube)
