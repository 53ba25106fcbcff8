"""Listings of the pages for authors, and the code that they lead to."""

from pathlib import Path

from tests.support.walkthrough import changed, listings, steps

CHECKOUT = Path(__file__).parents[2]
PAGE = (CHECKOUT / "docs" / "write-your-own-operator.md").read_text()
KOREAN = (CHECKOUT / "docs" / "write-your-own-operator.ko.md").read_text()
VERSIONS = (CHECKOUT / "docs" / "versions.md").read_text()
OPERATOR = "operator/memcached_operator/operator.py"
EXAMPLE = (CHECKOUT / "examples" / "memcached" / OPERATOR).read_text()
#: What docs/versions.md changes in it; a line `@@` is between two places.
DIFF = (CHECKOUT / "docs" / "tutorial" / "memcached-v1beta1.diff").read_text()


def test_the_listings_and_then_the_diff_are_the_code_of_the_example() -> None:
    text = "\n\n".join(listing.text for listing in listings(PAGE) if listing.file == OPERATOR)
    for hunk in DIFF.split("@@\n")[1:]:
        text = changed(text, hunk)

    assert text == EXAMPLE


def test_the_page_about_versions_shows_parts_of_the_example() -> None:
    shown = listings(VERSIONS)

    assert shown
    assert [part.text for part in shown if part.text not in EXAMPLE] == []


def test_both_languages_have_the_same_commands_outputs_and_listings() -> None:
    assert steps(KOREAN) == steps(PAGE)
