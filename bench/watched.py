"""What the benchmark watches: collections of objects, and a way to wait for them.

`World` and `examples.Progress` are such; they know what the objects should be like.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import aiohttp

from bench.api import Api
from kopf_kit.rig.run import KitError

#: Applies an event: its type, the object, and when it came (monotonic clock).
Take = Callable[[str, dict[str, Any], float], None]


class Watched:
    """Objects that are watched; `takes` maps the path of each collection to what applies events."""

    def __init__(self, takes: Mapping[str, Take]) -> None:
        self._takes = takes
        self._moved = asyncio.Event()
        self._watches: list[asyncio.Task[None]] = []

    async def until(self, true: Callable[[], bool], patience: float) -> bool:
        """Wait until something is true; return False on a timeout."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while not true():
                    for watch in self._watches:
                        if watch.done():
                            raise KitError(f"a watch has ended: {watch.exception()!r}")
                    self._moved.clear()
                    await self._moved.wait()
        return true()

    @contextlib.asynccontextmanager
    async def watched(self, api: Api) -> AsyncIterator[None]:
        """Watch while the block lasts."""
        self._watches = [
            asyncio.create_task(self._follow(api, path, take)) for path, take in self._takes.items()
        ]
        for watch in self._watches:
            watch.add_done_callback(lambda _: self._moved.set())
        try:
            yield
        finally:
            for watch in self._watches:
                watch.cancel()
            await asyncio.gather(*self._watches, return_exceptions=True)

    async def _follow(self, api: Api, path: str, take: Take) -> None:
        found = await api.request("GET", path)
        for item in found["items"]:
            self._take(take, "ADDED", item)
        version = found["metadata"]["resourceVersion"]
        # While the API server loads a new kind, it may refuse a watch or end it. The next one
        # continues from the same version, so nothing is missed.
        while True:
            try:
                async for event in api.watch(path, version):
                    if event["type"] == "ERROR":
                        raise KitError(f"the watch of {path} failed: {event['object']}")
                    self._take(take, event["type"], event["object"])
                    version = event["object"]["metadata"]["resourceVersion"]
            except aiohttp.ClientError:
                await asyncio.sleep(0.1)

    def _take(self, take: Take, kind: str, raw: dict[str, Any]) -> None:
        take(kind, raw, time.monotonic())
        self._moved.set()
