"""A plain kopf operator passes what it can, and fails what docs/testing.md says that it fails."""

import re
import runpy
import subprocess
import sys
from collections import Counter

import pytest

from kopf_kit.rig import paths
from kopf_kit.testing.conformance.walks import test_there_and_back_again  # noqa: F401

_TESTS = paths.CHECKOUT / "examples" / "plain-kopf" / "tests" / "faults"
NOTES = runpy.run_path(str(_TESTS / "test_operator.py"))
SUBJECTS = NOTES["SUBJECTS"]


@pytest.mark.parametrize("page", ["testing.md", "testing.ko.md"])
def test_the_table_has_each_test_that_the_plain_operator_fails(page: str) -> None:
    rows = re.findall(
        r"^\| `(test_\S+)` \| (.+) \|$", (paths.CHECKOUT / "docs" / page).read_text(), re.MULTILINE
    )

    assert [name for name, _ in rows] == list(NOTES["Notes"].fails)
    if page == "testing.md":
        assert dict(rows) == NOTES["Notes"].fails


@pytest.mark.parametrize("page", ["README.md", "README.ko.md"])
def test_the_readme_has_what_the_option_survived_prints(page: str) -> None:
    """Its numbers, without the quarter of an hour: each test that is in `fails` has to fail."""
    collect = ("--collect-only", "-q", "-p", "no:cacheprovider", "-m", "long or not long")
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", *collect, _TESTS],
        cwd=paths.CHECKOUT, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    tests = [line.rpartition("::")[2] for line in listed.stdout.splitlines() if "::" in line]
    fails = NOTES["Notes"].fails
    parts = {test: NOTES[test.partition("[")[0]].__module__.rpartition(".")[2] for test in tests}
    in_all = Counter(parts.values())
    lost = Counter(parts[test] for test in tests if {test, test.partition("[")[0]} & {*fails})

    text = (_TESTS.parents[1] / page).read_text()

    rows = re.findall(r"^\| `(\w+)` \| (\d+) (?:of|/) (\d+) \|$", text, re.MULTILINE)
    assert rows == [
        (part, str(number - lost[part]), str(number)) for part, number in sorted(in_all.items())
    ]
