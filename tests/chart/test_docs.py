"""docs/chart.md promises nothing that no test holds."""

import re

import pytest

from tests.chart.helm import CHECKOUT

TABLE = (CHECKOUT / "docs" / "chart.md").read_text().partition("|---|---|---|---|\n")[2]
ROWS = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in TABLE.splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip("| "))
def test_every_row_names_a_test_that_there_is(row: list[str]) -> None:
    assert len(row) == 4
    named = re.fullmatch(
        r"`(?:(e2e(?:/chart)?|faults|platforms|release)/)?(test_\w+\.py)::(test_\w+)`", row[3]
    )
    assert named, f"{row[3]} names no test"

    folder, file, test = named.groups()
    source = (CHECKOUT / "tests" / (folder or "chart") / file).read_text()

    assert re.search(rf"^(async )?def {test}\(", source, re.MULTILINE)
