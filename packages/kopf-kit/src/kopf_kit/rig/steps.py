"""Steps: pieces of work with a name and a log, which report their progress.

Used by every module that builds something. Each prints when it starts, that it is still running,
and how long it took.
"""

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

from rich.console import Console

from kopf_kit.rig import paths
from kopf_kit.rig.run import Argument, KitError, elapsed, run, stopping

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
        """Run a command of this step; raise KitError, which quotes the log's end, if it fails."""
        run(argv, self.log, timeout=timeout, env=env, cwd=cwd, stdin=stdin)


class StepError(KitError):
    """The failure of a step; its message contains the step's name and log."""


def _state(work: Step) -> str:
    """Return the progress of a step: 1m30s, 43 %."""
    fraction = work.fraction()
    return elapsed(work.took) + ("" if fraction is None else f", {fraction * 100:.0f} %")


def _report(work: Step, ended: threading.Event) -> None:
    while not ended.wait(HEARTBEAT):
        say(f"    {work.title} … {_state(work)}")


@contextlib.contextmanager
def step(title: str) -> Iterator[Step]:
    """Announce a step, report its progress while it runs, and print how long it took."""
    slug = re.sub(r"[^a-z0-9.]+", "-", title.lower()).strip("-")
    work = Step(title, paths.log(slug))
    work.log.write_bytes(b"")
    say(f"==> {title}")
    ended = threading.Event()
    threading.Thread(target=_report, args=(work, ended), daemon=True).start()
    try:
        yield work
    except StepError:  # from a step within this one, whose message is better
        raise
    except KitError as error:
        raise StepError(
            f"{title}: failed after {elapsed(work.took)}\n{error}\n"
            f"The whole log is {work.log}\n"
            "What is done so far is kept: the same command goes on from there."
        ) from error
    finally:
        ended.set()
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
