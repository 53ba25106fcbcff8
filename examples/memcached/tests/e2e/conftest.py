"""What these tests stand on: the operator in the tests' own cluster, by Helm or by OLM."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kopf_kit.commands import crd, deploy
from kopf_kit.commands.operators import NAMESPACE, RELEASE
from kopf_kit.rig import cluster as clusters
from tests.e2e.kube import ExistingCluster, Kube
from tests.olm.installation import by_olm

#: Where the Memcacheds of the tests are.
HOME = "memcacheds-e2e"


@pytest.fixture(scope="session")
def kube() -> Iterator[Kube]:
    """The cluster, with the operator and an empty namespace; both go at the end."""
    with installed() as kube:
        kube.kubectl("delete", "namespace", HOME, "--ignore-not-found", "--timeout=120s")
        kube.kubectl("create", "namespace", HOME)
        yield kube
        kube.kubectl("delete", "namespace", HOME, "--timeout=120s")


@contextmanager
def installed() -> Iterator[Kube]:
    """Have the operator installed: by OLM in the tier `olm`, else by Helm."""
    if os.environ.get("INSTALLED_BY") == "olm":
        with by_olm() as subscription:
            yield subscription.kube
        return
    made = clusters.up(clusters.TEST_NAME)
    deploy.install(made)
    kube = Kube(ExistingCluster(made.name, made.kubeconfig, made.kubectl), made.helm)
    yield kube
    kube.helm("uninstall", RELEASE, "-n", NAMESPACE, "--wait", "--timeout=3m")
    crd.delete(made)
    kube.kubectl("delete", "namespace", NAMESPACE, "--timeout=120s")
