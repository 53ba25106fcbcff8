"""Which tiers passed, and what pytest reported of them.

build/tested/TREE/TIER says what passed. TREE is git's hash of all files that git knows or would
add, so it stays the same when what was tested is committed, and changes with every edit.
"""

import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from kopf_kit.rig import paths
from kopf_kit.rig.run import answer, elapsed, output

#: Variables with which the tests are others than those for a release; so are those in _IMG.
LIMITS = ("KUBERNETES", "PROJECT", "IMG", "MINUTES", "NUMBER")


def tree(checkout: Path = paths.CHECKOUT) -> str:
    """Return git's hash of the checkout's content, or an empty text where git knows none."""
    path = answer(["git", "-C", str(checkout), "rev-parse", "--git-path", "index"])
    if path is None:
        return ""
    index = checkout / path
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "index")
        if index.is_file():
            shutil.copy2(index, copy)
        ours = {"GIT_INDEX_FILE": str(copy), "GIT_OPTIONAL_LOCKS": "0"}
        output(["git", "add", "--all"], cwd=checkout, env=ours, timeout=120)
        return output(["git", "write-tree"], cwd=checkout, env=ours).strip()


def passed(build: Path, content: str) -> set[str]:
    """Return the names of the tiers that passed for a content."""
    folder = build / "tested" / content
    return {file.name for file in folder.iterdir()} if folder.is_dir() else set()


def record(build: Path, content: str, tier: str, seconds: float, tests: str) -> None:
    """Keep that a tier passed."""
    folder = build / "tested" / content
    folder.mkdir(parents=True, exist_ok=True)
    result = {"seconds": round(seconds, 1), "tests": tests, "ended": round(time.time())}
    (folder / tier).write_text(json.dumps(result) + "\n")


def forget(build: Path, content: str, tier: str) -> None:
    """Remove the record of a tier that has failed now."""
    (build / "tested" / content / tier).unlink(missing_ok=True)


def may_record() -> bool:
    """Return whether the environment leaves the tests as they are for a release."""
    limits = (*LIMITS, *(name for name in os.environ if name.endswith("_IMG")))
    return not any(map(os.environ.get, limits)) and os.environ.get("CLUSTER") != "existing"


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


def report(folder: Path, tier: str) -> Report:
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
