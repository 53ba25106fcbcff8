"""What users of OLM stumble over: it says what is wrong, and what docs/olm.md advises mends it."""

from dataclasses import replace

import pytest

from kopf_kit.rig import engine, olm, registry
from kopf_kit.testing.requests import wait_until
from tests.e2e.messages import Namespace, Object, uid
from tests.olm import releases
from tests.olm.conftest import Images
from tests.olm.subscription import BOUND, Catalog, Subscription, csv_name

pytestmark = pytest.mark.long


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


def test_with_no_operator_group_or_two_a_subscription_waits_for_just_one(
    subscription: Subscription, home: Namespace
) -> None:
    subscription.subscribe()
    wait_for_catalog_operator(home, "found 0 operatorGroups, expected 1")

    subscription.group()
    subscription.group(home.name, name="second")
    wait_for_catalog_operator(home, "found 2 operatorGroups, expected 1")
    assert subscription.csvs() == {}

    home.kubectl("delete", "operatorgroup", "second")

    subscription.wait_until_installed(releases.PRESENT)


def wait_for_catalog_operator(home: Namespace, said: str) -> None:
    """Wait until OLM's catalog operator has logged something about the namespace."""
    wait_until(
        f"the catalog operator to log {said}",
        lambda: home.kubectl("-n", olm.NAMESPACE, "logs", "deploy/catalog-operator"),
        lambda log: any(home.name in line and said in line for line in log.splitlines()),
        bound=BOUND,
    )


@pytest.fixture
def strict(images: Images) -> str:
    """A catalog with the former release, and one whose CRD takes 20 characters at most."""

    def shorten(crd: Object) -> None:
        spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        spec["properties"]["text"]["maxLength"] = 20

    former = releases.publish_bundle(releases.FORMER, *images)
    strict = releases.publish_bundle(releases.STRICT, *images, alter=shorten)
    return releases.publish_catalog([former, strict], olm.image())


def test_an_upgrade_that_would_make_a_message_invalid_is_refused_until_the_message_fits(
    followed: Subscription, home: Namespace, strict: str
) -> None:
    followed.group()
    followed.subscribe()
    followed.wait_until_installed(releases.FORMER)
    message = home.create("long", "more than twenty characters")
    other = home.create("short", "short")
    pod, other_pod = message.wait_until_ready(), other.wait_until_ready()

    followed.catalog.offer(strict, releases.STRICT)
    plan = wait_until(
        "OLM to give the upgrade up",
        followed.plan,
        lambda plan: (plan.get("status") or {}).get("phase") == "Failed",
        bound=BOUND,
    )
    assert f"{home.name}/long" in plan["status"]["message"]
    assert "spec.text" in plan["status"]["message"]
    message.edit(text="still more than twenty characters")  # the old operator serves on
    pod = message.wait_until_ready(instead_of=pod)

    message.edit(text="it fits")
    pod = message.wait_until_ready(instead_of=pod)
    followed.uninstall()  # both CSVs: with the failed plan deleted alone, OLM would be stuck
    followed.subscribe()

    followed.wait_until_installed(releases.STRICT)
    assert [uid(created.wait_until_ready()) for created in (message, other)] == [
        uid(pod),
        uid(other_pod),
    ]


def test_an_operator_with_too_little_memory_is_killed_until_it_is_given_more(
    subscription: Subscription, home: Namespace
) -> None:
    subscription.group(home.name)
    subscription.subscribe(config={"resources": {"limits": {"memory": "24Mi"}}})
    wait_until(
        "the operator to be killed",
        subscription.pods,
        lambda pods: any("OOMKilled" in str(pod["status"]) for pod in pods),
        bound=BOUND,
    )

    enough = {"memory": "384Mi"}
    subscription.change(config={"resources": {"limits": enough}})
    # Until the Deployment is ready, OLM does not hold it against the Subscription.
    home.kubectl("set", "resources", "deployment/message-operator", "--limits=memory=256Mi")

    subscription.wait_for_pod(
        "with enough memory", lambda container: container["resources"]["limits"] == enough
    )
    subscription.wait_until_installed(releases.PRESENT)
    home.create("hello", "hello").wait_until_ready()


@pytest.fixture
def late(home: Namespace, images: Images) -> Catalog:
    """A catalog with a release whose bundle image is not in the registry yet."""
    ref = f"{registry.ADDRESS}/message-operator-bundle:late-{home.name}"
    made = releases.publish_bundle(releases.PRESENT, *images)
    found = Catalog(home.kubectl, "late")
    found.make(releases.publish_catalog([replace(made, bundle_image=ref)], olm.image(), "late"))
    return found


def test_a_bundle_that_cannot_be_pulled_is_told_and_is_unpacked_once_it_can(
    home: Namespace, late: Catalog
) -> None:
    subscription = Subscription(home.kubectl, late)
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
