"""Python programs as forks of a process that has imported the runtime.

Most of an operator's start is the import of kopf and the runtime, and the suite starts hundreds.
"""

import asyncio
import ctypes
import importlib
import multiprocessing
import os
import runpy
import signal
import sys
import types
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path

_IMAGE = "kopf_kit.testing.preloaded"
_PR_SET_PDEATHSIG = 1


def start(
    *program: str, environment: Mapping[str, str], folder: Path, log: Path
) -> ForkServerProcess:
    """Start a program in a folder, given as a `Subject` has it; it writes to the end of a log."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_IMAGE])
    process = context.Process(target=_run, args=(program, environment, folder, log))
    process.start()
    return process


async def end(process: ForkServerProcess) -> int:
    """Wait for the end of a process; return its exit code, or the negative number of a signal."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(process.sentinel, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(process.sentinel)
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def _run(program: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path) -> None:
    importlib.import_module(_IMAGE)  # multiprocessing would not tell that it failed
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with log.open("ab") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # the server must end with the tests, not with us
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    match program:
        case ["-m", module, *flags]:
            sys.argv = [module, *flags]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["-c", code, *flags]:
            sys.argv = ["-c", *flags]
            main = sys.modules["__main__"] = types.ModuleType("__main__")
            exec(code, main.__dict__)  # noqa: S102 (a test gives it)
        case [python, "-m" | "-c", *_]:  # with what is hidden here, or what only that Python has
            os.execv(python, [*program])  # noqa: S606
        case [path, *flags]:
            sys.argv = [path, *flags]
            sys.path.insert(0, str(Path(path).parent))
            runpy.run_path(path, run_name="__main__")
