"""Each release is installed from the registry by Helm, upgraded to what follows, and back."""

import pytest

from tests.e2e.messages import Namespace
from tests.e2e.release import Operator
from tests.upgrades.life import BACKPORT, FIRST, HEAD, MINOR, PATCH, RELEASES, Life
from tests.upgrades.witnesses import Witnesses


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
