"""`make sabotage`: applies each small defect of tests/sabotage, and sees that a test notices it.

Each is applied alone, to one of a few copies of the checkout as it is by now: a test that fails
mostly waits. First the tests run that each defect names, which must pass without it; then, for
those that they missed, all tests of their tier. A defect is caught if a test fails; an error while
tests are collected is no failure. For each state of the sources it is remembered what was caught,
so that an interrupted run goes on.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

import click

from kopf_kit.rig import paths
from kopf_kit.rig.run import HackError, elapsed, output
from kopf_kit.rig.steps import say

_FOLDER = paths.BUILD / "sabotage"
_RESULTS = _FOLDER / "results.json"
_COPIES = 4
#: The copy's virtual environment is a link, which make must not replace.
_MAKE = ("make", "-o", ".venv/.ready")
_PYTEST = (
    *(".venv/bin/python", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--color=no"),
    "--timeout=300",
)
#: All tests of each tier of `make test` without a cluster.
_PYTESTS = {
    "unit": ("packages", "tests/unit", "-n", "2", "--deselect=tests/unit/test_sabotage.py"),
    "chart": ("tests/chart", "tests/projects/test_chart.py"),
    "bundle": ("tests/bundle", "tests/projects/test_bundle.py"),
    "memcached": ("examples/memcached/tests/unit",),
    "faults": ("tests/faults", "-n", "4", "--dist", "worksteal"),
}
#: Tiers that a defect may name instead of tests.
TARGETS = ("lint", "types", "repository", "verify")
#: The commands that run tests on a cluster.
_ON_A_CLUSTER = {"e2e": ("e2e", "--", "-x", "-k"), "olm": ("e2e-olm", "--", "-x", "-k")}


@dataclass(frozen=True, slots=True)
class Defect:
    """A small defect, as an entry of the lists describes it."""

    name: str
    #: What a user would suffer.
    harm: str
    #: Where such a defect was found once: a commit, a finding of a review, a document.
    origin: str
    file: str
    #: The text to replace, which occurs once in the file.
    find: str
    replace: str
    tests: str  # that should notice it, as pytest takes them with spaces between, or a target
    #: Whether to run `make generate`, as its author would have: that a file is stale proves little.
    generate: bool = False
    later: str = ""  # why only tests that `ARGS="--tier …"` names can notice it

    @property
    def tier(self) -> str:
        """The target, or that of the tests: `unit` for a distribution's, else their folder."""
        if self.tests in TARGETS:
            return self.tests
        return "unit" if self.tests.startswith("packages/") else self.tests.split("/")[1]

    @property
    def is_quick(self) -> bool:
        """Whether its tests need no cluster and are among those of `make test`."""
        return self.tier in TARGETS or self.tier in _PYTESTS

    def command(self, *, whole: bool) -> tuple[str, ...]:
        """Return the command that runs its tests, or the whole tier of them."""
        if self.tier in TARGETS:
            return (*_MAKE, "check", f"ARGS=--tier {self.tier}")
        if self.tier in _ON_A_CLUSTER:
            name = Path(self.tests.rpartition("::")[2]).stem
            return (".venv/bin/python", "-m", "kopf_kit", *_ON_A_CLUSTER[self.tier], name)
        return (*_PYTEST, *(_PYTESTS[self.tier] if whole else self.tests.split()))


def load() -> list[Defect]:
    """Return the defects of all lists."""
    lists = sorted((paths.CHECKOUT / "tests" / "sabotage").glob("*.toml"))
    tables = (tomllib.loads(file.read_text()) for file in lists)
    return [Defect(name, **entry) for table in tables for name, entry in table.items()]


@click.command()
@click.option("-k", "name", default="", help="Only those whose name has this text.")
@click.option("--tier", help="Only those that these tests should notice: unit, e2e …")
def command(name: str, tier: str | None) -> int:
    """Apply small defects, one at a time: a test must notice each."""
    chosen = [defect for defect in load() if name in defect.name and tier in (None, defect.tier)]
    tried = [defect for defect in chosen if tier or defect.is_quick]
    every = json.loads(_RESULTS.read_text()) if _RESULTS.exists() else {}
    with _copies() as (state, free):
        results = every.setdefault(state, {})
        left = [defect for defect in tried if results.get(defect.name, [""])[0] != "caught"]
        for whole in (False, True):  # a whole tier takes all processors; there is one cluster
            with ThreadPoolExecutor(1 if whole or tier in _ON_A_CLUSTER else _COPIES) as pool:
                trying = {pool.submit(_try, defect, free, whole): defect.name for defect in left}
                try:
                    for ended in as_completed(trying):
                        result, where, took = results[trying[ended]] = ended.result()
                        _RESULTS.write_text(json.dumps(every, indent=1))
                        say(f"{result:<8} {trying[ended]:<42} {elapsed(took):>6}  {where}")
                finally:
                    pool.shutdown(cancel_futures=True)
            missed = [defect for defect in left if results[defect.name][0] == "missed"]
            left = [defect for defect in missed if defect.tier in _PYTESTS]  # it has further tests
    for defect in (defect for defect in chosen if defect not in tried):
        say(f"not tried: {defect.name}, which is for --tier {defect.tier}: {defect.later}")
    counts = Counter(results[defect.name][0] for defect in tried)
    say(", ".join(f"{result}: {number}" for result, number in sorted(counts.items())))
    return 0 if counts.keys() == {"caught"} else 1


