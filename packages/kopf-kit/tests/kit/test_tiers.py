"""`make test`: tiers run in two lanes, are ended together, and told in a table."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kopf_kit.cli import lanes
from kopf_kit.cli import test as command
from kopf_kit.rig import paths

REAL = command.TIERS
#: Runs `make test` with other tiers in another folder.
CALL = """
import functools, sys
from pathlib import Path
from kopf_kit import __main__
from kopf_kit.cli import test
wanted, folder, *words = sys.argv[1:]
folder = Path(folder)
test.run = functools.partial(test.run, file=folder / "tiers.toml", build=folder)
sys.argv = ["kopf-kit", {"all": "test-all"}.get(wanted, wanted), *words]
sys.exit(__main__.main())
"""


class Tiers:
    """Tiers of small commands of a shell, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **{name: value for name, value in os.environ.items() if name != lanes.WITHIN},
            "CLUSTER": "kind",
        }

    def write(self, **tiers: Mapping[str, object]) -> None:
        lines = []
        for name, fields in tiers.items():
            known = {"says": name, "set": "test", "lane": "computes", **fields}
            lines += [f"[{name}]", *(f"{key} = {json.dumps(v)}" for key, v in known.items())]
        (self.folder / "tiers.toml").write_text("\n".join(lines))

    def start(self, wanted: str, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", CALL, wanted, str(self.folder), *words],
            cwd=paths.CHECKOUT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, wanted: str, *words: str) -> tuple[int, str]:
        process = self.start(wanted, *words)
        said, _ = process.communicate(timeout=120)
        return process.returncode, said

    def ran(self) -> list[str]:
        """Return what the tiers wrote into a file, in order."""
        file = self.folder / "ran"
        return file.read_text().split() if file.exists() else []


@pytest.fixture
def tiers(tmp_path: Path) -> Tiers:
    return Tiers(tmp_path)


def notes(tiers: Tiers, word: str) -> str:
    """Return a command that notes a word."""
    return f"echo {word} >>{tiers.folder}/ran"


def test_all_pass_and_each_has_a_log_and_a_line(tiers: Tiers) -> None:
    other = tiers.folder / "test" / "faults.log"  # F6: of another run in the same checkout
    other.parent.mkdir()
    other.write_text("so far")
    tiers.write(a={"run": "echo said by a"}, b={"run": "true", "lane": "waits"})

    code, said = tiers.run("test")

    assert code == 0
    assert "0 of 2 tiers failed" in said
    assert {line.split()[1] for line in said.splitlines() if "passed " in line} == {"a", "b"}
    assert "said by a" in (tiers.folder / "test" / "a.log").read_text()
    assert "said by a" not in said
    assert other.read_text() == "so far"


def test_a_failure_ends_nothing_else_fails_all_and_has_the_last_words(tiers: Tiers) -> None:
    tiers.write(
        a={"run": "echo what is wrong; exit 3"},
        b={"run": notes(tiers, "b")},
        c={"run": notes(tiers, "c"), "lane": "waits"},
    )

    code, said = tiers.run("test")

    assert code == 1
    assert sorted(tiers.ran()) == ["b", "c"]
    assert "1 of 3 tiers failed" in said
    assert "exit code 3" in said
    assert said.rstrip().endswith("what is wrong")


def test_the_first_failing_test_is_named(tiers: Tiers) -> None:
    test = tiers.folder / "test_it.py"
    test.write_text("def test_good(): pass\n\n\ndef test_bad(): assert 0\n")
    tiers.write(a={"run": f"python -m pytest -p no:cacheprovider -c /dev/null {test} {{pytest}}"})

    code, said = tiers.run("test", "--tier", "a")

    assert code == 1
    assert "1 passed, 1 failed" in said
    assert "test_it.py::test_bad; " in said
    assert "::test_good" in "".join(lanes.slowest(tiers.folder / "test"))


def test_lanes_run_side_by_side_and_a_tier_waits_for_those_that_it_names(tiers: Tiers) -> None:
    pipe = tiers.folder / "pipe"
    os.mkfifo(pipe)
    tiers.write(
        a={"run": f"echo x >{pipe}"},  # ends only if the other lane reads
        b={"run": notes(tiers, "b")},
        c={"run": f"cat {pipe}", "lane": "waits"},
        d={"run": notes(tiers, "d"), "lane": "waits", "after": ["b"]},
    )

    code, _ = tiers.run("test")

    assert code == 0
    assert tiers.ran() == ["b", "d"]


