"""Answers the API server's reviews: conversions between the versions of a kind.

`web` serves it over HTTPS in every replica from its start, for it needs neither caches nor a Lease.
"""

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import Any

import msgspec
from aiohttp import web

from kopf_runtime.declaring.versions import ConversionError, Versions

logger = logging.getLogger(__name__)

#: Bytes of a review; the API server accepts objects of three megabytes.
MOST = 16 * 1024 * 1024
#: Reviews that are read and answered at once, the others wait; and seconds to receive one.
AT_ONCE, RECEIVE = 8, 10.0
#: Seconds of a review after which other tasks have a turn.
TURN = 0.01


class _Request(msgspec.Struct, rename={"desired": "desiredAPIVersion"}):
    uid: str
    desired: str
    objects: list[dict[str, Any]]


class _Review(msgspec.Struct, rename="camel"):
    """A ConversionReview of apiextensions.k8s.io/v1."""

    api_version: str
    request: _Request


class Reviews:
    """Converts objects of the kinds that have several versions."""

    def __init__(self, versions: Iterable[Versions]) -> None:
        self._versions = {(one.kind.group, one.kind.kind): one for one in versions}
        self._turns = asyncio.Semaphore(AT_ONCE)

    @property
    def routes(self) -> list[web.RouteDef]:
        """What is served; nothing if no kind has several versions."""
        return [web.post("/convert", self._convert)] if self._versions else []

    async def _convert(self, request: web.Request) -> web.Response:
        async with self._turns:
            try:
                async with asyncio.timeout(RECEIVE):
                    body = await request.read()
                review = msgspec.json.decode(body, type=_Review)
            except (msgspec.MsgspecError, UnicodeError, RecursionError, TimeoutError) as error:
                return web.Response(status=400, text=f"This is no ConversionReview: {error!r}")
            asked = review.request
            response: dict[str, Any] = {"uid": asked.uid}
            try:
                response["convertedObjects"] = await self._converted(asked)
                response["result"] = {"status": "Success"}
            except ConversionError as error:
                logger.warning("%s", error)
                response["result"] = {"status": "Failure", "message": str(error)}
        answer = {
            "apiVersion": review.api_version,
            "kind": "ConversionReview",
            "response": response,
        }
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

    async def _converted(self, asked: _Request) -> list[dict[str, Any]]:
        converted, since = [], time.monotonic()
        for raw in asked.objects:
            if time.monotonic() - since > TURN:
                await asyncio.sleep(0)
                since = time.monotonic()
            group = str(raw.get("apiVersion")).rpartition("/")[0]
            versions = self._versions.get((group, str(raw.get("kind"))))
            if versions is None:
                kind = f"{raw.get('apiVersion')} {raw.get('kind')}"
                raise ConversionError(f"{kind:.200} is no kind that this operator converts")
            converted.append(versions.convert(raw, asked.desired))
        return converted