def _try(defect: Defect, free: "Queue[Path]", whole: bool) -> tuple[str, str, float]:
    """Return whether a defect is caught, by which test, and the seconds that this took."""
    copy, began = free.get(), time.monotonic()
    command = defect.command(whole=whole)
    try:
        if not _passes(command, copy):
            return "failing", f"without the defect, too: {shlex.join(command)}", 0.0
        began = time.monotonic()
        _apply(defect, copy)
        code, output = _test(command, copy)
        took = time.monotonic() - began
        # A file that cannot be collected is an ERROR without the name of a test.
        if failed := re.search(r"^(?:FAILED|ERROR) (\S+::\S+)", output, re.MULTILINE):
            return "caught", failed[1], took
        if code == 2 and defect.tier in TARGETS:
            return "caught", defect.tier, took
        if code:
            (_FOLDER / f"{defect.name}.log").write_text(output)
            return "unclear", f"exit code {code}: {_FOLDER / defect.name}.log", took
        return "missed", "by all tests" if whole else f"by {defect.tests}", took
    except HackError:
        return "unclear", "make generate fails", time.monotonic() - began
    finally:
        _restore(copy)
        free.put(copy)


_passed: dict[tuple[str, ...], bool] = {}


def _passes(command: tuple[str, ...], copy: Path) -> bool:
    """Return whether tests pass without a defect."""
    if command not in _passed:
        code, output = _test(command, copy)
        _passed[command] = not code
        if code:
            (_FOLDER / "failing.log").write_text(output)
    return _passed[command]


def _test(command: Sequence[str], copy: Path) -> tuple[int, str]:
    """Run tests in a copy; return their exit code and what they print."""
    done = subprocess.run(
        command,
        cwd=copy,
        env=os.environ | _ours(copy),
        timeout=1800,
        check=False,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return done.returncode, done.stdout


def _ours(copy: Path) -> dict[str, str]:
    """Return variables that import a copy's own modules, and keep no bytecode of a defect."""
    return {"PYTHONPATH": paths.python_path(copy), "PYTHONDONTWRITEBYTECODE": "1"}


def _apply(defect: Defect, copy: Path) -> None:
    file = copy / defect.file
    text = file.read_text()
    assert text.count(defect.find) == 1, defect.name
    file.write_text(text.replace(defect.find, defect.replace))
    if defect.generate:
        output([*_MAKE, "generate"], cwd=copy, env=_ours(copy), timeout=1800)
    if defect.tier == "release":  # its tests clone what is committed
        _git("commit", "--quiet", "--all", "--no-verify", "--message=a defect", at=copy)


def _restore(copy: Path) -> None:
    for undo in ("reset --quiet --hard HEAD^{/^what.is}", "clean --quiet -fd"):  # as made
        _git(*undo.split(), at=copy)
    # `make` in a test must find the linked environment newer than what it was made from.
    for source in (copy / "requirements.txt", *copy.glob("packages/*/pyproject.toml")):
        os.utime(source, (0, 0))


@contextmanager
def _copies() -> Iterator[tuple[str, "Queue[Path]"]]:
    """Yield git's hash of the checkout as it is now, and a queue of copies of it."""
    _remove()
    _FOLDER.mkdir(parents=True, exist_ok=True)
    index = {"GIT_INDEX_FILE": str(_FOLDER / "index")}
    _git("read-tree", "HEAD", env=index)
    _git("add", "--all", env=index)
    state = _git("write-tree", env=index).strip()
    commit = _git("commit-tree", state, "-p", "HEAD", "-m", "what is checked out").strip()
    free: Queue[Path] = Queue()
    try:
        for number in range(_COPIES):
            copy = _FOLDER / f"copy-{number}"
            _git("worktree", "add", "--quiet", "--detach", str(copy), commit)
            (copy / ".venv").symlink_to(paths.CHECKOUT / ".venv")
            _restore(copy)
            free.put(copy)
        yield state, free
    finally:
        _remove()


def _remove() -> None:
    for copy in _FOLDER.glob("copy-*"):
        shutil.rmtree(copy, ignore_errors=True)
    _git("worktree", "prune")


def _git(*arguments: str, at: Path = paths.CHECKOUT, env: Mapping[str, str] | None = None) -> str:
    return output(["git", "-C", at, *arguments], timeout=120, env=env)
