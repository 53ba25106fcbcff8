"""What becomes of the watches that kopf keeps open: seen from the session that they share with us.

``kube`` puts it on the session; ``controller`` asks whether the watches live, and compares its
caches with the API server whenever one began anew: what was there before that, no event tells.
Knows nothing of what is watched.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterable

import aiohttp

from message_operator import metrics

#: Selects nothing.
NOTHING = "nothing,!nothing"
#: Seconds that kopf has to watch what is there: it takes one or two.
LATE = 15.0


class UnwatchedError(Exception):
    """Something is there, and kopf does not watch it: it looked before the kind came.

    The process ends: its supervisor starts it afresh, and kopf looks again.
    """


class Watches:
    """aiohttp middleware that keeps an account of the watches on some paths.

    kopf lists before it watches, and starts a task for each object of the list. The controller
    lists right after that, for only a full list tells what is gone. So kopf's list selects
    nothing: it gives the resource version to watch from, and no object is read twice.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(paths)
        self._listed: set[str] = set()  # paths that were listed since their last watch
        self._streams: dict[str, aiohttp.ClientResponse] = {}
        self._alive: dict[str, float] = {}  # when a path's watch was last seen to live
        self._expected: dict[str, float] = {}  # since when a path is known to be there
        #: What stands before each path, where an API server is behind another's address.
        self.prefix = ""
        self._anew = asyncio.Event()

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Pass the request on, and note what it is."""
        path = request.url.path.removeprefix(self.prefix)
        if request.method != "GET" or path not in self._paths:
            return await handler(request)
        if "watch" not in request.url.query:
            self._listed.add(path)
            request.url = request.url.with_query(labelSelector=NOTHING)
            return await handler(request)
        if path in self._alive:
            metrics.WATCH_RESTARTS.labels(path.rpartition("/")[2]).inc()
        self._alive.setdefault(path, time.monotonic())
        if path in self._listed:
            self._listed.discard(path)
            self._anew.set()
        response = await handler(request)
        if response.status == 200:
            self._streams[path] = response
            self._alive[path] = time.monotonic()
        return response

    async def begun(self, patience: float) -> bool:
        """Wait until a watch begins after a new list; False if none did in so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._anew.wait()
        anew = self._anew.is_set()
        self._anew.clear()
        return anew

    def expect(self, path: str) -> None:
        """Take in that the path is there; raises ``UnwatchedError`` if it long was, unwatched."""
        now = time.monotonic()
        since = self._expected.setdefault(path, now)
        if path not in self._alive and now - since > LATE:
            raise UnwatchedError(f"{path} has been there for {now - since:.0f} s, but not watched")

    def forget(self, path: str) -> None:
        """Take in that there is nothing to watch at the path any more."""
        self._expected.pop(path, None)
        self._alive.pop(path, None)
        self._streams.pop(path, None)

    @property
    def complete(self) -> bool:
        """Whether each path has been watched."""
        return len(self._alive) == len(self._paths)

    def longest_silence(self) -> tuple[float, str]:
        """Tell for how many seconds which watch has not been open; 0 if all are."""
        now = time.monotonic()
        for path, stream in self._streams.items():
            if not stream.closed:
                self._alive[path] = now
        return max(((now - at, path) for path, at in self._alive.items()), default=(0.0, ""))
