"""What the tests of upgrades stand on: the tests' own cluster with OLM, and releases to upgrade.

The tier `upgrades` runs them. The releases are made once, and are in the registry beside the
cluster, in a folder of their own.
"""

import secrets
from collections.abc import Iterator

import pytest

from kopf_kit.rig import cluster as hack_cluster
from kopf_kit.rig import registry, steps
from tests.e2e import release
from tests.e2e.kube import Kube
from tests.e2e.messages import Namespace
from tests.e2e.release import Operator
from tests.e2e.shared import cluster
from tests.olm.conftest import (
    MakeNamespace,
    followed,
    hack_made,
    home,
    kube,
    make,
    pytest_runtest_makereport,
)
from tests.olm.subscription import Catalog
from tests.release import releasing
from tests.upgrades.life import Clone, Life

__all__ = [
    "cluster",
    "followed",
    "hack_made",
    "home",
    "kube",
    "make",
    "pytest_runtest_makereport",
]


@pytest.fixture(scope="session")
def life(hack_made: hack_cluster.Cluster, tmp_path_factory: pytest.TempPathFactory) -> Life:
    """All releases, in the registry beside the cluster."""
    steps.scrub_for_tests(
        ("MESSAGE_", "IMG", "KEYS", "COSIGN_", "CATALOG_IMG", "ACTIONS_ID_TOKEN_")
    )
    scratch = tmp_path_factory.mktemp("life")
    keys = releasing.make_keys(scratch / "keys")
    prefix = f"{registry.ADDRESS}/rehearsal-{secrets.token_hex(4)}"
    clone = Clone.of(
        releasing.CHECKOUT,
        scratch / "clone",
        KEYS=str(keys.folder),
        REGISTRY=prefix,
    )
    life = Life(clone, prefix, keys)
    life.live()
    return life


@pytest.fixture
def messages(make: MakeNamespace) -> Namespace:
    """A namespace for Messages."""
    return make("messages")


@pytest.fixture
def operator(kube: Kube, life: Life, home: Namespace, version: str) -> Iterator[Operator]:
    """The operator of a version by Helm, yet to be installed, in a cluster without the kind."""
    release.remove_crd(kube)
    operator = Operator(kube, life.published(version), namespace=home.name)
    yield operator
    trouble = operator.trouble()
    kube.helm("uninstall", operator.name, "-n", home.name, "--ignore-not-found", "--wait")
    release.remove_crd(kube)
    assert not trouble, "the operator is in trouble:\n" + "\n".join(trouble)


@pytest.fixture
def own_catalog(home: Namespace) -> Catalog:
    """The catalog of the Subscription `followed`, yet to be made."""
    return Catalog(home.kube, "own", home.name)
