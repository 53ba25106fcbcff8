import re
from itertools import pairwise
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
#: All that was tried.
INVENTORY = CHECKOUT / "tests" / "faults" / "README.md"


def test_each_test_that_the_inventory_names_exists() -> None:
    named = re.findall(r"`(test_\w+)`", INVENTORY.read_text())
    # The conformance suite is in the kit's test library.
    files = (file for folder in ("tests", "packages") for file in (CHECKOUT / folder).rglob("*.py"))
    sources = [file.read_text() for file in files]
    there = set(re.findall(r"def (test_\w+)\(", "\n".join(sources)))

    assert named
    assert [name for name in named if name not in there] == []


def test_each_row_names_a_test() -> None:
    blocks = INVENTORY.read_text().split("\n\n")
    # A table whose tests try all of its rows has them in the sentence before it.
    rows = [
        row
        for before, block in pairwise(blocks)
        if block.startswith("| ") and "`test_" not in before
        for row in block.splitlines()[2:]
    ]

    assert rows
    assert [row for row in rows if "`test_" not in row] == []


def test_each_finding_has_a_row_or_a_test_named_after_it() -> None:
    text = INVENTORY.read_text()
    findings = [
        "C1",
        "C2",
        *(f"M{n}" for n in range(1, 8)),
        *(f"minor {n}" for n in range(1, 12)),
        *(f"L{n}" for n in range(1, 12)),
        *(f"D{n}" for n in range(1, 24)),
        *(f"R{n}" for n in range(1, 8)),
    ]
    cells = re.findall(r"^\| ([^|:]+):", text, re.MULTILINE)
    names = re.findall(r"^- `test_((?:(?:minor_\d+|[clmdr]\d+)_)+)", text, re.MULTILINE)
    tests = re.findall(r"minor_\d+|[clmdr]\d+", " ".join(names))
    named = {finding for cell in cells for finding in cell.split(", ")}
    named |= {name.capitalize() if "_" not in name else name.replace("_", " ") for name in tests}

    assert [finding for finding in findings if finding not in named] == []
