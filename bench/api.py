"""Requests to the API server, for the benchmark itself; used by all measurements."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp

NAMESPACE, NODE = "bench", "fake"
#: The operators' user: it has all rights, but the API server's priority of any service account.
OPERATOR = "operator"
MESSAGES = f"/apis/myorg.dev/v1/namespaces/{NAMESPACE}/messages"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
MERGE_PATCH = "application/merge-patch+json"
#: Simultaneous requests: enough not to be a bottleneck, too few to queue up in the API server.
WIDTH = 24
_TIMEOUT = aiohttp.ClientTimeout(total=60)
_WATCH = aiohttp.ClientTimeout(total=None, sock_connect=10)

T = TypeVar("T")


class RefusedError(Exception):
    """The API server refused a request."""


class Api:
    """One user's session with one API server."""

    def __init__(self, server: str, user: str = "admin", width: int = WIDTH) -> None:
        self._server, self._user, self._width = server, user, width
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        trust = ssl._create_unverified_context()  # noqa: S323 (its certificate is self-signed)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=trust, limit=0),
            headers={"Authorization": f"Bearer {self._user}", "User-Agent": f"bench-{self._user}"},
            read_bufsize=2**20,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def request(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> dict[str, Any]:
        """Send a request and return the object of its answer; raise `RefusedError`."""
        assert self._session is not None
        data = None if not body else json.dumps(body).encode()
        async with self._session.request(
            method,
            self._server + path,
            data=data,
            timeout=_TIMEOUT,
            headers={"Content-Type": content_type},
        ) as response:
            answer = await response.read()
            if response.status >= 400:
                raise RefusedError(f"{method} {path}: {response.status} {answer[:300].decode()}")
        found: dict[str, Any] = json.loads(answer)
        return found

    async def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send a merge patch."""
        return await self.request("PATCH", path, body, MERGE_PATCH)

    async def watch(self, path: str, version: str) -> AsyncIterator[dict[str, Any]]:
        """Yield each event after a resource version until the watch ends.

        Raise `aiohttp.ClientError` if the API server refuses the watch or cuts it off.
        """
        assert self._session is not None
        params = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "7200"}
        async with self._session.get(
            self._server + path, params=params, timeout=_WATCH
        ) as response:
            response.raise_for_status()
            async for line in response.content:
                yield json.loads(line)

    async def each(self, things: Iterable[T], do: Callable[[T], Awaitable[object]]) -> None:
        """Call a function for each thing, several at the same time."""
        left = iter(things)

        async def work() -> None:
            for thing in left:
                await do(thing)

        async with asyncio.TaskGroup() as group:
            for _ in range(self._width):
                group.create_task(work())


def message(name: str, text: str) -> dict[str, Any]:
    """Build a Message."""
    return {
        "apiVersion": "myorg.dev/v1",
        "kind": "Message",
        "metadata": {"name": name},
        "spec": {"text": text},
    }
