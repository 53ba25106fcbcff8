"""The documents: each test that they name exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_each_point_of_the_level_has_a_test_that_exists() -> None:
    page = (ROOT / "docs" / "capabilities.md").read_text()
    rows = [line for line in page.splitlines() if re.match(r"\| [1-3]: ", line)]
    sources = "".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    there = set(re.findall(r"def (test_\w+)\(", sources))

    assert {row[2] for row in rows} == {"1", "2", "3"}
    for row in rows:
        named = re.findall(r"`(test_\w+)`", row)
        assert named, row
        assert set(named) <= there, row
