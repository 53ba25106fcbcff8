"""Which small changes of the modules that data depends on no test notices, for `make sabotage`.

The table packages/kopf-runtime/tests/mutation/modules.toml names the modules, the tests near each,
and why each mutant that survives may. A mutant is a copy of the package with one change; a forked
process, which has imported all but the package, runs the tests that reach the changed line, the
quickest first, until one fails. One whose tests take too long is named: it may hang, or the machine
may have been busy.
"""

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
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import click
import pytest

from hack.mutants import Mutant, mutants
from kopf_kit.rig.steps import say

PACKAGE = Path(__file__).parents[1] / "packages" / "kopf-runtime"
TABLE = PACKAGE / "tests" / "mutation" / "modules.toml"
HANGS = 1000
_OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "--tb=no")


@click.command()
@click.option("-k", "part", default="")
@click.option("--sample", type=int)
def command(part: str, sample: int | None) -> int:
    """Try the mutants of the modules whose path has this text; fail if nothing explains one."""
    unexplained = 0
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        copy = Path(folder) / PACKAGE.name
        ignored = shutil.ignore_patterns("__pycache__", ".hypothesis", "LICENSE")
        shutil.copytree(PACKAGE, copy, ignore=ignored)
        for module, entry in tomllib.loads(TABLE.read_text()).items():
            if part in module:
                unexplained += len(Module(copy, module, **entry).try_mutants(sample))
    return 1 if unexplained else 0


def _import(names: Iterable[str]) -> None:
    """Import what the tests import, but for what imports the package: no mutant has to."""
    for name in names:
        if not name.startswith(("kopf_", "runtime", "conftest", "tests", "__")):
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    assert "kopf_runtime" not in sys.modules


class Module:
    """A module in a copy of the package, with its tests."""

    def __init__(
        self, copy: Path, name: str, tests: Sequence[str], survivors: dict[str, str] | None = None
    ) -> None:
        self.copy, self.name, self.explained = copy, name, survivors or {}
        self.file = copy / "src" / "kopf_runtime" / name
        self.tests = [f"tests/runtime/{test}.py" for test in tests]

    def try_mutants(self, sample: int | None) -> list[Mutant]:
        """Try all mutants, or some; return those that survive without an explanation."""
        began, source = time.monotonic(), self.file.read_text()
        reached = _Reached(self.file)
        every = list(mutants(source))
        if _end(self.copy, self.tests, 1800.0, reached):
            raise click.ClickException(f"{self.name}: its tests fail without a mutant, too")
        seconds, lines, modules = json.loads(reached.report.read_text())
        _import(modules)
        chosen = every
        if sample is not None:
            chosen = _same_of(every, sample)
        say(f"{self.name}: {len(seconds)} tests take {sum(seconds.values()):.0f} s")
        survivors, found = 0, []
        for number, mutant in enumerate(sorted(chosen, key=lambda one: one.line), 1):
            # What runs at the import is reached by every test.
            at = [
                lines[str(line)] for line in (mutant.line, mutant.statement) if str(line) in lines
            ]
            near = (at or [[] if mutant.inside else [*seconds]])[0]
            near.sort(key=seconds.__getitem__)
            limit = 60.0 + 5 * sum(seconds[test] for test in near)
            self.file.write_text(mutant.source)
            os.utime(self.file, (number, number))  # or bytecode of the same second would be read
            if near and (ended := _end(self.copy, near, limit)):
                if ended == HANGS:
                    say(f"takes {limit:.0f} s: {self.name}:{mutant.line}: {mutant.change}")
                continue
            survivors += 1
            if mutant.change not in self.explained:
                found.append(mutant)
                by = f"{len(near)} tests" if near else "no test reaches it"
                say(f"survives: {self.name}:{mutant.line}: {mutant.change} ({by})")
        self.file.write_text(source)
        took = time.monotonic() - began
        counts = f"{len(chosen)} of {len(every)} mutants, {survivors} survive"
        say(f"{self.name}: {counts}, {survivors - len(found)} of them explained ({took:.0f} s)")
        return found


def _same_of(every: Sequence[Mutant], number: int) -> list[Mutant]:
    """Draw a sample by what each changes, so that an edit of other lines leaves it the same."""

    def place(mutant: Mutant) -> bytes:
        return hashlib.sha256(mutant.change.encode()).digest()

    return sorted(every, key=place)[:number]


class _Reached:
    """Notes how long each test takes, and which lines of a file it reaches."""

    def __init__(self, file: Path) -> None:
        self.file, self.report = str(file), file.with_suffix(".json")
        self.seconds: dict[str, float] = {}
        self.lines: dict[int, set[str]] = {}
        self.test = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self.test, began = item.nodeid, time.monotonic()
        sys.settrace(self._called)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            self.seconds[self.test] = time.monotonic() - began

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._reached if frame.f_code.co_filename == self.file else None

    def _reached(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self.lines.setdefault(frame.f_lineno, set()).add(self.test)
        return self._reached

    def pytest_sessionfinish(self) -> None:
        lines = {line: sorted(tests) for line, tests in self.lines.items()}
        self.report.write_text(json.dumps([self.seconds, lines, list(sys.modules)]))


def _end(copy: Path, tests: Sequence[str], limit: float, plugin: _Reached | None = None) -> int:
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
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    try:
        return int(pytest.main([*_OPTIONS, *tests], plugins=plugins))
    except BaseException:
        return 1


if __name__ == "__main__":
    sys.exit(command.main(standalone_mode=False))
