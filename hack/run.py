"""Commands, and the steps that are made of them; used by every other module.

A *step* has a name, says when it starts and how long it took, and keeps what its commands
print in a log file. Whatever goes wrong ends as one `HackError`, whose text says what happened,
where, and what to do next; `hack.__main__` prints it without a traceback.

Every command has a timeout, and runs in a process group of its own: so a timeout, a Ctrl-C,
or a failure in a parallel step ends it together with what it started.
"""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

from hack import paths

#: Seconds; enough for a question to a program that is there and well.
SHORT = 30.0

#: Seconds between two signs of life of a step that takes long.
HEARTBEAT = 30.0

Argument = str | Path


class HackError(Exception):
    """What happened, where, and what to do next; meant to be read by a person."""


class StepError(HackError):
    """A step's failure, told with the step's name and log."""


def say(line: str) -> None:
    """Print a line of progress, on stderr: stdout is for what a command was asked for."""
    print(line, file=sys.stderr, flush=True)


def elapsed(seconds: float) -> str:
    """Return seconds as a person writes them: 7s, 1m52s."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


def tail(text: str, lines: int = 15) -> str:
    """Return the end of a log, indented, for an error message."""
    return "\n".join(f"    {line}" for line in text.rstrip().splitlines()[-lines:])


# --- one command ------------------------------------------------------------------------------

_running: set["subprocess.Popen[bytes]"] = set()
_stopping = threading.Event()


def _kill(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def stop_all() -> None:
    """End every command that still runs, with all that it started."""
    for process in list(_running):
        _kill(process)


def check_not_stopping() -> None:
    """Raise HackError in a thread that is to end, because another one failed."""
    if _stopping.is_set():
        raise HackError("stopped")


def _execute(
    argv: Sequence[Argument],
    *,
    timeout: float,
    stdout: int,
    stderr: int,
    env: Mapping[str, str] | None,
    cwd: Path | None,
    stdin: Path | bytes | None,
) -> tuple[int, bytes, bytes]:
    """Run a command to its end; raise HackError where it is missing or takes too long."""
    check_not_stopping()
    with contextlib.ExitStack() as stack:
        source: int = subprocess.PIPE if isinstance(stdin, bytes) else subprocess.DEVNULL
        if isinstance(stdin, Path):
            source = stack.enter_context(stdin.open("rb")).fileno()
        try:
            process = subprocess.Popen(
                [str(argument) for argument in argv],
                stdin=source,
                stdout=stdout,
                stderr=stderr,
                env={**os.environ, **(env or {})},
                cwd=cwd,
                start_new_session=True,
            )
        except OSError as error:
            raise HackError(f"cannot run {argv[0]}: {error.strerror}") from error
        _running.add(process)
        try:
            out, err = process.communicate(stdin if isinstance(stdin, bytes) else None, timeout)
        except subprocess.TimeoutExpired as error:
            raise HackError(f"no end after {elapsed(timeout)}: {_line(argv)}") from error
        finally:
            if process.poll() is None:
                _kill(process)
            _running.discard(process)
    return process.returncode, out or b"", err or b""


def _line(argv: Sequence[Argument]) -> str:
    """Return a command as one would type it, shortened where it is very long."""
    line = shlex.join(str(argument) for argument in argv)
    return line if len(line) <= 300 else f"{line[:300]} …"


def output(
    argv: Sequence[Argument],
    *,
    timeout: float = SHORT,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: Path | bytes | None = None,
) -> str:
    """Return what a command prints on stdout; raise HackError, quoting stderr, where it fails."""
    code, out, err = _execute(
        argv,
        timeout=timeout,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        cwd=cwd,
        stdin=stdin,
    )
    if code:
        said = tail((err or out).decode(errors="replace"))
        raise HackError(f"this command failed (exit code {code}):\n    {_line(argv)}\n{said}")
    return out.decode(errors="replace")


def answer(
    argv: Sequence[Argument], *, timeout: float = SHORT, env: Mapping[str, str] | None = None
) -> str | None:
    """Return what a command prints, stripped, or None where it is missing or fails."""
    try:
        return output(argv, timeout=timeout, env=env).strip()
    except HackError:
        return None


# --- steps ------------------------------------------------------------------------------------


class Step:
    """A piece of work in progress; its commands' output goes to `log`."""

    def __init__(self, title: str, log: Path) -> None:
        self.title = title
        self.log = log

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
        with self.log.open("ab") as log:
            log.write(f"$ {_line(argv)}\n".encode())
            log.flush()
            start = log.tell()
            code, _, _ = _execute(
                argv,
                timeout=timeout,
                stdout=log.fileno(),
                stderr=subprocess.STDOUT,
                env=env,
                cwd=cwd,
                stdin=stdin,
            )
        if code:
            said = tail(self.log.read_bytes()[start:].decode(errors="replace"))
            raise HackError(f"this command failed (exit code {code}):\n    {_line(argv)}\n{said}")


@contextlib.contextmanager
def step(title: str) -> Iterator[Step]:
    """Announce a step, give signs of life while it runs, and say how long it took."""
    began = time.monotonic()
    slug = re.sub(r"[^a-z0-9.]+", "-", title.lower()).strip("-")
    work = Step(title, paths.log(slug))
    work.log.write_bytes(b"")
    say(f"==> {title}")
    done = threading.Event()

    def heartbeat() -> None:
        while not done.wait(HEARTBEAT):
            say(f"    {title} … {elapsed(time.monotonic() - began)}")

    threading.Thread(target=heartbeat, daemon=True).start()
    try:
        yield work
    except StepError:  # of a step within this one, which says it better
        raise
    except HackError as error:
        took = elapsed(time.monotonic() - began)
        raise StepError(
            f"{title}: failed after {took}\n{error}\n"
            f"The whole log is {work.log}\n"
            "What is done so far is kept: the same command goes on from there."
        ) from error
    finally:
        done.set()
    say(f"    {title}: {elapsed(time.monotonic() - began)}")


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
        if not all(future.done() for future in futures):
            _stopping.set()
            stop_all()
        pool.shutdown(wait=True)
        _stopping.clear()
