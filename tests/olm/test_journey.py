"""The life of an operator by OLM, from Helm to OLM and back, with OLM v1.

What each step is about has tests of its own, which `make test` leaves out (`long`).
"""

import json
from collections.abc import Iterator

import pytest

from kopf_kit.project.releases import NAME
from kopf_kit.release.artifacts import Published
from kopf_kit.rig import olm
from kopf_kit.testing import Kubectl
from kopf_kit.testing.requests import wait_until
from tests.e2e.messages import WAIT, Namespace, Object, restarts, uid
from tests.e2e.release import Operator
from tests.olm import releases
from tests.olm.conftest import MakeNamespace, Offers
from tests.olm.subscription import CRD, Subscription, csv_name


def test_it_is_installed_upgraded_and_uninstalled_and_adopts_what_it_left(
    subscription: Subscription, home: Namespace, make: MakeNamespace
) -> None:
    elsewhere = make("elsewhere")
    # The former release, in the mode OwnNamespace, and not before somebody has approved of it.
    subscription.group(home.name)
    subscription.subscribe(starting=releases.FORMER, approval="Manual")
    subscription.wait_for_plan(releases.FORMER)
    assert subscription.csvs() == {}
    subscription.approve(releases.FORMER)
    subscription.wait_until_installed(releases.FORMER)
    names = ("deleted", "kept", "edited")
    messages = {name: home.create(name, "before") for name in names}
    ignored = elsewhere.create("ignored", "no longer")
    pods = {name: message.wait_until_ready() for name, message in messages.items()}
    assert (ignored.status(), ignored.pod()) == ({}, None)
    assert not subscription.may("list", "messages.myorg.dev", elsewhere.name)

    # The upgrade, not before it is approved of either: no Pod of a Message restarts.
    subscription.wait_for_plan(releases.PRESENT)
    assert subscription.csvs().keys() == {csv_name(releases.FORMER)}
    subscription.approve(releases.PRESENT)
    subscription.wait_until_installed(releases.PRESENT)
    home.create("served", "served").wait_until_ready()
    now = {name: message.wait_until_ready() for name, message in messages.items()}
    assert {name: (uid(pod), restarts(pod)) for name, pod in now.items()} == {
        name: (uid(pod), 0) for name, pod in pods.items()
    }

    # Uninstalled, it leaves Messages that can be edited and deleted, and nothing else.
    assert len(subscription.made()) > 5
    subscription.uninstall()
    wait_until("all of OLM's making to be gone", subscription.made, lambda made: not made)
    assert home.kubectl.find("crd", CRD)
    assert uid(messages["kept"].pod()) == uid(pods["kept"])
    home.kubectl("delete", "message", "deleted", WAIT)
    messages["deleted"].wait_until_gone()
    messages["edited"].edit(text="after")

    # Installed again, for all namespaces, it adopts them, and serves what it had to ignore.
    home.kubectl("delete", "operatorgroup", "group")
    subscription.group()
    subscription.subscribe()
    subscription.wait_until_installed(releases.PRESENT)
    messages["edited"].wait_until_ready(instead_of=pods["edited"])
    messages["edited"].wait_for_log(b"after\n")
    adopted = messages["kept"].wait_until_ready()
    assert (uid(adopted), restarts(adopted)) == (uid(pods["kept"]), 0)
    ignored.wait_until_ready()
    assert subscription.may("create", "pods", elsewhere.name)


@pytest.fixture
def helm(make: MakeNamespace, published: Published) -> Iterator[Operator]:
    """The operator's release by Helm, yet to be installed."""
    operator = Operator(make("by-helm").kubectl, published)
    yield operator
    operator.uninstall()


@pytest.mark.long
def test_from_helm_to_olm_and_back_no_message_is_lost_and_no_message_pod_restarts(
    helm: Operator, subscription: Subscription, make: MakeNamespace
) -> None:
    theirs = make("theirs")
    helm.install()
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
    assert subscription.kubectl.find("crd", CRD)
    helm.install()

    edited.edit(text="by Helm's again")
    edited.wait_for_log(b"by Helm's again\n")
    assert_same(theirs, pod)
    helm.uninstall()
    assert subscription.kubectl.find("crd", CRD)


def assert_same(theirs: Namespace, pod: dict[str, dict[str, str]]) -> None:
    """Check that the Message that nobody touched has the Pod that it had, never restarted."""
    now = theirs.message("kept").wait_until_ready()
    assert (uid(now), restarts(now)) == (uid(pod), 0)


#: catalogd's own address, https://catalogd-service.olmv1-system.svc, through the API server.
SERVICE = f"/api/v1/namespaces/{olm.CATALOGD_NAMESPACE}/services/https:catalogd-service:https/proxy"


@pytest.fixture
def served(kubectl: Kubectl, offers: Offers) -> Iterator[Object]:
    """The catalog as a ClusterCatalog, once it is served."""
    image = {"type": "Image", "image": {"ref": offers.present}}
    head = {"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog"}
    kubectl.apply({**head, "metadata": {"name": NAME}, "spec": {"source": image}})
    kubectl("wait", "--for=condition=Serving", f"clustercatalog/{NAME}", "--timeout=390s")
    yield kubectl.get("clustercatalog", NAME)
    kubectl("delete", "clustercatalog", NAME)


def test_the_bundle_is_found_through_the_api_of_the_catalog(
    kubectl: Kubectl, served: Object
) -> None:
    assert served["status"]["urls"]["base"].endswith(f"/catalogs/{NAME}")

    lines = kubectl("get", "--raw", f"{SERVICE}/catalogs/{NAME}/api/v1/all").splitlines()

    found = [json.loads(line) for line in lines]
    (package,) = (blob for blob in found if blob["schema"] == "olm.package")
    assert (package["name"], package["defaultChannel"]) == (NAME, "stable")
    channels = {blob["name"]: blob for blob in found if blob["schema"] == "olm.channel"}
    assert channels["stable"]["entries"][-1]["name"] == csv_name(releases.PRESENT)
    bundles = {blob["name"]: blob for blob in found if blob["schema"] == "olm.bundle"}
    assert f"/{NAME}-bundle@sha256:" in bundles[csv_name(releases.PRESENT)]["image"]
