"""docs/chart.md promises nothing that no test holds."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.chart.helm import CHECKOUT

PAGES = ("chart.md", "chart.ko.md")
#: What no test can hold, by the first cell of its row.
UNTESTED = {"OpenSSF Best Practices badge", "OpenSSF Best Practices 배지"}


def rows() -> Iterator[Any]:
    """Yield each row of the pages' tables."""
    for page in PAGES:
        lines = (CHECKOUT / "docs" / page).read_text().splitlines()
        for line, following in zip(lines, [*lines[1:], ""], strict=True):
            if line.startswith("| ") and not following.startswith("|--"):
                cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
                yield pytest.param(cells, id=f"{page}: {cells[0]}")


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


def test_a_row_of_the_chart_s_page_tells_of_others_and_of_ours() -> None:
    of_the_chart = [param.values[0] for param in rows() if param.id.startswith("chart.md")]

    assert len(of_the_chart) > 40
    assert {len(row) for row in of_the_chart} == {2, 4}  # 2: what holds for a release
