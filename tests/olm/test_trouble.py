"""What users of OLM stumble over: it says what is wrong, and what docs/olm.md advises mends it."""

from dataclasses import replace

import pytest

from hack import engine, olm, registry
from hack.deploy import Published
from tests.e2e.messages import Namespace, uid
from tests.e2e.waiting import wait_until
from tests.olm import releases
from tests.olm.subscription import BOUND, Catalog, Subscription, csv_name


def test_what_was_left_behind_is_mended_by_removing_subscription_and_csv_and_beginning_anew(
    subscription: Subscription, home: Namespace
) -> None:
    subscription.group()
    subscription.subscribe(starting=releases.FORMER, approval="Manual")
    subscription.approve(releases.FORMER)
    subscription.wait_until_installed(releases.FORMER)
    message = home.create("hello", "hello")
    pod = message.wait_until_ready()
    subscription.wait_for_plan(releases.PRESENT)
    subscription.unsubscribe()
    wait_until("the Subscription to be gone", subscription.get, lambda found: not found)
    assert subscription.csvs().keys() == {csv_name(releases.FORMER)}
    # It finds the CSV, and may wait for ever for the plan that went with the former Subscription.
    subscription.subscribe()
    wait_until("OLM to have looked", subscription.get, lambda found: found.get("status"))

    subscription.uninstall()
    subscription.subscribe()

    subscription.wait_until_installed(releases.PRESENT)
    assert uid(message.wait_until_ready()) == uid(pod)


def test_with_no_operator_group_or_two_a_subscription_says_nothing_and_waits_for_just_one(
    subscription: Subscription, home: Namespace
) -> None:
    subscription.subscribe()
    wait_for_catalog_operator(home, "found 0 operatorGroups, expected 1")

    subscription.group()
    subscription.group(home.name, name="second")
    wait_for_catalog_operator(home, "found 2 operatorGroups, expected 1")
    assert subscription.conditions().keys() <= {"CatalogSourcesUnhealthy"}
    assert subscription.csvs() == {}

    home.kube.delete("OperatorGroup", "second", home.name)

    subscription.wait_until_installed(releases.PRESENT)


def wait_for_catalog_operator(home: Namespace, said: str) -> None:
    """Wait until OLM's catalog operator has logged something about the namespace."""
    wait_until(
        f"the catalog operator to log {said}",
        lambda: home.kube.kubectl("-n", olm.NAMESPACE, "logs", "deploy/catalog-operator"),
        lambda log: any(home.name in line and said in line for line in log.splitlines()),
        bound=BOUND,
    )


@pytest.fixture
def late(home: Namespace, published: Published) -> Catalog:
    """A catalog with a release whose bundle image is not in the registry yet."""
    image, message_image = published.image, published.message_image
    assert image is not None
    assert message_image is not None
    ref = f"{registry.ADDRESS}/message-operator-bundle:late-{home.name}"
    made = releases.publish_bundle(releases.PRESENT, image, message_image)
    found = Catalog(home.kube, "late", home.name)
    found.make(releases.publish_catalog([replace(made, bundle_image=ref)], olm.image(), "late"))
    return found


def test_a_bundle_that_cannot_be_pulled_is_told_and_is_unpacked_once_it_can(
    home: Namespace, late: Catalog
) -> None:
    subscription = Subscription(home, late)
    subscription.group()
    subscription.subscribe()

    def told() -> str:
        return str(subscription.conditions().get("BundleUnpacking", {}).get("message"))

    wait_until(
        "OLM to tell of it", told, lambda text: "Bundle image pull failed" in text, bound=BOUND
    )
    assert subscription.csvs() == {}

    there = f"{registry.ADDRESS}/message-operator-bundle:v{releases.PRESENT}"
    engine.docker("tag", there, f"{registry.ADDRESS}/message-operator-bundle:late-{home.name}")
    engine.docker("push", f"{registry.ADDRESS}/message-operator-bundle:late-{home.name}")

    subscription.wait_until_installed(releases.PRESENT)
    subscription.uninstall()
