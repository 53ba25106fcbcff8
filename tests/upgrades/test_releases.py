"""Each release is installed from the registry, by Helm and by OLM, and upgraded to what follows."""

import pytest

from tests.e2e.messages import Message, Namespace, restarts, uid
from tests.e2e.release import Operator
from tests.olm.subscription import Subscription, csv_name
from tests.upgrades.life import BACKPORT, FIRST, FIXES, HEAD, MINOR, PATCH, RELEASES, Life


def image(operator: Operator) -> str:
    """Return the image of the only operator that runs."""
    (pod,) = operator.wait_until_ready()
    return str(pod["spec"]["containers"][0]["image"])


@pytest.mark.parametrize("version", RELEASES)
def test_a_release_is_upgraded_and_rolled_back_and_no_message_notices(
    life: Life, operator: Operator, messages: Namespace, version: str
) -> None:
    operator.install()
    assert image(operator) == life.image(version)
    witnesses = Witnesses(messages, f"of {version}")

    operator.upgrade(to=life.published(HEAD))

    assert image(operator) == life.image(HEAD)
    witnesses.assert_unmoved()
    witnesses.assert_served(f"of {HEAD}")

    operator.rollback()

    assert image(operator) == life.image(version)
    witnesses.assert_unmoved()
    witnesses.assert_served(f"of {version} again")


def test_a_release_has_its_place_in_the_changelog(life: Life) -> None:
    changelog = (life.clone.folder / "CHANGELOG.md").read_text()

    headings = [line.split()[1] for line in changelog.splitlines() if line.startswith("## ")]
    assert headings[:5] == [HEAD, MINOR, BACKPORT, PATCH, FIRST]


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


class Witnesses:
    """Messages of a former release: some that nobody touches, and one that is edited."""

    def __init__(self, namespace: Namespace, text: str) -> None:
        self._kept = [namespace.create(f"kept-{number}", text) for number in range(3)]
        self._edited = namespace.create("edited", text)
        for message in (*self._kept, self._edited):
            message.wait_until_ready()
            message.wait_for_log(f"{text}\n".encode())
        self._before = self._seen()

    def assert_unmoved(self) -> None:
        """Check that no Pod was replaced or restarted, and that no status was ever another."""
        assert self._seen() == self._before

    def assert_served(self, text: str) -> None:
        """Check that the operator follows an edit, which leaves the others alone."""
        former = self._edited.wait_until_ready()
        self._edited.edit(text=text)
        self._edited.wait_until_ready(instead_of=former)
        self._edited.wait_for_log(f"{text}\n".encode())
        self.assert_unmoved()

    def _seen(self) -> list[tuple[str, str, int, str, str]]:
        return [_seen(message) for message in self._kept]


def _seen(message: Message) -> tuple[str, str, int, str, str]:
    pod = message.wait_until_ready()
    condition = message.ready()
    # A status that was False for a moment has another time.
    since = str(condition["lastTransitionTime"])
    return message.name, uid(pod), restarts(pod), str(condition["status"]), since
