"""Which small changes of the modules that data depends on no test notices, for `make sabotage`.

The table packages/kopf-runtime/tests/mutation/modules.toml names the modules, the tests near each,
and why each mutant that survives may. A mutant is a copy of the package with one change; a forked
process, which has imported all but the package, runs the tests that reach the changed line, the
quickest first, until one fails. One whose tests take too long is named: it may hang, or the machine
may have been busy. Most tests wait more than they work, so several mutants are tried at a time.
"""

import ast
import builtins
import contextlib
import hashlib
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click
import pytest

from hack.mutants import Mutant, mutants
from kopf_kit.rig.steps import say

PACKAGE = Path(__file__).parents[1] / "packages" / "kopf-runtime"
TABLE = PACKAGE / "tests" / "mutation" / "modules.toml"
HANGS = 1000
#: Seconds for which a test waits for a condition: three times what the slowest needs.
PATIENCE = 20.0
#: Seconds of a test that waits for something.
_WAITS = 0.1
_BLOCKS = ("body", "orelse", "finalbody")
_OPTIONS = ("-xq", "-pno:cacheprovider", "-pno:xdist", "--tb=no", "--hypothesis-seed=0")


@click.command()
@click.option("-k", "part", default="")
@click.option("--sample", type=int)
@click.option("--jobs", type=int, default=2)
def command(part: str, sample: int | None, jobs: int) -> int:
    """Try the mutants of the modules whose path has this text; fail if one survives."""
    unexplained = 0
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        copies = [Path(folder) / str(number) / PACKAGE.name for number in range(jobs)]
        ignored = shutil.ignore_patterns("__pycache__", ".hypothesis", "LICENSE")
        for copy in copies:
            shutil.copytree(PACKAGE, copy, ignore=ignored)
        for module, entry in tomllib.loads(TABLE.read_text()).items():
            if part in module:
                unexplained += Module(copies, module, **entry).try_mutants(sample)
    return 1 if unexplained else 0


def _import(names: Iterable[str]) -> None:
    """Import what the tests import, but for what imports the package: no mutant has to."""
    for name in names:
        if not name.startswith(("kopf_", "runtime", "conftest", "tests", "__")):
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    assert "kopf_runtime" not in sys.modules


class Module:
    """A module in copies of the package, with its tests."""

    def __init__(
        self,
        copies: Sequence[Path],
        name: str,
        tests: Sequence[str],
        survivors: dict[str, str] | None = None,
    ) -> None:
        self.copies, self.name, self.explained = copies, name, survivors or {}
        #: How many mutants each test has noticed: it goes before others.
        self.noticed = Counter[str]()
        self.tests = [f"tests/runtime/{test}.py" for test in tests]

    def file(self, copy: Path) -> Path:
        """Return the module's file in a copy."""
        return copy / "src" / "kopf_runtime" / self.name

    def try_mutants(self, sample: int | None) -> int:
        """Try all mutants that nothing explains, or some; return how many survive."""
        began, first = time.monotonic(), self.copies[0]
        reached = _Reached(self.file(first))
        every = list(mutants(self.file(first).read_text()))
        for change in self.explained.keys() - {mutant.change for mutant in every}:
            say(f"{self.name}: no mutant any more: {change}")
        with reached.noting():
            ended = _end(first, self.tests, 1800.0, reached)
        if ended:
            raise click.ClickException(f"{self.name}: its tests fail without a mutant, too")
        self.seconds, self.lines, modules = json.loads(reached.report.read_text())
        _import(modules)
        chosen = _same_of([one for one in every if one.change not in self.explained], sample)
        say(f"{self.name}: {len(self.seconds)} tests take {sum(self.seconds.values()):.0f} s")
        with ThreadPoolExecutor(len(self.copies)) as pool:
            shares = [chosen[number :: len(self.copies)] for number in range(len(self.copies))]
            survivors = sum(pool.map(self._try, self.copies, shares))
        counts = f"{len(chosen)} of {len(every)} mutants, {survivors} survive"
        say(f"{self.name}: {counts} ({time.monotonic() - began:.0f} s)")
        return survivors

    def _try(self, copy: Path, chosen: Sequence[Mutant]) -> int:
        """Try mutants in a copy; return how many survive."""
        file, survivors = self.file(copy), 0
        source = file.read_text()
        for number, mutant in enumerate(chosen, 1):
            file.write_text(mutant.source)
            os.utime(file, (number, number))  # or bytecode of the same second would be read
            near = self._near(mutant)
            trouble = self._trouble(copy, near) if near else "no test reaches it"
            if trouble:
                say(f"{self.name}:{mutant.line}: {mutant.change} ({trouble})")
                survivors += not trouble.startswith("takes")
        file.write_text(source)
        return survivors

    def _trouble(self, copy: Path, near: list[str]) -> str:
        """Return why it is not certain that one of these tests notices a mutant."""
        limit, notices = 60.0 + 5 * sum(self.seconds[test] for test in near), _Notices(copy)
        while (ended := _end(copy, near, limit, notices)) == 1:
            # A test that waits may fail because the machine is busy: it has to fail twice.
            noticed = notices.test()
            if self.seconds.get(noticed, 0.0) < _WAITS or _end(copy, [noticed], limit):
                self.noticed[noticed] += 1
                return ""
            if not (near := [test for test in near if test != noticed]):
                return "noticed by chance"
        if ended == HANGS:
            return f"takes {limit:.0f} s"
        return "" if ended else f"survives {len(near)} tests"

    def _near(self, mutant: Mutant) -> list[str]:
        """Return the tests that reach a mutant, the best first; what is imported, all reach."""
        lines = (str(line) for line in (mutant.line, mutant.statement))
        at = [self.lines[line] for line in lines if line in self.lines]
        near = (at or [[] if mutant.inside else [*self.seconds]])[0]
        near = [*self.seconds] if "" in near else near  # it is reached as they are collected
        return sorted(near, key=lambda test: self.seconds[test] / (1 + self.noticed[test]))


