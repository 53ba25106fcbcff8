"""An operator by OLM: a Subscription installs it, and what it serves outlives its removal.

The tier `olm` with PROJECT=examples/memcached runs it, on the tests' own cluster, and with it the
operator's own end-to-end tests. The Message's are all in tests/olm.
"""

import json
from collections.abc import Iterator

import pytest

from kopf_kit.cli import e2e
from kopf_kit.project import documents
from kopf_kit.project.definition import PROJECT, Kind
from kopf_kit.rig import cluster as clusters
from kopf_kit.rig import olm
from kopf_kit.testing.installed import by_olm
from kopf_kit.testing.requests import wait_until
from tests.e2e.kube import CommandError, ExistingCluster, Kube, Object
from tests.e2e.messages import Namespace, make_namespace, ready, uid
from tests.olm import releases
from tests.olm.subscription import Catalog, Subscription


@pytest.fixture(scope="module")
def subscription() -> Iterator[Subscription]:
    """Have OLM install the operator, as `kopf-kit e2e-olm` does; everything goes at the end."""
    cluster = olm.up(clusters.TEST_NAME)
    kube = Kube(ExistingCluster(cluster.name, cluster.kubeconfig, cluster.kubectl), cluster.helm)
    for installed in by_olm(cluster):
        catalog = Catalog(kube, "catalog", installed.namespace)
        yield Subscription(Namespace(kube, installed.namespace), catalog)


@pytest.fixture
def theirs(subscription: Subscription) -> Iterator[Namespace]:
    for namespace in make_namespace(subscription.kube, "theirs"):
        if PROJECT.adopted:  # its Pods are as their author wrote them
            label = ("label", "namespace", namespace.name, "pod-security.kubernetes.io/enforce-")
            namespace.kubectl(*label)
        yield namespace
        let_go(namespace)


def let_go(theirs: Namespace) -> None:
    """Delete the objects that have a finalizer: nothing outside the cluster needs a cleanup."""
    nobody = '--patch={"metadata":{"finalizers":null}}'
    for kind in PROJECT.kinds:
        for found in json.loads(theirs.kubectl("get", kind.crd, "-o", "json"))["items"]:
            if found["metadata"].get("finalizers"):
                name = found["metadata"]["name"]
                theirs.kubectl("delete", "--wait=false", "--", kind.crd, name)
                theirs.kubectl("patch", "--type=merge", nobody, "--", kind.crd, name)


def test_uninstalled_it_leaves_the_objects_and_installed_again_it_serves_others(
    subscription: Subscription, theirs: Namespace
) -> None:
    kube = subscription.kube
    kinds = [kind for kind in PROJECT.kinds if PROJECT.samples[kind.kind]]
    kept = [(kind, uid(declare(theirs, kind, "kept"))) for kind in kinds]
    assert len(subscription.made()) > 5

    subscription.uninstall()

    wait_until("all of OLM's making to be gone", subscription.made, lambda made: not made)
    for kind, identity in kept:
        assert kube.get("CustomResourceDefinition", kind.crd) is not None
        left = get(theirs, kind, "kept")
        assert uid(left) == identity
        assert "deletionTimestamp" not in left["metadata"]

    subscription.subscribe()
    subscription.wait_until_installed(releases.PRESENT)

    for kind, identity in kept:
        declare(theirs, kind, "another")
        assert uid(get(theirs, kind, "kept")) == identity


def test_its_own_end_to_end_tests_pass_with_it(subscription: Subscription) -> None:
    where = f"--installed-in={subscription.namespace.name}"
    assert e2e.run_pytest(str(PROJECT.root / "tests" / "e2e"), where) == 0


def declare(theirs: Namespace, kind: Kind, name: str) -> Object:
    """Declare a kind's sample under a name; return it once the operator has told how it is."""
    sample = documents.load(PROJECT.samples[kind.kind][0].read_text())
    sample["metadata"]["name"] = name

    def create() -> str:
        try:
            return theirs.kubectl("create", "-f", "-", stdin=json.dumps(sample))
        except CommandError as error:
            return str(error)

    def look() -> Object | CommandError:
        try:
            return get(theirs, kind, name)
        except CommandError as error:
            return error

    # OLM writes the bundle's CRD once more if it has to repeat a plan: then the API server can
    # neither write nor read an object, for a moment (operator-lifecycle-manager #2891).
    wait_until(f"the {kind.kind} {name} to be created", create, lambda said: "created" in said)
    found = wait_until(f"the operator to tell of the {kind.kind} {name}", look, served)
    assert isinstance(found, dict), found
    return found


def served(found: Object | CommandError) -> bool:
    """Return whether the operator has told how an object is; kopf alone notes what it handled."""
    if isinstance(found, CommandError):
        return False
    if PROJECT.adopted:
        noted = "kopf.zalando.org/last-handled-configuration"
        return noted in found["metadata"].get("annotations", {})
    return bool(ready(found.get("status") or {}).get("observedGeneration") == 1)


def get(theirs: Namespace, kind: Kind, name: str) -> Object:
    found: Object = json.loads(theirs.kubectl("get", "-o", "json", "--", kind.crd, name))
    return found
