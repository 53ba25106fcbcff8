"""Steps: pieces of work that have a name and a log, and tell how far they are.

Used by every module that makes something. On a terminal the steps that run are a live picture; in
a log each says when it starts, gives signs of life, and says how long it took. Within a `plan`
they have a number, and what is left is estimated.
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

#: Seconds between two signs of life of a step that takes long.
HEARTBEAT = 30.0

# On stderr: stdout is for what a command was asked for.
_console = Console(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True)


def say(text: str) -> None:
    """Print a line of progress."""
    _console.print(text)


class Step:
    """A piece of work in progress; its commands' output goes to `log`."""

    def __init__(self, title: str, log: Path) -> None:
        self.title = title
        self.log = log
        self.began = time.monotonic()
        #: Tells how much of the work is done, from 0 to 1, where that is known.
        self.fraction: Callable[[], float | None] = lambda: None

    @property
    def took(self) -> float:
        """Seconds since the step began."""
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
        """Run a command of this step; raise HackError, quoting the log's end, where it fails."""
        run(argv, self.log, timeout=timeout, env=env, cwd=cwd, stdin=stdin)


class StepError(HackError):
    """A step's failure, told with the step's name and log."""


class _Progress:
    """The steps that run, and what is known of those to come."""

    def __init__(self, plan: durations.Plan | None = None) -> None:
        self.plan = plan
        self._began = time.monotonic()
        self._running: list[Step] = []
        self._lock = threading.Lock()
        self._live = Live(console=_console, get_renderable=self._picture, transient=True)
        #: Only what has a plan owns the terminal: tests print to it, too.
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
        """Return a step's title, with its number where the plan has one."""
        number = self.plan.number(work.title) if self.plan else None
        return f"[{number}] {work.title}" if number else work.title

    def state(self, work: Step) -> str:
        """Tell how far a step and the whole plan are: 1m30s, 43 %, about 5m left."""
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
    """Return a number of seconds as precisely as an estimate deserves."""
    if seconds < 90:
        return f"about {max(round(seconds, -1), 10):.0f}s"
    return f"about {round(seconds / 60)}m"


@contextlib.contextmanager
def plan(steps: Mapping[str, float]) -> Iterator[None]:
    """Give the steps that follow numbers and an estimate of what is left.

    `steps` are their names with the seconds that they take, as in `hack.rig.durations`. A plan
    within another one is a part of it, and changes nothing.
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
    """Take steps that are not needed out of the plan."""
    if _progress.plan:
        _progress.plan.skip(steps)


@contextlib.contextmanager
def step(title: str) -> Iterator[Step]:
    """Announce a step, tell how far it is while it runs, and say how long it took."""
    progress = _progress
    slug = re.sub(r"[^a-z0-9.]+", "-", title.lower()).strip("-")
    work = Step(title, paths.log(slug))
    work.log.write_bytes(b"")
    say(f"==> {progress.heading(work)}")
    try:
        with progress.running(work):
            yield work
    except StepError:  # of a step within this one, which says it better
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

    Meant for work that waits for different things, such as a download and a compiler.
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
