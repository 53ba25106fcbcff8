"""Each release is installed from its own catalog by OLM, and upgraded to what follows."""

import pytest

from tests.e2e.messages import Namespace
from tests.olm.subscription import Subscription, csv_name
from tests.upgrades.life import BACKPORT, FIRST, FIXES, HEAD, MINOR, PATCH, Life
from tests.upgrades.witnesses import Witnesses


def planned(subscription: Subscription) -> set[str]:
    """Return the CSVs that OLM ever planned to install."""
    plans, _ = subscription.kube.objects("InstallPlan", subscription.namespace.name)
    return {name for plan in plans for name in plan["spec"]["clusterServiceVersionNames"]}


@pytest.mark.parametrize("version", [FIRST, PATCH, MINOR])
def test_a_release_is_upgraded_in_one_step_and_no_message_notices(
    life: Life, followed: Subscription, messages: Namespace, version: str
) -> None:
    followed.catalog.make(life.catalog(version))
    followed.group()
    followed.subscribe()
    followed.wait_until_installed(version)
    witnesses = Witnesses(messages, f"of {version}")

    followed.catalog.offer(life.catalog(HEAD), HEAD)

    followed.wait_until_installed(HEAD)
    assert planned(followed) == {csv_name(version), csv_name(HEAD)}
    witnesses.assert_unmoved()
    witnesses.assert_served(f"of {HEAD}")


def test_a_fix_of_the_older_minor_version_is_installed_and_upgraded(
    life: Life, followed: Subscription, messages: Namespace
) -> None:
    followed.catalog.make(life.catalog(PATCH))
    followed.group()
    followed.subscribe(channel=FIXES)
    followed.wait_until_installed(PATCH)
    witnesses = Witnesses(messages, f"of {PATCH}")

    # Then `stable` is at the next minor version already.
    followed.catalog.offer(life.catalog(BACKPORT), MINOR)

    followed.wait_until_installed(BACKPORT)
    witnesses.assert_unmoved()
    witnesses.assert_served(f"of {BACKPORT}")

    followed.catalog.offer(life.catalog(HEAD), HEAD)
    followed.change(channel="stable")

    followed.wait_until_installed(HEAD)
    witnesses.assert_unmoved()
    witnesses.assert_served(f"of {HEAD}")