def _same_of(every: Sequence[Mutant], number: int | None) -> list[Mutant]:
    """Draw a sample by what each changes, so that an edit of other lines leaves it the same."""

    def place(mutant: Mutant) -> bytes:
        return hashlib.sha256(mutant.change.encode()).digest()

    return sorted(every, key=place)[:number]


class _Notices:
    """Notes which test fails."""

    def __init__(self, copy: Path) -> None:
        self._file = copy / "noticed"
        self._file.write_text("")

    def test(self) -> str:
        """Return the test that has just failed."""
        return self._file.read_text()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._file.write_text(report.nodeid)


class _Reached(ast.NodeTransformer):
    """Notes how long each test takes, and which lines of a file it reaches."""

    def __init__(self, file: Path) -> None:
        self.file, self.report = file, file.with_suffix(".json")
        self.seconds: dict[str, float] = {}
        self.lines = defaultdict[int, set[str]](set)
        self.test = ""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Have each statement of a function note that it is reached: a trace of all takes long."""
        super().generic_visit(node)
        for field in () if isinstance(node, ast.Module | ast.ClassDef) else _BLOCKS:
            if isinstance(block := getattr(node, field, None), list):
                noted = [(ast.parse(f"_reached({each.lineno})").body[0], each) for each in block]
                setattr(node, field, [each for pair in noted for each in pair])
        return node

    @contextlib.contextmanager
    def noting(self) -> Iterator[None]:
        """Change the file so that it notes what is reached."""
        source = self.file.read_text()
        self.file.write_text(ast.unparse(self.visit(ast.parse(source))))
        vars(builtins)["_reached"] = lambda line: self.lines[line].add(self.test)
        try:
            yield
        finally:
            self.file.write_text(source)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self.test, began = item.nodeid, time.monotonic()
        try:
            return (yield)
        finally:
            self.seconds[self.test] = time.monotonic() - began

    def pytest_sessionfinish(self) -> None:
        lines = {line: sorted(tests) for line, tests in self.lines.items()}
        self.report.write_text(json.dumps([self.seconds, lines, list(sys.modules)]))


def _end(copy: Path, tests: Sequence[str], limit: float, plugin: object = None) -> int:
    """Return pytest's exit code in a copy, or `HANGS` after these seconds."""
    child = os.fork()
    if not child:
        os.setpgid(0, 0)
        os._exit(_run(copy, tests, [plugin] if plugin else []))
    end = time.monotonic() + limit
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return HANGS


def _run(copy: Path, tests: Sequence[str], plugins: Sequence[object]) -> int:
    os.chdir(copy)
    sys.path[:0] = [str(copy / "src"), str(copy / "tests")]
    waiting = importlib.import_module("runtime.support.waiting")
    waiting.until.__defaults__ = (PATIENCE,)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    try:
        return int(pytest.main([*_OPTIONS, *tests], plugins=plugins))
    except BaseException:
        return 1


if __name__ == "__main__":
    sys.exit(command.main(standalone_mode=False))
