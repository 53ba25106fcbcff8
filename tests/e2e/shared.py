"""The fixtures that tests on a cluster share: by Helm, by OLM, by `make`, and of the pages."""

from typing import cast

import pytest
from pytest_kind import KindCluster

from kopf_kit.rig import cluster as hack_cluster
from kopf_kit.rig import tools
from tests.e2e.kube import Cluster, ExistingCluster, Kube


@pytest.fixture(scope="session")
def hack_made() -> hack_cluster.Cluster:
    """The tests' own kind cluster, or an existing one, as the project's tools give it."""
    return hack_cluster.up(hack_cluster.TEST_NAME)


@pytest.fixture(scope="session")
def cluster(hack_made: hack_cluster.Cluster) -> Cluster:
    """The cluster as pytest-kind's `KindCluster`; it downloads nothing and makes no other."""
    if hack_made.existing or hack_made.kind is None:
        return ExistingCluster(hack_made.name, hack_made.kubeconfig, hack_made.kubectl)
    kind = KindCluster(
        hack_made.name,
        kubeconfig=hack_made.kubeconfig,
        kind_path=hack_made.kind,
        kubectl_path=hack_made.kubectl,
    )
    kind.create()
    return cast("Cluster", kind)


@pytest.fixture(scope="session")
def kube(cluster: Cluster) -> Kube:
    """The cluster, to talk to."""
    return Kube(cluster, tools.path("helm3"))
