"""Reads what each tier is, and runs tiers: each lane in its order, the lanes side by side."""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

import msgspec

from kopf_kit.rig import paths
from kopf_kit.rig.run import KitError, elapsed, tail
from kopf_kit.rig.steps import say

Set = Literal["check", "test", "all", "asked"]
Lane = Literal["computes", "waits"]
SETS: tuple[Set, ...] = ("check", "test", "all", "asked")
LANES: tuple[Lane, ...] = ("computes", "waits")
#: The tiers of a repository that has none of its own.
DEFAULT = Path(__file__).with_name("tiers.toml")
#: A tier with this ending has the tests that the quick tier of the same name leaves out.
LONG = "-long"


class Tier(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One tier; the comment in tests/tiers.toml explains each field."""

    name: str = ""
    says: str
    set: Set
    lane: Lane
    run: str = ""
    pytest: str = ""
    of_project: str = ""
    after: tuple[str, ...] = ()
    cluster: bool = False
    own_cluster: bool = False
    limit: int = 60

    def command(self, report: Path, options: Sequence[str], project: str) -> str:
        """Return the shell's command; `report` is where pytest writes, `options` are further."""
        tests = self.of_project if project and self.of_project else self.pytest
        line = self.run or f"python -m pytest {tests} {{pytest}}"
        words = {
            "{pytest}": shlex.join([f"--junit-xml={report}", *options]),
            "{options}": shlex.join(options),
            "{project}": shlex.quote(project),
            "{folder}": shlex.quote(str(report.parent)),
        }
        for placeholder, ours in words.items():
            line = line.replace(placeholder, ours)
        return line

    @property
    def knows_projects(self) -> bool:
        """Whether the tier tests the operator that PROJECT names."""
        return bool(self.of_project or self.run)

    def is_there(self, root: Path) -> bool:
        """Return whether a repository has the folder of the tests, if it needs one."""
        return not self.pytest or (root / self.pytest.split()[0]).exists()

    @property
    def may_be_empty(self) -> bool:
        """Whether the tier passes without a test."""
        return self.name.endswith(LONG)


def read(file: Path) -> dict[str, Tier]:
    """Return the tiers by name, in the file's order; raise KitError if something is wrong."""
    try:
        tiers = msgspec.toml.decode(file.read_bytes(), type=dict[str, Tier])
    except (OSError, msgspec.MsgspecError) as error:
        raise KitError(f"{file}: {error}") from error
    named = {name: msgspec.structs.replace(tier, name=name) for name, tier in tiers.items()}
    for name, tier in named.items():
        if bool(tier.run) == bool(tier.pytest):
            raise KitError(f"{file}: the tier {name} needs either `run` or `pytest`")
        choose(named, tier.after)
    if file != DEFAULT:
        return named
    # How the files of an adopted operator have to look is its author's matter.
    left_out = ("lint", "types", "judges") if paths.is_adopted() else ()
    return {
        name: tier
        for name, tier in named.items()
        if tier.is_there(paths.CHECKOUT) and name not in left_out
    }


def of_set(tiers: dict[str, Tier], set_name: Set) -> list[Tier]:
    """Return the tiers of a set; each set has those of the one before it, too."""
    return [tier for tier in tiers.values() if SETS.index(tier.set) <= SETS.index(set_name)]


def choose(tiers: dict[str, Tier], names: Sequence[str], *, with_long: bool = False) -> list[Tier]:
    """Return the tiers with these names; raise KitError with the list if one is unknown."""
    if unknown := [name for name in names if name not in tiers]:
        raise KitError(f"there is no tier {unknown[0]}; choose from {', '.join(tiers)}")
    chosen = {*names, *(f"{name}{LONG}" for name in names if with_long)}
    return [tier for name, tier in tiers.items() if name in chosen]


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


def read_report(folder: Path, tier: str) -> Report:
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


_NOTHING_SELECTED = 5  # pytest's exit code
_TIMED_OUT = 124  # as of `timeout`
#: How processes are ended, with the seconds for each way. pytest tears down what it has set up when
#: it is interrupted.
_ENDINGS = ((signal.SIGINT, 30.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))
#: The variable that tells a tier's tests, and what they run, which tier they are of.
WITHIN = "WITHIN_TIER"
#: What tiers do not get of the environment: what `make` leaves there, which a `make` within a test
#: would obey, and what would have each of hundreds of Pythons compile all that it imports.
_LEFT_OUT = (
    *("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "ARGS"),
    "PYTHONDONTWRITEBYTECODE",
)


@dataclass(frozen=True)
class Result:
    """What came of one tier."""

    tier: Tier
    code: int
    seconds: float
    report: Report
    log: Path

    def __str__(self) -> str:
        """Return the tier's line of the summary."""
        line = f"{self.tier.name:<14} {elapsed(self.seconds):>7}  {self.report}"
        if not self.code:
            return f"  passed  {line}"
        why = self.report.first_failure or f"exit code {self.code}"
        if self.code == _TIMED_OUT:  # which a test that failed before does not explain
            why = f"timed out, unfinished; {self.report.first_failure}".removesuffix("; ")
        return f"  FAILED  {line}; {why}; {self.log}"


class Run:
    """One run of tiers, whose logs and reports are in a folder."""

    def __init__(
        self, folder: Path, options: Sequence[str], ended: Callable[[Result], None]
    ) -> None:
        """Be ready to run; `options` go to every pytest, and `ended` hears of each result."""
        self._folder, self._options, self._ended = folder, options, ended
        self._project = os.environ.get("PROJECT", "").removeprefix(".")
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False
        self._done: dict[str, threading.Event] = {}
        self._results: list[Result] = []

    def __call__(self, tiers: Sequence[Tier], *, show: bool = False) -> list[Result]:
        """Run tiers to their end; `show` copies the output of a single one to the terminal.

        A failure ends nothing else. An interrupt ends everything, with all child processes.
        """
        self._done = {tier.name: threading.Event() for tier in tiers}
        # A signal that is ignored stays so in child processes, as in a shell's background job.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with ThreadPoolExecutor(len(LANES)) as pool:
            lanes = [
                pool.submit(self._lane, [tier for tier in tiers if tier.lane == lane])
                for lane in LANES
            ]
            shown = 0
            try:
                while wait(lanes, timeout=0.2).not_done:
                    shown += self._show(tiers[0], shown) if show else 0
            except KeyboardInterrupt:
                say("\ninterrupted; waiting for what runs to clean up (once more: at once)")
                self._stop()
                raise
        if show:
            self._show(tiers[0], shown)
        for lane in lanes:
            lane.result()
        return self._results

    def _lane(self, tiers: Sequence[Tier]) -> None:
        for tier in tiers:
            for other in tier.after:
                while other in self._done and not self._done[other].wait(0.2):
                    if self._stopped:
                        return
            if self._stopped:
                return
            try:
                result = self._take(tier)
            finally:
                self._done[tier.name].set()
            if not self._stopped:
                self._results.append(result)
                self._ended(result)

    def _take(self, tier: Tier) -> Result:
        """Run one tier to its end."""
        log = self._folder / f"{tier.name}.log"
        began = time.monotonic()
        report = self._folder / f"{tier.name}.xml"
        code = self._execute(tier, tier.command(report, self._options, self._project), log)
        if code == _NOTHING_SELECTED and (self._options or tier.may_be_empty):
            code = 0
        seconds = time.monotonic() - began
        return Result(tier, code, seconds, read_report(self._folder, tier.name), log)

    def _execute(self, tier: Tier, command: str, log: Path) -> int:
        env = {name: value for name, value in os.environ.items() if name not in _LEFT_OUT}
        env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env.get('PATH', '')}"
        env["PROJECT"] = self._project if tier.knows_projects else ""
        env[WITHIN] = tier.name
        # What computes gives way to what waits, whose time limits are those of a quiet machine.
        nice = ("nice", "-n", "15") if tier.lane == "computes" else ()
        with log.open("wb") as out:
            out.write(f"$ {command}\n".encode())
            out.flush()
            with self._lock:
                if self._stopped:
                    return -signal.SIGINT
                process = subprocess.Popen(
                    [*nice, "sh", "-ec", command],
                    cwd=paths.CHECKOUT,
                    env={**env, "PYTHONUNBUFFERED": "1"},
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                )
                self._running.add(process)
        try:
            return process.wait(tier.limit * 60)
        except subprocess.TimeoutExpired:
            _end([process])
            return _TIMED_OUT
        finally:
            self._running.discard(process)

    def _stop(self) -> None:
        """End what runs, and let nothing begin."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        try:
            _end(running)
        except KeyboardInterrupt:
            _signal(running, signal.SIGKILL)

    def _show(self, tier: Tier, position: int) -> int:
        """Copy what is new in a tier's log to the terminal; return its length."""
        log = self._folder / f"{tier.name}.log"
        with contextlib.suppress(FileNotFoundError), log.open("rb") as file:
            file.seek(position)
            new = file.read()
            sys.stdout.buffer.write(new)
            sys.stdout.flush()
            return len(new)
        return 0


def last_words(result: Result) -> str:
    """Return the end of a failed tier's output, with a heading."""
    text = result.log.read_text(errors="replace")
    return f"\n{result.tier.name} failed; the end of {result.log}:\n{tail(text, 25)}"


def _end(processes: Sequence["subprocess.Popen[bytes]"]) -> None:
    """End the process groups of processes, kindly at first."""
    for number, seconds in _ENDINGS:
        deadline = time.monotonic() + seconds
        alive = _signal(processes, number)
        while alive and time.monotonic() < deadline:
            time.sleep(0.05)
            alive = _signal(alive, 0)
            if number == signal.SIGINT and all(process.poll() is not None for process in alive):
                break  # they have cleaned up; what they left in the background ignores SIGINT
        if not alive:
            return


def _signal(
    processes: Sequence["subprocess.Popen[bytes]"], number: int
) -> list["subprocess.Popen[bytes]"]:
    """Send a signal to process groups; return the processes whose group is there."""
    signalled = []
    for process in processes:
        process.poll()  # an ended leader is reaped, so that its group can vanish
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
            signalled.append(process)
    return signalled
