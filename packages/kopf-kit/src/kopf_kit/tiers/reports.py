"""What pytest's reports say of tiers: counts, the first failure, and the slowest tests."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from kopf_kit.rig.run import elapsed


@dataclass(frozen=True)
class Report:
    """The tests of one tier; without any if its command reports none."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    first_failure: str = ""

    def __str__(self) -> str:
        counts = {"passed": self.passed, "failed": self.failed, "skipped": self.skipped}
        return ", ".join(f"{number} {word}" for word, number in counts.items() if number) or "–"


def read(folder: Path, tier: str) -> Report:
    """Return what a tier's reports say; one that ran pytest several times has several."""
    outcomes = {"passed": 0, "failed": 0, "skipped": 0}
    first = ""
    for case in _cases(folder.glob(f"{tier}.*xml")):
        tags = {child.tag for child in case}
        outcome = "failed" if tags & {"failure", "error"} else "passed"
        outcome = "skipped" if "skipped" in tags else outcome
        outcomes[outcome] += 1
        if outcome == "failed":
            first = first or _name(case)
    return Report(**outcomes, first_failure=first)


def slowest(folder: Path, number: int = 20) -> list[str]:
    """Return a line for each of the slowest tests of the last run."""
    cases = sorted(
        ((float(case.get("time", 0)), _name(case)) for case in _cases(folder.glob("*.xml"))),
        reverse=True,
    )
    return [f"{elapsed(seconds):>7}  {name}" for seconds, name in cases[:number]]


def _cases(files: Iterator[Path]) -> Iterator[ElementTree.Element]:
    for file in sorted(files):
        try:
            yield from ElementTree.parse(file).iter("testcase")  # noqa: S314 (pytest wrote it)
        except ElementTree.ParseError:  # the run was killed while pytest wrote
            continue


def _name(case: ElementTree.Element) -> str:
    """Return a test's name as pytest takes it: tests/unit/test_a.py::test_b."""
    module = re.sub(r"(\btest_\w+)(?:\.(\w+))?$", r"\1.py", case.get("classname", ""))
    path = module.removesuffix(".py").replace(".", "/")
    return f"{path}.py::{case.get('name')}" if path else str(case.get("name"))