def test_a_tier_knows_nothing_of_make_and_keeps_what_python_compiles(tiers: Tiers) -> None:
    names = ("MAKEFLAGS", "PYTHONDONTWRITEBYTECODE")
    tiers.environment |= dict.fromkeys(names, "1")
    tiers.write(a={"run": f'test -z "{"".join(f"${name}" for name in names)}"'})

    assert tiers.run("test")[0] == 0


def alive(group: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, 0)
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_both_lanes_with_all_their_processes(
    tiers: Tiers, number: signal.Signals
) -> None:
    ready = tiers.folder / "ready"
    os.mkfifo(ready)
    # Each has a child in the background, which ignores SIGINT and would live on.
    stays = f"sleep 600 & echo $$ >{ready}; wait; {notes(tiers, 'went_on')}"
    tiers.write(
        a={"run": stays},
        b={"run": stays, "lane": "waits"},
        c={"run": notes(tiers, "c"), "lane": "waits"},
    )
    process = tiers.start("test")
    # Open for both, so that it is never without a reader: what the second wrote would be lost.
    with os.fdopen(os.open(ready, os.O_RDWR), closefd=True) as pipe:
        groups = [int(pipe.readline()) for _ in range(2)]

    process.send_signal(number)
    said, _ = process.communicate(timeout=60)

    assert process.returncode == 130
    assert "interrupted" in said
    assert not any(map(alive, groups))
    assert tiers.ran() == []


def test_a_part_is_the_quick_and_the_long_tier(tiers: Tiers) -> None:
    long = {"run": notes(tiers, "long"), "set": "all"}
    tiers.write(**{"a": {"run": notes(tiers, "a")}, "a-long": long, "b": {"run": "exit 1"}})

    tiers.run("all", "--part", "a")
    tiers.run("test", "--tier", "a")

    assert tiers.ran() == ["a", "long", "a"]


def test_an_unknown_tier_is_refused_with_those_that_there_are(tiers: Tiers) -> None:
    tiers.write(a={"run": "true"}, b={"run": "true"})

    code, said = tiers.run("test", "--tier", "x")

    assert code == 1
    assert "there is no tier x; choose from a, b" in said


def test_a_tier_that_takes_too_long_is_ended(tiers: Tiers) -> None:
    tiers.write(a={"run": "sleep 600", "limit": 0})

    code, said = tiers.run("test")

    assert code == 1
    assert "timed out" in said


def test_a_failure_does_not_hide_that_a_tier_took_too_long() -> None:
    long: Any = SimpleNamespace(name="a")
    report = lanes.Report(passed=2, failed=1, first_failure="test_a.py::test_b")

    said = str(lanes.Result(long, 124, 3600.0, report, Path("a.log")))

    assert "timed out, unfinished; test_a.py::test_b; a.log" in said


def test_what_needs_our_own_cluster_is_left_out_on_an_existing_one(tiers: Tiers) -> None:
    tiers.write(a={"run": notes(tiers, "a")}, b={"run": "exit 1", "own_cluster": True})
    tiers.environment["CLUSTER"] = "existing"

    code, said = tiers.run("test")

    assert (code, tiers.ran()) == (0, ["a"])
    assert "left out with CLUSTER=existing: b" in said


@pytest.mark.parametrize(
    ("versions", "ours", "theirs", "ends"),
    [(0, 0, 5, 0), (0, 5, 5, 5), (0, 0, 1, 1), (1, 0, 0, 1)],
    ids=["a part", "no test", "a failure", "no version"],
)
def test_b8_the_matrix_fails_if_it_tests_nothing(
    tmp_path: Path, versions: int, ours: int, theirs: int, ends: int
) -> None:
    python = tmp_path / "python"
    python.write_text(
        f"#!/bin/sh\ncase $* in -c*) echo 1.36; exit {versions} ;; "
        f"*--junit-xml={tmp_path}/matrix.1.36.packages-kopf-runtime-*.xml) exit {ours} ;; "
        f"*--junit-xml={tmp_path}/matrix.1.36.*.xml) exit {theirs} ;; *) exit 9 ;; esac\n"
    )
    python.chmod(0o755)
    run = lanes.read(REAL)["matrix"].command(tmp_path / "matrix.xml", (), "")
    environment = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}

    assert subprocess.run(["sh", "-ec", run], env=environment, check=False).returncode == ends


def test_check_needs_no_cluster_and_each_path_exists() -> None:
    real = lanes.read(REAL)

    assert not any(each.cluster or each.own_cluster for each in lanes.of_set(real, "check"))
    for each in real.values():
        for word in f"{each.run} {each.pytest}".split():
            if word.startswith("tests/"):
                assert (paths.CHECKOUT / word).exists(), word
