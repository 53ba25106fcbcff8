"""The operators to measure, as processes beside the cluster, and what such a process costs.

Used by `measures` and `run`. All operators have the same user and the same rights.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench import environment, shipped
from bench.api import OPERATOR
from kopf_kit.rig import paths
from kopf_kit.rig.control_plane import ControlPlane, kubeconfig
from kopf_kit.rig.run import KitError, tail
from kopf_offline import golang

_HERE = Path(__file__).parent
_TICKS = os.sysconf("SC_CLK_TCK")
LEASE = "message-operator"

_MODULE = paths.CHECKOUT / "examples" / "in-go"
#: The peers in Go, all built from one module.
IN_GO = {
    "controller-runtime-peer": golang.Program(".", _MODULE),
    "memcached-peer": golang.Program("./memcached", _MODULE),
}

#: The operators on our runtime: their modules, and the folders of those that our image has not.
_ON_OUR_RUNTIME: dict[str, tuple[str, tuple[Path, ...]]] = {
    "ours": ("message_operator", ()),
    "memcached": (
        "memcached_operator",
        (paths.CHECKOUT / "examples" / "memcached" / "operator",),
    ),
    "validated": (
        "memcached_validated",
        (_HERE / "peers", paths.CHECKOUT / "examples" / "memcached" / "operator"),
    ),
    "floor": ("bench.floor", (paths.CHECKOUT,)),
}


def _tutorial() -> list[str | Path]:
    script = _HERE / "peers" / "kopf-tutorial" / "main.py"
    return [sys.executable, "-m", "kopf", "run", "-A", "--standalone", script]


@dataclass(frozen=True)
class Peer:
    """An operator with its flags."""

    name: str
    title: str
    program: str
    flags: tuple[str, ...] = ()
    #: Whether its status contains the observed generation.
    tells_generation: bool = True
    #: The most Messages with which its memory is measured; the default one would take too long.
    scales: int = 0

    @property
    def on_our_runtime(self) -> bool:
        """Whether it is built on our runtime, and runs with the Python of our image."""
        return self.program in _ON_OUR_RUNTIME

    def command(self, *more: str) -> list[str | Path]:
        """Return the command that runs it."""
        if self.on_our_runtime:
            module, _ = _ON_OUR_RUNTIME[self.program]
            start = [*shipped.python(), "-m", module]
        else:
            tutorial = self.program == "tutorial"
            start = _tutorial() if tutorial else [golang.program(self.program, IN_GO)]
        return [*start, *self.flags, *more]

    def environment(self) -> dict[str, str]:
        """Return the variables that it needs beside those of every program."""
        if not self.on_our_runtime:
            return {}
        _, folders = _ON_OUR_RUNTIME[self.program]
        return shipped.environment(*folders)


_QUIET = ("--metrics-bind-address=0", "--health-probe-bind-address=0", "--webhook-bind-address=0")
OURS = Peer("ours", "message-operator", "ours", scales=100_000)
DEFAULT = Peer("controller-runtime-1", "controller-runtime, 1 worker", "controller-runtime-peer")
TUNED = Peer(
    "controller-runtime-10",
    "controller-runtime, 10 workers, slim cache",
    "controller-runtime-peer",
    ("-workers=10", "-slim"),
    scales=100_000,
)
TUTORIAL = Peer("kopf-tutorial", "kopf as in tutorials", "tutorial", tells_generation=False)
PEERS = (OURS, DEFAULT, TUNED, TUTORIAL)
#: It is measured so for single creates; `bare` measures it in the other cases.
FLOOR = Peer("floor", "the floor: a bare client", "floor")
MEMCACHED = Peer("memcached", "examples/memcached", "memcached")
MEMCACHED_IN_GO = Peer("memcached-in-go", "the tutorial's operator in Go", "memcached-peer")
MEMCACHEDS = (MEMCACHED, MEMCACHED_IN_GO)
#: What answers reviews: the Memcached's operator with a function that validates, and its peer.
REVIEWED = (replace(MEMCACHED, program="validated"), MEMCACHED_IN_GO)


def build() -> None:
    """Build what is missing, before anything is measured."""
    parts = ("etcd", "kube-apiserver", "kube-controller-manager", "kwok")
    golang.programs([*parts, *IN_GO], golang.PROGRAMS | IN_GO)
    shipped.root()
    environment.message_crd()


@dataclass
class Process:
    """A running operator."""

    process: "subprocess.Popen[bytes]"
    log: Path
    started: float = field(default_factory=time.monotonic)

    def cpu(self) -> float:
        """Return the CPU time that it has used, in seconds."""
        self.check()
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS  # utime and stime

    def rss(self) -> float:
        """Return its resident memory in MB (2**20 bytes)."""
        self.check()
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) / 1024

    def check(self) -> None:
        """Raise `KitError` if it has ended."""
        code = self.process.poll()
        if code is not None:
            said = tail(self.log.read_text(errors="replace"))
            raise KitError(f"the operator has ended (exit code {code}); its log ends:\n{said}")

    async def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it, and wait until it has ended."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            await asyncio.to_thread(self.process.wait, 20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            await asyncio.to_thread(self.process.wait, 20)


@contextlib.asynccontextmanager
async def running(
    plane: ControlPlane,
    peer: Peer,
    *more: str,
    name: str = "operator",
    env: Mapping[str, str] | None = None,
    server: str = "",
) -> AsyncIterator[Process]:
    """Run an operator during the block, and keep its log.

    `server` is the address that it uses instead of the API server's, if given.
    """
    if peer.on_our_runtime and not any("bind-address" in flag for flag in more):
        more = (*more, *_QUIET)
    log = plane.folder / f"{name}.log"
    access = plane.kubeconfig(OPERATOR)
    if server:
        access = plane.folder / f"{name}.kubeconfig"
        authority = plane.certificates / "apiserver.crt"  # a proxy has the same
        access.write_text(kubeconfig(server, OPERATOR, authority))
    with log.open("ab") as out:
        process = Process(
            subprocess.Popen(  # noqa: ASYNC220 (it is awaited below, in a thread)
                peer.command(*more),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env={
                    **os.environ,
                    "KUBECONFIG": str(access),
                    **peer.environment(),
                    **(env or {}),
                },
            ),
            log,
        )
    try:
        yield process
    finally:
        await process.stop()
        kept = paths.BUILD / "bench"
        kept.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(log, kept / f"{peer.name}-{name}.log")
