"""The commands of a guide are found as a reader would type them."""

import pytest

from tests.support.console import commands, section

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
