"""A node that runs Pods in no time, in place of kwok's, for 100,000 of them.

kwok watches from the beginning whenever the API server ends its watch. With tens of thousands of
Pods it falls behind, so the API server ends the next watch, too: it then replays all Pods every few
seconds, which takes most of the API server's time. Used by `environment`.
"""

import asyncio
import contextlib
import datetime
from collections.abc import AsyncIterator
from typing import Any

from bench.api import PODS, Api, RefusedError
from bench.watched import Watched

#: Simultaneous requests, as many as kwok makes.
_WIDTH = 16


class _Node(Watched):
    """The Pods that do not run yet."""

    def __init__(self) -> None:
        super().__init__({PODS: self.take_pod})
        self.waiting: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()

    def take_pod(self, kind: str, raw: dict[str, Any], _: float) -> None:
        """Apply an event of a Pod."""
        if kind == "ADDED" and raw["status"]["phase"] == "Pending":
            self.waiting.put_nowait((raw["metadata"]["name"], raw["spec"]["containers"][0]))

    async def run(self, api: Api) -> None:
        """Report the Pods as running, one after the other."""
        while True:
            name, container = await self.waiting.get()
            with contextlib.suppress(RefusedError):  # it is gone
                await api.patch(f"{PODS}/{name}/status", {"status": _running(container)})


@contextlib.asynccontextmanager
async def running(api: Api) -> AsyncIterator[None]:
    """Report each Pod as running while the block lasts, with what `stages.yaml` has kwok report."""
    node = _Node()
    async with node.watched(api):
        workers = [asyncio.create_task(node.run(api)) for _ in range(_WIDTH)]
        try:
            yield
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)


def _running(container: dict[str, Any]) -> dict[str, Any]:
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = ("Initialized", "Ready", "ContainersReady")
    return {
        "phase": "Running",
        "startTime": now,
        "conditions": [
            {"type": name, "status": "True", "lastTransitionTime": now} for name in conditions
        ],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": now}},
            }
        ],
    }
