"""Listings of the pages for authors, and the code that they lead to."""

from pathlib import Path

from tests.support.walkthrough import listings, steps

CHECKOUT = Path(__file__).parents[2]
PAGE = (CHECKOUT / "docs" / "write-your-own-operator.md").read_text()
KOREAN = (CHECKOUT / "docs" / "write-your-own-operator.ko.md").read_text()
VERSIONS = (CHECKOUT / "docs" / "versions.md").read_text()
OPERATOR = "operator/memcached_operator/operator.py"
EXAMPLE = (CHECKOUT / "examples" / "memcached" / OPERATOR).read_text()


def test_the_page_about_versions_shows_parts_of_the_example() -> None:
    shown = listings(VERSIONS)

    assert shown
    assert [part.text for part in shown if part.text not in EXAMPLE] == []


def test_both_languages_have_the_same_commands_outputs_and_listings() -> None:
    assert steps(KOREAN) == steps(PAGE)
