"""Steps: pieces of work with a name and a log, which report their progress.

Used by every module that builds something. On a terminal the running steps are shown live; in a
log, each prints when it starts, that it is still running, and how long it took. Within a `plan`
they are numbered, and the remaining time is estimated.
"""

import contextlib
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from hack.rig import durations, paths
from hack.rig.run import Argument, HackError, elapsed, run, stopping

#: Seconds between two lines of a long step that say that it is still running.
HEARTBEAT = 30.0

# On stderr, because stdout is for the command's result.
_console = Console(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True)


def say(text: str) -> None:
    """Print a line of progress."""
    _console.print(text)


class Step:
    """A step in progress; its commands' output goes to `log`."""

    def __init__(self, title: str, log: Path) -> None:
        self.title = title
        self.log = log
        self.began = time.monotonic()
        #: Returns the fraction of the work that is done, from 0 to 1, or None if it is unknown.
        self.fraction: Callable[[], float | None] = lambda: None

    @property
    def took(self) -> float:
        """The seconds since the step began."""
        return time.monotonic() - self.began

    def run(
        self,
        argv: Sequence[Argument],
        *,
        timeout: float,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: Path | bytes | None = None,
    ) -> None:
        """Run a command of this step; raise HackError, which quotes the log's end, if it fails."""
        run(argv, self.log, timeout=timeout, env=env, cwd=cwd, stdin=stdin)


class StepError(HackError):
    """The failure of a step; its message contains the step's name and log."""


class _Progress:
    """The running steps, and the plan of those to come."""

    def __init__(self, plan: durations.Plan | None = None) -> None:
        self.plan = plan
        self._began = time.monotonic()
        self._running: list[Step] = []
        self._lock = threading.Lock()
        self._live = Live(console=_console, get_renderable=self._picture, transient=True)
        #: Only a plan may use the terminal, because tests also print to it.
        self._draws = plan is not None and _console.is_terminal and not _console.is_dumb_terminal

    @contextlib.contextmanager
    def running(self, work: Step) -> Iterator[None]:
        """Show that a step runs."""
        ended = threading.Event()
        self._add(work)
        if not self._draws:
            threading.Thread(target=self._report, args=(work, ended), daemon=True).start()
        try:
            yield
        finally:
            ended.set()
            self._remove(work)
        if self.plan:
            self.plan.done(work.title, work.took)

    def heading(self, work: Step) -> str:
        """Return a step's title, with its number if it is part of the plan."""
        number = self.plan.number(work.title) if self.plan else None
        return f"[{number}] {work.title}" if number else work.title

    def state(self, work: Step) -> str:
        """Return the progress of a step and the plan: 1m30s, 43 %, about 5m left."""
        fraction = work.fraction()
        left = self.plan.left(work.title, work.took, fraction) if self.plan else None
        parts = [elapsed(work.took)]
        if fraction is not None:
            parts.append(f"{fraction * 100:.0f} %")
        if left is not None:
            parts.append(f"{_about(left)} left in all")
        return ", ".join(parts)

    def _add(self, work: Step) -> None:
        with self._lock:
            self._running.append(work)
            if self._draws and len(self._running) == 1:
                self._live.start()

    def _remove(self, work: Step) -> None:
        with self._lock:
            self._running.remove(work)
            if self._draws and not self._running:
                self._live.stop()

    def _report(self, work: Step, ended: threading.Event) -> None:
        while not ended.wait(HEARTBEAT):
            say(f"    {work.title} … {self.state(work)}")

    def _picture(self) -> Group:
        lines = [f"    {work.title} … {self.state(work)}" for work in list(self._running)]
        lines.append(f"    {elapsed(time.monotonic() - self._began)} so far")
        return Group(*(Text(line, no_wrap=True, overflow="ellipsis") for line in lines))


_progress = _Progress()


def _about(seconds: float) -> str:
    """Return an estimated number of seconds, rounded."""
    if seconds < 90:
        return f"about {max(round(seconds, -1), 10):.0f}s"
    return f"about {round(seconds / 60)}m"


@contextlib.contextmanager
def plan(steps: Mapping[str, float]) -> Iterator[None]:
    """Assign numbers to the steps in the block, and estimate the remaining time.

    `steps` are their names with their durations in seconds, as in `hack.rig.durations`. A plan
    within another one is part of it and changes nothing.
    """
    global _progress
    if _progress.plan:
        yield
        return
    before, _progress = _progress, _Progress(durations.Plan(steps))
    try:
        yield
    finally:
        _progress = before


def skip(steps: Collection[str]) -> None:
    """Remove steps that are not needed from the plan."""
    if _progress.plan:
        _progress.plan.skip(steps)


@contextlib.contextmanager
def step(title: str) -> Iterator[Step]:
    """Announce a step, report its progress while it runs, and print how long it took."""
    progress = _progress
    slug = re.sub(r"[^a-z0-9.]+", "-", title.lower()).strip("-")
    work = Step(title, paths.log(slug))
    work.log.write_bytes(b"")
    say(f"==> {progress.heading(work)}")
    try:
        with progress.running(work):
            yield work
    except StepError:  # from a step within this one, whose message is better
        raise
    except HackError as error:
        raise StepError(
            f"{title}: failed after {elapsed(work.took)}\n{error}\n"
            f"The whole log is {work.log}\n"
            "What is done so far is kept: the same command goes on from there."
        ) from error
    durations.remember(title, work.took)
    say(f"    {title}: {elapsed(work.took)}")


def together(*jobs: Callable[[], object]) -> None:
    """Run jobs at the same time, each in a thread; the first failure ends the others' commands.

    Use it for jobs that wait for different things, such as a download and a compiler.
    """
    pool = ThreadPoolExecutor(len(jobs))
    futures = [pool.submit(job) for job in jobs]
    try:
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        failures = [error for future in done if (error := future.exception())]
        if failures:
            raise failures[0]
    finally:
        with contextlib.nullcontext() if all(f.done() for f in futures) else stopping():
            pool.shutdown(wait=True)
