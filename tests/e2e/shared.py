"""The fixture that the tests by Helm, here, share with those by OLM, in tests/olm."""

from typing import cast

import pytest
from pytest_kind import KindCluster

from hack.rig import cluster as hack_cluster
from tests.e2e.kube import Cluster, ExistingCluster


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
