"""Simulates scheduler and kubelet: runs the Pods of a namespace, or all, and ends deleted ones."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import Enum

import aiohttp

from kopf_kit.testing.requests import NODE, Cluster, Raw, RefusedError


class Trouble(Enum):
    """A problem of the node."""

    REJECTS = "rejects each Pod at once, as OutOfpods"
    INIT_FAILS = "the first init container of each Pod crashes"
    LOST = "nothing starts, nothing ends"
    JOBS_FAIL = "each Pod of a Job ends with an error, and says that the test wants it"


_Work = Callable[[Raw], Awaitable[None]]


class Kubelet:
    """Binds each Pod to the node, makes it ready, and finishes its deletion.

    A Pod of a Job succeeds at once, or fails with `Trouble.JOBS_FAIL`.
    """

    def __init__(self, cluster: Cluster, namespace: str | None, at_once: int = 16) -> None:
        self._cluster = cluster
        scope = f"/namespaces/{namespace}" if namespace else ""
        self._path = f"/api/v1{scope}/pods"
        self._limit = asyncio.Semaphore(at_once)
        self._tasks: set[asyncio.Task[None]] = set()
        self._trouble: Trouble | None = None
        self._unmet: set[Trouble] = set()
        #: Whether it also binds Pods to its node, because there is no scheduler.
        self.places = True

    def arm(self, trouble: Trouble) -> None:
        """Let each Pod meet this trouble from now on."""
        self._trouble = trouble
        self._unmet.add(trouble)

    def disarm(self) -> None:
        """End the trouble."""
        self._trouble = None

    def unmet(self) -> list[str]:
        """Return the troubles that happened to no Pod."""
        return [f"the node's: {trouble.value}" for trouble in self._unmet]

    def _has(self, trouble: Trouble) -> bool:
        if self._trouble is not trouble:
            return False
        self._unmet.discard(trouble)
        return True

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Work during the block."""
        work = asyncio.create_task(self.run())
        try:
            yield
        finally:
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work

    async def run(self) -> None:
        """Work until cancelled, even if the API server is restarted."""
        while True:
            try:
                listed = await self._cluster.ask("GET", self._path)
                for pod in listed["items"] or []:
                    self._see(pod)
                await self._watch(listed["metadata"]["resourceVersion"])
            except (aiohttp.ClientError, TimeoutError, RefusedError, ValueError):
                await asyncio.sleep(0.2)

    async def _watch(self, version: str) -> None:
        url = f"{self._cluster.plane.server}{self._path}?watch=1&resourceVersion={version}"
        unlimited = aiohttp.ClientTimeout(total=None)
        async with self._cluster.session.get(url, timeout=unlimited) as response:
            begun = b""  # aiohttp's own lines have a limit, and a Pod may be larger
            async for part in response.content.iter_any():
                *lines, begun = (begun + part).split(b"\n")
                for event in map(json.loads, lines):
                    if event["type"] == "ERROR":
                        return
                    if event["type"] != "DELETED":
                        self._see(event["object"])

    def _see(self, pod: Raw) -> None:
        if self._has(Trouble.LOST):
            return
        status = pod.get("status") or {}
        if "deletionTimestamp" in pod["metadata"]:
            self._do(self._end, pod)
        elif not pod["spec"].get("nodeName"):
            if self.places:
                self._do(self._start, pod)
        elif status.get("phase") == "Pending":
            self._do(self._ready, pod)

    def _do(self, work: _Work, pod: Raw) -> None:
        task = asyncio.create_task(self._gently(work, pod))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _gently(self, work: _Work, pod: Raw) -> None:
        async with self._limit:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, RefusedError):
                await work(pod)

    def _place(self, pod: Raw) -> str:
        meta = pod["metadata"]
        return f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"

    async def _start(self, pod: Raw) -> None:
        binding = {
            "metadata": {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]},
            "target": {"kind": "Node", "name": NODE},
        }
        await self._cluster.ask("POST", f"{self._place(pod)}/binding", binding)

    async def _ready(self, pod: Raw) -> None:
        if self._has(Trouble.REJECTS):
            now: Raw = {"phase": "Failed", "reason": "OutOfpods"}
        elif self._has(Trouble.INIT_FAILS):
            waiting = {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting"}
            init = pod["spec"]["initContainers"][0]["name"]
            now = {
                "phase": "Pending",
                "initContainerStatuses": [
                    {
                        "name": init,
                        "image": "i",
                        "imageID": "",
                        "ready": False,
                        "restartCount": 1,
                        "state": {"waiting": waiting},
                    }
                ],
            }
        elif any(owner["kind"] == "Job" for owner in pod["metadata"].get("ownerReferences") or ()):
            now = _ended(pod, failed=self._has(Trouble.JOBS_FAIL))
        else:
            now = self._running()
        await self._cluster.patch(
            f"{self._place(pod)}/status",
            {"metadata": {"uid": pod["metadata"]["uid"]}, "status": now},
        )

    def _running(self) -> Raw:
        conditions = [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Ready")]
        return {"phase": "Running", "conditions": conditions}

    async def _end(self, pod: Raw) -> None:
        only = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        await self._cluster.ask("DELETE", self._place(pod), only)


def _ended(pod: Raw, *, failed: bool) -> Raw:
    """Return the status of a Pod whose containers have ended."""
    how = {"exitCode": 1, "reason": "Error", "message": "the test wants it"}
    terminated = how if failed else {"exitCode": 0, "reason": "Completed"}
    return {
        "phase": "Failed" if failed else "Succeeded",
        "containerStatuses": [
            {
                "name": container["name"],
                "image": "i",
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {"terminated": terminated},
            }
            for container in pod["spec"]["containers"]
        ],
    }
