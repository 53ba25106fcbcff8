"""The README of these tests promises nothing that no test holds."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chart.helm import CHECKOUT

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
def test_every_row_names_a_test_that_there_is(row: list[str]) -> None:
    if row[0] in UNTESTED:
        assert row[-1] == "–"
        return
    named = re.fullmatch(r"`((?:[a-z0-9]+/)*)(test_\w+\.py)::(test_\w+)`", row[-1])
    assert named, f"{row[-1]} names no test"

    within, file, test = named.groups()
    source = (CHECKOUT / "tests" / (within or "chart") / file).read_text()

    assert re.search(rf"^(async )?def {test}\(", source, re.MULTILINE)


def test_a_row_tells_of_others_and_of_ours() -> None:
    cells = [len(param.values[0]) for param in rows()]

    assert len(cells) > 40
    assert set(cells) == {2, 4}  # 2: what holds for a release
