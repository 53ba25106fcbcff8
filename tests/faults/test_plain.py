"""The pages have how a plain kopf operator fares in the suite, which the tier `plain` runs."""

import re
import runpy
import subprocess
import sys
from collections import Counter

from kopf_kit.rig import paths

_TESTS = paths.CHECKOUT / "examples" / "plain-kopf" / "tests" / "faults"
NOTES = runpy.run_path(str(_TESTS / "test_operator.py"))
_READMES = [_TESTS.parents[1] / page for page in ("README.md", "README.ko.md")]


def test_the_page_has_the_reasons_that_most_of_the_failing_tests_share() -> None:
    page = " ".join(_READMES[0].read_text().lower().split())
    reasons = [NOTES[name] for name in ("_ONE", "_TWICE", "_LOST", "_SILENT")]

    failing = NOTES["Notes"].fails.values()

    assert [reason for reason in reasons if reason.lower() not in page] == []
    assert sum(any(reason in why for reason in reasons) for why in failing) > len(failing) / 2


def test_the_readmes_have_what_the_option_survived_prints() -> None:
    """Its numbers, without the quarter of an hour: each test that is in `fails` has to fail."""
    collect = ("--collect-only", "-q", "-p", "no:cacheprovider", "-m", "long or not long")
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", *collect, _TESTS],
        cwd=paths.CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    tests = [line.rpartition("::")[2] for line in listed.stdout.splitlines() if "::" in line]
    fails = NOTES["Notes"].fails
    parts = {test: NOTES[test.partition("[")[0]].__module__.rpartition(".")[2] for test in tests}
    in_all = Counter(parts.values())
    lost = Counter(parts[test] for test in tests if {test, test.partition("[")[0]} & {*fails})

    counted = [
        (part, str(number - lost[part]), str(number)) for part, number in sorted(in_all.items())
    ]
    row = re.compile(r"^\| `(\w+)` \| (\d+) (?:of|/) (\d+) \|$", re.MULTILINE)
    for page in _READMES:
        assert row.findall(page.read_text()) == counted


def test_the_readmes_say_why_each_of_the_others_fails() -> None:
    grouped: dict[str, list[str]] = {}
    for test, why in NOTES["Notes"].fails.items():
        grouped.setdefault(why, []).append(f"`{test}`")
    row = re.compile(r"^\| (`test_.+`) \| (.+) \|$", re.MULTILINE)

    english, korean = (row.findall(page.read_text()) for page in _READMES)

    assert english == [(", ".join(tests), why) for why, tests in grouped.items()]
    assert [tests for tests, _ in korean] == [tests for tests, _ in english]
