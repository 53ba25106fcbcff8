"""The operator moves from Helm to OLM and back, and Messages do not notice."""

from collections.abc import Iterator

import pytest

from kopf_kit.release.artifacts import Published
from tests.e2e import release
from tests.e2e.kube import Kube
from tests.e2e.messages import LABELS, Namespace, restarts, uid
from tests.e2e.release import Operator
from tests.e2e.waiting import wait_until
from tests.olm import releases
from tests.olm.conftest import MakeNamespace
from tests.olm.subscription import CRD, Subscription


@pytest.fixture
def helm(kube: Kube, published: Published) -> Iterator[Operator]:
    """The operator's release by Helm, yet to be installed."""
    if kube.get("Namespace", release.NAMESPACE) is None:
        metadata = {"name": release.NAMESPACE, "labels": LABELS}
        kube.create({"kind": "Namespace", "metadata": metadata})
    yield Operator(kube, published)
    kube.helm("uninstall", release.NAME, "-n", release.NAMESPACE, "--ignore-not-found", "--wait")


@pytest.mark.long
def test_from_helm_to_olm_and_back_no_message_is_lost_and_no_message_pod_restarts(
    helm: Operator, subscription: Subscription, make: MakeNamespace
) -> None:
    theirs = make("theirs")
    helm.install("--take-ownership")
    kept = theirs.create("kept", "kept")
    pod = kept.wait_until_ready()
    edited = theirs.create("edited", "by Helm's")
    edited.wait_until_ready()

    helm.uninstall()
    wait_until("Helm's operator to be gone", helm.pods, lambda pods: not pods)
    between = theirs.create("between", "between")
    subscription.group()
    subscription.subscribe()
    subscription.wait_until_installed(releases.PRESENT)

    between.wait_until_ready()
    edited.edit(text="by OLM's")
    edited.wait_for_log(b"by OLM's\n")
    assert_same(theirs, pod)

    subscription.uninstall()
    assert subscription.kube.get("CustomResourceDefinition", CRD) is not None
    helm.install("--take-ownership")

    edited.edit(text="by Helm's again")
    edited.wait_for_log(b"by Helm's again\n")
    assert_same(theirs, pod)
    helm.uninstall()
    assert subscription.kube.get("CustomResourceDefinition", CRD) is not None


def assert_same(theirs: Namespace, pod: dict[str, dict[str, str]]) -> None:
    """Check that the Message that nobody touched has the Pod that it had, never restarted."""
    now = theirs.message("kept").wait_until_ready()
    assert (uid(now), restarts(now)) == (uid(pod), 0)
