import re
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]


def test_each_test_that_the_docs_name_exists() -> None:
    named = re.findall(r"`(test_\w+)`", (CHECKOUT / "docs" / "reliability.md").read_text())
    # The conformance suite is in the kit's test library.
    files = (file for folder in ("tests", "packages") for file in (CHECKOUT / folder).rglob("*.py"))
    sources = [file.read_text() for file in files]
    there = set(re.findall(r"def (test_\w+)\(", "\n".join(sources)))

    assert named
    assert [name for name in named if name not in there] == []


def test_each_row_names_a_test() -> None:
    lines = (CHECKOUT / "docs" / "reliability.md").read_text().splitlines()
    rows = [
        line for line, following in zip(lines, [*lines[1:], ""], strict=True)
        if line.startswith("| ") and not following.startswith("|--")
    ]  # fmt: skip

    assert rows
    assert [row for row in rows if "`test_" not in row] == []


def test_each_finding_has_a_row() -> None:
    rows = (CHECKOUT / "docs" / "reliability.md").read_text()
    findings = [
        "C1", "C2", *(f"M{n}" for n in range(1, 8)), *(f"minor {n}" for n in range(1, 12)),
        *(f"L{n}" for n in range(1, 12)),
    ]  # fmt: skip

    assert [finding for finding in findings if f"\n| {finding}: " not in rows] == []
