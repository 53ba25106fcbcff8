"""Each row of the README of these tests names a test.

`tests/unit/test_documents.py` looks for the tests.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).with_name("README.md")
#: What no test can hold, by the first cell of its row.
UNTESTED = {"OpenSSF Best Practices badge"}


def rows() -> Iterator[Any]:
    """Yield each row of the page's tables."""
    lines = PAGE.read_text().splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("| ") and not following.startswith("|--"):
            cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
            yield pytest.param(cells, id=cells[0])


@pytest.mark.parametrize("row", list(rows()))
def test_every_row_names_a_test(row: list[str]) -> None:
    named = re.fullmatch(r"`[\w/-]+\.py::test_\w+`|–", row[-1])

    assert named, f"{row[-1]} names no test"
    assert (named[0] == "–") == (row[0] in UNTESTED)


def test_a_row_tells_of_others_and_of_ours() -> None:
    cells = [len(param.values[0]) for param in rows()]

    assert len(cells) > 40
    assert set(cells) == {2, 4}  # 2: what holds for a release
