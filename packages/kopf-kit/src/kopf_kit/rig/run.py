"""Runs commands; used by every module that runs one.

Every failure raises a `KitError`, whose text says what happened, where, and what to do next;
`kopf_kit.program` prints it without a traceback.

Every command has a timeout and its own process group, so a timeout, a Ctrl-C, or a failure in a
parallel step ends it together with its child processes.
"""

import contextlib
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

#: Timeout in seconds that is enough for a simple request to a healthy program.
SHORT = 30.0

Argument = str | Path


class KitError(Exception):
    """An error for people: it says what happened, where, and what to do next."""

    @property
    def reason(self) -> str:
        """What the command said last that failed, or else the message itself; one line."""
        cause = self.__cause__
        return cause.reason if isinstance(cause, KitError) else str(self).splitlines()[0]


class CommandError(KitError):
    """A command that failed, with the end of its output."""

    @property
    def reason(self) -> str:
        """The last line of the output."""
        return str(self).splitlines()[-1].strip()


def elapsed(seconds: float) -> str:
    """Return a duration for people: 7s, 1m52s."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


def tail(text: str, lines: int = 15) -> str:
    """Return the end of a log, indented, for an error message."""
    return "\n".join(f"    {line}" for line in text.rstrip().splitlines()[-lines:])


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
    """End every running command with all its child processes."""
    for process in list(_running):
        _kill(process)


@contextlib.contextmanager
def stopping() -> Iterator[None]:
    """End every running command, and let none begin during the block."""
    _stopping.set()
    stop_all()
    try:
        yield
    finally:
        _stopping.clear()


def check_not_stopping() -> None:
    """Raise KitError if this thread has to end because another one failed."""
    if _stopping.is_set():
        raise KitError("stopped")


def outcome(
    argv: Sequence[Argument],
    *,
    timeout: float,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: Path | bytes | None = None,
) -> tuple[int, bytes, bytes]:
    """Return a command's code and output; raise KitError if it is missing or takes too long."""
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
            raise KitError(f"cannot run {argv[0]}: {error.strerror}") from error
        _running.add(process)
        try:
            out, err = process.communicate(stdin if isinstance(stdin, bytes) else None, timeout)
        except subprocess.TimeoutExpired as error:
            raise KitError(f"timed out after {elapsed(timeout)}: {_line(argv)}") from error
        finally:
            if process.poll() is None:
                _kill(process)
            _running.discard(process)
    return process.returncode, out or b"", err or b""


def _line(argv: Sequence[Argument]) -> str:
    """Return a command as a user would type it; shorten a very long one."""
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
    """Return a command's stdout; raise KitError, which quotes stderr, if it fails."""
    code, out, err = outcome(argv, timeout=timeout, env=env, cwd=cwd, stdin=stdin)
    if code:
        raise CommandError(_failure(argv, code, err or out))
    return out.decode(errors="replace")


def answer(
    argv: Sequence[Argument], *, timeout: float = SHORT, env: Mapping[str, str] | None = None
) -> str | None:
    """Return a command's stripped output, or None if it is missing or fails."""
    try:
        return output(argv, timeout=timeout, env=env).strip()
    except KitError:
        return None


def run(
    argv: Sequence[Argument],
    log: Path,
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: Path | bytes | None = None,
) -> None:
    """Append a command's output to a log; raise KitError, which quotes its end, if it fails."""
    with log.open("ab") as file:
        file.write(f"$ {_line(argv)}\n".encode())
        file.flush()
        start = file.tell()
        code, _, _ = outcome(
            argv,
            timeout=timeout,
            stdout=file.fileno(),
            stderr=subprocess.STDOUT,
            env=env,
            cwd=cwd,
            stdin=stdin,
        )
    if code:
        raise CommandError(_failure(argv, code, log.read_bytes()[start:]))


def _failure(argv: Sequence[Argument], code: int, printed: bytes) -> str:
    """Return a message that a command failed, with the end of its output."""
    end = tail(printed.decode(errors="replace"))
    return f"this command failed (exit code {code}):\n    {_line(argv)}\n{end}"
