"""Lists a path of the API server page by page, and retries a page that fails.

`reflector` uses it to fill a `Sink`, which is a cache.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Protocol
from urllib.parse import urlencode

import msgspec
from msgspec import Raw

from kopf_runtime.cluster.client import Client
from kopf_runtime.declaring.errors import ApiError, Backoff
from kopf_runtime.declaring.kinds import Key
from kopf_runtime.declaring.objects import Page, number, parse

#: Objects of the first page, as in client-go. For each page, the API server counts what is left, so
#: the next ones are larger, as long as they come in time.
PAGE, GROWTH = 500, 1.2
#: Target size of a page in bytes, and the most: a page of large objects could use up all memory, so
#: one with more is given up, and a smaller one is requested.
PAGE_BYTES, MOST_BYTES = 2_000_000, 8_000_000
#: Seconds for which a page that fails is asked for again before the list begins at the first one.
PAGE_ATTEMPTS_SECONDS = 60.0
#: HTTP statuses that mean that a path is not served: the namespace, the rights or the kind is gone.
LOST = (401, 403, 404)


class Sink(Protocol):
    """Stores the objects of one kind."""

    def take(self, raw: Raw, at: int = 0, asked: float = 0.0) -> tuple[Key, int, bool] | None:
        """Store an object; return key, version and whether it is new, or None if unreadable.

        `at` is the version of the list that it is from, and `asked` when that was asked for.
        """

    def gone(self, raw: Raw) -> tuple[Key, int] | None:
        """Remove a deleted object; return its key and version, or None if it is unreadable."""

    def replace(self, listed: dict[Key, int], version: int, namespace: str | None) -> list[Key]:
        """Remove objects that are missing from a full list; return their keys."""

    def reset(self, namespace: str | None) -> None:
        """Forget a namespace, or all if it is None, because its history has changed."""


class Lister:
    """Lists one path."""

    def __init__(self, client: Client, path: str, selector: str) -> None:
        self._client, self._path = client, path
        self.query = {"labelSelector": selector} if selector else {}
        self._limit = PAGE

    async def version(self) -> int:
        """Return the API server's current resource version; raise `ApiError`."""
        _, version, _ = await self._page({**self.query, "limit": "1"})
        return version

    async def pages(self) -> AsyncGenerator[tuple[Page, int], None]:
        """Yield the pages of a full list, each with the list's version; raise `ApiError`.

        While a page is in use, the next one is on its way. Close the generator after an error.
        """
        coming = asyncio.ensure_future(self._patiently(self.query))
        try:
            while True:
                page, version, size = await coming
                if more := page.metadata.continue_:
                    fits = max(1, len(page.items or ())) * PAGE_BYTES // size
                    self._limit = max(1, min(int(self._limit * GROWTH) + 1, fits))
                    query = {**self.query, "continue": more}
                    coming = asyncio.ensure_future(self._patiently(query))
                yield page, version
                if not more:
                    return
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)

    async def _patiently(self, query: dict[str, str]) -> tuple[Page, int, int]:
        """Return a page; ask again for one that fails, if it is not the first.

        A page that is too large, or does not come in time, is followed by smaller ones.
        """
        backoff, began = Backoff(), time.monotonic()
        while True:
            try:
                return await self._page({**query, "limit": str(self._limit)})
            except ApiError as error:
                too_large = error.reason == "TooLarge"
                if too_large or error.timed_out:
                    self._limit = max(1, self._limit // 4)
                if too_large:
                    continue
                late = time.monotonic() - began > PAGE_ATTEMPTS_SECONDS
                if late or "continue" not in query or error.status in (*LOST, 410):
                    raise
                await asyncio.sleep(max(error.after, backoff.next()))

    async def _page(self, query: dict[str, str]) -> tuple[Page, int, int]:
        """Return a page of a list, its version, and its size in bytes."""
        most = MOST_BYTES if query["limit"] != "1" else None  # one object may have any size
        payload = await self._client.request("GET", self._path, query=urlencode(query), most=most)
        try:
            page = parse(_PAGE, payload)
            return page, number(page.metadata.resource_version), len(payload)
        except (msgspec.MsgspecError, ValueError) as error:
            raise ApiError("GET", self._path, 0, "BadAnswer", str(error)) from error


_PAGE = msgspec.json.Decoder(Page)
