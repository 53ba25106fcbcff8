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


def test_chart_diff_says_what_changes_between_releases_of_the_registry(life: Life) -> None:
    old, new = (f"{life.chart}:{version}" for version in (FIRST, PATCH))

    said = life.clone.make("chart-diff", f"ARGS={old} {new}").splitlines()

    memory = "resources.limits.memory: '256Mi' → '257Mi'"
    assert f"From {old} to {new}:" in said
    assert f"  values.{memory}" in said
    assert any(line.endswith(f"[operator].{memory}") for line in said)
    assert any(life.image(FIRST) in line and life.image(PATCH) in line for line in said)


@pytest.mark.parametrize("version", RELEASES)
def test_chart_diff_announces_that_operators_are_replaced_and_messages_are_not(
    life: Life, version: str
) -> None:
    old, new = (f"{life.chart}:{each}" for each in (version, HEAD))

    said = life.clone.make("chart-diff", f"ARGS={old} {new}")

    assert "! the operator's Pods are replaced" in said
    assert "! the message Pods are replaced" not in said
    assert "! the upgrade fails" not in said


def test_a_release_has_its_place_in_the_changelog(life: Life) -> None:
    changelog = (life.clone.folder / "CHANGELOG.md").read_text()

    headings = [line.split()[1] for line in changelog.splitlines() if line.startswith("## ")]
    assert headings[:5] == [HEAD, MINOR, BACKPORT, PATCH, FIRST]
