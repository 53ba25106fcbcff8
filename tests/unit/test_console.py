"""Commands and listings of a page, as a reader types them, and the code that they lead to."""

from pathlib import Path

import pytest

from tests.support.console import Step, blocks, commands, matches, section, typed
from tests.support.walkthrough import changed, listings, steps

GUIDE = """\
# Guide

## First

```console
$ export WHERE=here     # or there
$ apply -f - <<EOF
kind: One
$ not a command
EOF
one made
$ wait \\
    --for=ready
```

```yaml
$ no: command
```

## Second

```console
$ last
```
"""


def test_commands_come_with_their_further_lines_and_without_what_they_print() -> None:
    assert commands(section(GUIDE, "First")) == [
        "export WHERE=here     # or there",
        "apply -f - <<EOF\nkind: One\n$ not a command\nEOF",
        "wait \\\n    --for=ready",
    ]


def test_the_last_section_ends_with_the_guide() -> None:
    assert commands(section(GUIDE, "Second")) == ["last"]


def test_a_section_that_is_not_there_is_named() -> None:
    with pytest.raises(LookupError, match="no section Third"):
        section(GUIDE, "Third")


def test_a_command_has_the_output_below_it_also_in_a_list() -> None:
    page = "1. Look:\n\n   ```console\n   $ one\n   first\n     second\n\n   $ two\n   ```\n"

    (block,) = blocks(page)

    assert block.steps == (Step("one", "first\n  second"), Step("two", ""))


def test_a_comment_counts_up_to_the_end_of_its_section() -> None:
    block = "```console\n# no heading\n$ x\n```\n"
    reason = "<!-- not run: so\nit is -->\n"
    page = f"# A\n{block}## B\n{block}{reason}{block}### C\n{block}## D\n{block}"

    assert [block.reason for block in blocks(page)] == ["", "", "so it is", "so it is", ""]
    assert {block.reason for block in blocks(page.replace("# A\n", f"# A\n{reason}", 1))} == {
        "so it is"
    }


def test_all_that_is_typed_but_comments_is_the_same_in_every_language() -> None:
    korean = GUIDE.replace("# or there", "# 또는 저기")
    assert typed(korean) == typed(GUIDE)
    assert typed(GUIDE)[0][0] == "export WHERE=here"

    in_two = korean.replace("one made\n", "```\n\n```console\n")
    assert commands(in_two) == commands(korean)
    for other in (in_two, korean.replace("$ last", "$ least"), korean.replace("$ last\n", "")):
        assert typed(other) != typed(GUIDE)


SHOWN = """\
NAME                   READY   AGE
web-5c8f4d9d6b-9nb2x   1/1     4s

[2026-11-22 10:42:07,412] started"""


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        (SHOWN, SHOWN.replace("   ", " ").replace("4s", "2m31s").replace("10:42", "11:00")),
        (SHOWN, SHOWN.replace("5c8f4d9d6b-9nb2x", "6d4cf56db6-tq7vr")),
        ("리더는 web-5c8f4d9d6b-9nb2x입니다", "리더는 web-6d4cf56db6-tq7vr입니다"),
        ("one\n…", "one"),
        ("one\n…", "one\ntwo\nthree\n"),
        ("…\ntwo\n…\nfour", "one\ntwo\nthree\nfour"),
        ("image: …@sha256", "image: localhost/a@sha256"),
        ("hello", "bash: line 38:  6668 Killed                  sleep 100\nhello\n"),
    ],
)
def test_what_differs_from_run_to_run_is_equal(shown: str, printed: str) -> None:
    assert matches(shown, printed)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        (SHOWN, SHOWN.replace("1/1", "0/1")),
        (SHOWN, SHOWN.replace("web", "db")),
        (SHOWN, f"{SHOWN}\nmore"),
        ("one\n…\nthree", "one\ntwo"),
        ("No resources found", ""),
        ("a.b", "axb"),
    ],
)
def test_anything_else_is_not(shown: str, printed: str) -> None:
    assert not matches(shown, printed)


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
