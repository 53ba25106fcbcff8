"""Nodes for the Pods of one EtcdCluster: real processes of etcd, each with an address of its own.

Each Pod's process sees an /etc/hosts of its own, in a mount namespace, and listens on the addresses
of a block in 127.0.0.0/8; a volume is a folder. It needs Linux, and the right to mount.
"""

import asyncio
import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from kopf_kit.testing.requests import NODE, Cluster, Raw, RefusedError

#: The name of a test's EtcdCluster, and the members of it that there may be.
NAME = "c"
MISSING = ".99"  # what the versions end with that have no image
MEMBERS = tuple(f"{NAME}-{number}" for number in range(1, 99))
#: Starts a program with mounts of its own.
UNSHARE = [
    *("setpriv", "--pdeathsig=KILL", "unshare", "--mount", "--propagation=private"),
    *(["--map-root-user"] if os.getuid() else []),
]
#: Run by `sh -c` there, with a file and a program: the file becomes its /etc/hosts.
MOUNT = 'mount --bind "$0" /etc/hosts && exec "$@"'
#: The same, with a folder and how to mount it: the mount lasts as long as this process.
_HOLD = 'mount "$@" "$0" && echo && exec sleep infinity'


@contextlib.contextmanager
def mounted(folder: Path, *arguments: str) -> Iterator[Path]:
    """Mount a file system on a folder; give the path by which all processes see it."""
    command = [*UNSHARE, "sh", "-c", _HOLD, str(folder), *arguments]
    with subprocess.Popen(command, stdout=-1, stderr=-1) as holder:  # noqa: S603
        try:
            assert holder.stdout is not None
            assert holder.stderr is not None
            if not holder.stdout.readline():
                pytest.skip(f"nothing can be mounted: {holder.stderr.read().decode()}")
            yield Path(f"/proc/{holder.pid}/root{folder}")
        finally:
            holder.kill()


