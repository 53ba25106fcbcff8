"""The operator as a real process, which gets real signals, and a supervisor like a kubelet.

Most of an operator's start is the import of kopf and the runtime, and the suite starts hundreds: so
each is a fork of a process that has imported them.
"""

import asyncio
import contextlib
import importlib
import multiprocessing
import os
import random
import runpy
import shutil
import socket
import sys
import tempfile
import types
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from signal import Signals

import aiohttp

from kopf_kit.rig.control_plane import end_with_parent, kubeconfig

_IMAGE = "kopf_kit.testing.preloaded"


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
    end_with_parent()
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


class Operator:
    """One replica, which is restarted whenever it ends, until it is stopped."""

    def __init__(
        self,
        program: Sequence[str],
        user: str,
        server: str,
        flags: Callable[[int], Sequence[str]],
        ready: str,
        log_to: Path | None = None,
    ) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="kopf-kit-operator-"))
        (self._folder / "kubeconfig").write_text(kubeconfig(server, user))
        self.port = free_port()
        self._program = program
        self.flags = flags(self.port)
        self._ready = ready
        self._log_to = log_to
        self._clock = self._folder / "clock"
        self._clock.write_text("0")
        self._process: ForkServerProcess | None = None
        self._keeper: asyncio.Task[None] | None = None
        #: The exit codes so far.
        self.exits: list[int] = []
        self.supervised = True

    async def start(self) -> None:
        """Start the process, and restart it whenever it ends."""
        self._spawn()
        self._keeper = asyncio.create_task(self._keep())

    def _spawn(self) -> None:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._folder),
            "KUBECONFIG": str(self._folder / "kubeconfig"),
            "CLOCK": str(self._clock),
            "SSL_CERT_FILE": os.devnull,  # the kubeconfig has the only authority; all take 80 ms
        }
        self._process = start(
            *self._program,
            *self.flags,
            environment=environment,
            folder=self._folder,
            log=self._log_to or self.log,
        )

    async def _keep(self) -> None:
        while self._process is not None:
            self.exits.append(await end(self._process))
            if not self.supervised:
                return
            await asyncio.sleep(0.05)
            self._spawn()
            if not self.supervised:  # it was stopped or closed when there was no process to end
                self.send(Signals.SIGKILL)

    @property
    def log(self) -> Path:
        """The path of its log."""
        return self._folder / "log"

    @property
    def pid(self) -> int:
        """The id of the current process."""
        assert self._process is not None
        assert self._process.pid is not None
        return self._process.pid

    def memory(self, which: str = "VmRSS") -> int:
        """Return its resident memory, or its virtual memory (`VmSize`), in bytes."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{which}:"):
                return int(line.split()[1]) * 1024
        raise AssertionError(f"process {self.pid} is gone")

    def shift_clock(self, seconds: float) -> None:
        """Move its wall clock by seconds, at once: it may read the file at any moment."""
        moved = self._folder / "moved"
        moved.write_text(str(seconds))
        moved.replace(self._clock)

    def send(self, number: Signals) -> None:
        """Send it a signal."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    async def stop(self, how: Signals = Signals.SIGTERM) -> None:
        """End it without a restart; raise `TimeoutError` if that takes longer than 20 seconds."""
        self.supervised = False
        if self._keeper is not None and not self._keeper.done():
            self.send(how)
            async with asyncio.timeout(20):
                await self._keeper

    async def close(self) -> None:
        """Kill it if it still runs."""
        self.supervised = False
        if self._keeper is not None and not self._keeper.done():
            self.send(Signals.SIGCONT)
            self.send(Signals.SIGKILL)
            await self._keeper
        shutil.rmtree(self._folder)

    async def probe(self, path: str) -> tuple[int, str]:
        """Request an endpoint; return status and text, or status 0 if it does not answer."""
        url = f"http://127.0.0.1:{self.port}{path}"
        limit = aiohttp.ClientTimeout(total=3)
        try:
            async with aiohttp.ClientSession(timeout=limit) as session, session.get(url) as answer:
                return answer.status, await answer.text()
        except (aiohttp.ClientError, TimeoutError):
            return 0, ""

    async def is_ready(self) -> bool:
        """Tell whether it says that it is ready."""
        return (await self.probe(self._ready))[0] == 200

    async def wait_until_ready(self) -> None:
        """Wait until it says that it is ready."""
        while not await self.is_ready():
            await asyncio.sleep(0.05)


def free_port() -> int:
    """Return a free port that no outgoing connection can take meanwhile."""
    while True:
        port = random.randrange(15_000, 32_000)  # noqa: S311 (below the ephemeral ones)
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind(("127.0.0.1", port))
            return port
