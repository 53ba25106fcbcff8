"""docs/write-your-own-operator.md and docs/versions.md lead to the code of examples/memcached."""

from pathlib import Path

import pytest

from tests.support.console import Step
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


def test_the_steps_are_in_the_order_of_the_page() -> None:
    page = '```console\n$ a \\\n  b\n1\n$ c\n```\n```yaml title="f"\nx: 1\n```\n```text\n$ d\n```\n'
    (first, second, listing) = steps(page)

    assert first == Step("a \\\n  b", "1")
    assert second == Step("c", "")
    assert listings(page) == [listing]


def test_a_diff_changes_the_lines_that_it_names() -> None:
    assert changed("a:\n  b\n  c\n", " a:\n-  b\n+  d\n") == "a:\n  d\n  c\n"

    with pytest.raises(AssertionError, match="0 times"):
        changed("a\n", " b\n+c\n")