@dataclass
class Container:
    """The process of a Pod, restarted whenever it ends."""

    name: str
    command: list[str]
    log: Path
    #: What it gets of its Pod's annotations as of each of its starts.
    environment: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    restarts: int = -1
    again: float = 0.0
    #: Whether its node is lost: the process is stopped, and its end is never told.
    lost: bool = False
    status: Raw = field(default_factory=dict)
    ending: bool = False

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": os.environ["PATH"], "GOMAXPROCS": "1", **self.environment},
                start_new_session=True,
            )
        self.restarts += 1
        self.status = {}  # what was told is of the former process
        self.again = time.monotonic() + min(5.0, 0.2 * 2**self.restarts)

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def send(self, how: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)

    def kill(self) -> None:
        """Kill it. Nothing starts it again before the caller waits for something else."""
        self.send(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()

    async def end(self) -> None:
        self.send(signal.SIGTERM)
        for _ in range(200):
            if not self.runs:
                return
            await asyncio.sleep(0.05)
        self.send(signal.SIGKILL)
        while self.runs:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def _status(ready: bool, restarts: int, state: Raw) -> Raw:
    """Return the status of a member's container."""
    status = {"name": "etcd", "image": "i", "imageID": "", "ready": ready}
    return {**status, "restartCount": restarts, **state}


def _environment(pod: Raw) -> dict[str, str]:
    """Return the variables that are taken from the Pod's annotations."""
    annotations = pod["metadata"]["annotations"]
    paths = {
        one["name"]: one["valueFrom"]["fieldRef"]["fieldPath"]
        for one in pod["spec"]["containers"][0]["env"]
        if "valueFrom" in one
    }
    return {name: annotations[path.split("'")[1]] for name, path in paths.items()}


class Nodes:
    """Runs the Pods of a namespace; `etcd` has the program of each minor version.

    `members` are those that there may ever be.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        folder: Path,
        etcd: dict[str, Path],
        members: Sequence[str] = MEMBERS,
    ) -> None:
        self.cluster, self.namespace, self.folder, self.etcd = cluster, namespace, folder, etcd
        self.block = f"127.{random.randrange(1, 250)}.{random.randrange(1, 250)}"  # noqa: S311
        self.containers: dict[str, Container] = {}  # by the Pods' uids
        self.session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=1.0))
        self.hosts = folder / "hosts"
        #: Where the members' volumes are.
        self.volumes = folder
        self._numbers = {member: number for number, member in enumerate(members, 1)}
        lines = [f"{self.address(m)} {m}.{m.rpartition('-')[0]}.{namespace}.svc" for m in members]
        self.hosts.write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        #: Is called after each call that changes etcd, before the operator gets the answer.
        self.after_call: Callable[[str], Awaitable[None]] | None = None
        #: Whether to stand between the operator and the members.
        self.between = True
        #: What is added to the command of a member.
        self.flags: list[str] = []
        #: Seconds between two looks at the Pods.
        self.pause = 0.1
        self._proxies: dict[str, web.AppRunner] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def path(self, plural: str, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def address(self, member: str, first: int = 0) -> str:
        return f"{self.block}.{first + self._numbers[member]}"

    def data(self, claim: Raw) -> Path:
        return self.volumes / str(claim["metadata"]["uid"])

    def running(self, member: str) -> Container:
        return next(container for container in self.containers.values() if container.name == member)

    # --- the nodes' work ------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator["Nodes"]:
        work = asyncio.create_task(self._work())
        try:
            yield self
            assert not work.done(), work.result()
        finally:
            work.cancel()
            await asyncio.gather(work, *self._ending, return_exceptions=True)
            for container in self.containers.values():
                container.send(signal.SIGKILL)
            for proxy in self._proxies.values():
                await proxy.cleanup()
            await self.session.close()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do what takes long beside all else."""
        task = asyncio.create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _work(self) -> None:
        while True:
            with contextlib.suppress(RefusedError):  # it changed, or is gone
                claims = {
                    claim["metadata"]["name"]: claim
                    for claim in await self.cluster.items(self.path("persistentvolumeclaims"))
                }
                pods = await self.cluster.items(self.path("pods"))
                await self._free(claims, pods)
                await asyncio.gather(*(self._pod(pod, claims) for pod in pods))
                listed = {pod["metadata"]["uid"] for pod in pods}
                for uid in self.containers.keys() - listed:
                    if not self.containers[uid].lost:  # there, nobody knows that it is gone
                        self.containers.pop(uid).send(signal.SIGKILL)
            await asyncio.sleep(self.pause)

    async def _free(self, claims: dict[str, Raw], pods: list[Raw]) -> None:
        """Release claims that are to be deleted once no Pod uses them, as a controller does."""
        used = {
            volume["persistentVolumeClaim"]["claimName"]
            for pod in pods
            for volume in pod["spec"].get("volumes", ())
            if "persistentVolumeClaim" in volume
        }
        for name, claim in list(claims.items()):
            if "deletionTimestamp" in claim["metadata"] and name not in used:
                path = self.path("persistentvolumeclaims", name)
                await self.cluster.patch(path, {"metadata": {"finalizers": None}})
                shutil.rmtree(self.data(claim), ignore_errors=True)

    async def _pod(self, pod: Raw, claims: dict[str, Raw]) -> None:
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        if "deletionTimestamp" in pod["metadata"]:
            container = self.containers.get(uid)
            if container is None or not (container.lost or container.ending):
                if container is not None:
                    container.ending = True
                self.begin(self._end(pod, container))
            return
        if not pod["spec"].get("nodeName"):
            binding = {"metadata": {"name": name, "uid": uid}, "target": {"name": NODE}}
            await self.cluster.ask("POST", f"{self.path('pods', name)}/binding", binding)
        if uid not in self.containers:
            if not (command := await self._command(pod, claims)):
                if pod["spec"]["containers"][0]["image"].endswith(MISSING) and not pod[
                    "status"
                ].get("containerStatuses"):
                    waits = {"reason": "ErrImagePull", "message": "the image is not there"}
                    state = {"state": {"waiting": waits}}
                    status = {"phase": "Pending", "containerStatuses": [_status(False, 0, state)]}
                    await self.cluster.patch(
                        f"{self.path('pods', name)}/status", {"status": status}
                    )
                return  # the image or the volume is not there
            self.containers[uid] = Container(name, command, self.folder / f"{name}.log")
        container = self.containers[uid]
        if container.lost:
            return
        if not container.runs and time.monotonic() > container.again:
            container.environment = _environment(pod)
            container.start()
        await self._tell(pod, container)

    async def _command(self, pod: Raw, claims: dict[str, Raw]) -> list[str]:
        container, name = pod["spec"]["containers"][0], pod["metadata"]["name"]
        version = container["image"].rpartition(":v")[2]
        program = self.etcd.get(".".join(version.split(".")[:2]))
        if program is None or version.endswith(MISSING):
            return []
        places = {"0.0.0.0": self.address(name)}  # noqa: S104
        folders = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        for volume in pod["spec"].get("volumes", ()):
            if "secret" in volume:
                place = self.folder / str(volume["secret"]["secretName"])
            else:
                claim = claims.get(volume["persistentVolumeClaim"]["claimName"])
                if claim is None or "deletionTimestamp" in claim["metadata"]:
                    return []
                (place := self.data(claim)).mkdir(exist_ok=True)
            places[folders[volume["name"]]] = str(place)
        if self.between and name not in self._proxies:
            await self._serve(name)
        arguments = [str(program), *container["command"][1:], *self.flags]
        for inside, outside in places.items():
            arguments = [argument.replace(inside, outside) for argument in arguments]
        return [*UNSHARE, "sh", "-c", MOUNT, str(self.hosts), *arguments, "--log-level=warn"]

    async def _tell(self, pod: Raw, container: Container) -> None:
        """Write the Pod's status if it has changed."""
        ready = container.runs and await self._ready(container.name)
        crashes = container.restarts >= 3 and not container.runs
        state: Raw = {"state": {"running": {}}}
        if crashes:
            assert container.process is not None
            log = container.log.read_text()[-2000:]  # as with FallbackToLogsOnError
            ended = {"exitCode": container.process.returncode, "message": log}
            waits = {"waiting": {"reason": "CrashLoopBackOff"}}
            state = {"state": waits, "lastState": {"terminated": ended}}
        address = self.address(container.name, 100 if self.between else 0)
        status: Raw = {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [_status(ready, container.restarts, state)],
        }
        if status != container.status:
            body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
            await self.cluster.patch(f"{self.path('pods', container.name)}/status", body)
            container.status = status

    async def _ready(self, member: str) -> bool:
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            url = f"http://{self.address(member)}:2381/readyz?exclude=data_corruption"
            async with self.session.get(url) as answer:
                return answer.status == 200
        return False

    async def _end(self, pod: Raw, container: Container | None) -> None:
        if container is not None:
            await container.end()
        only = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        with contextlib.suppress(RefusedError):
            await self.cluster.ask("DELETE", self.path("pods", pod["metadata"]["name"]), only)
        if container is not None:
            container.ending = False  # a Pod that is still there is ended again

    # --- what the operator calls ----------------------------------------------------------------

    async def _serve(self, member: str) -> None:
        """Stand between the operator and a member: the Pod's address is that of this server."""
        app = web.Application(client_max_size=2**26)

        async def forward(request: web.Request) -> web.StreamResponse:
            return await self._forward(member, request)

        app.router.add_post("/{path:.*}", forward)
        runner = self._proxies[member] = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, self.address(member, 100), 2379).start()

    async def _forward(self, member: str, request: web.Request) -> web.StreamResponse:
        path, body = request.match_info["path"], await request.read()
        url = f"http://{self.address(member)}:2379/{path}"
        limit = aiohttp.ClientTimeout(total=70)
        try:
            headers = {k: v for k, v in request.headers.items() if k == "Authorization"}
            async with self.session.post(url, data=body, headers=headers, timeout=limit) as answer:
                response = web.Response(status=answer.status, body=await answer.read())
        except aiohttp.ClientError:
            assert request.transport is not None
            request.transport.abort()
            return web.Response(status=502)
        changes = not path.endswith(("/status", "/list", "/hashkv")) and b'"GET"' not in body
        if changes and self.after_call is not None:
            await self.after_call(path)
        return response
