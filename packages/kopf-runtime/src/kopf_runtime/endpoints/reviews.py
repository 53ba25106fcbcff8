"""Answers the API server's reviews: conversions between versions, and admission of writes.

`web` serves it over HTTPS in every replica from its start, for it needs neither caches nor a Lease.
Nobody has to log in for that, so a stranger may ask, too. What reviews take is bounded, and one
address takes at most half of it, so that it keeps nobody else waiting (see `room`). A review is
received first, at a minimum pace, and its time begins with its turn.
"""

import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar

import aiohttp
import msgspec
from aiohttp import web
from msgspec import Raw, Struct

from kopf_runtime.converting.versions import ConversionError, Versions
from kopf_runtime.endpoints.room import Room

logger = logging.getLogger(__name__)

#: Bytes of a review; the API server accepts objects of three megabytes.
MAX_REVIEW_BYTES = 16 * 1024 * 1024
#: Bytes of a review that needs no room of its own: the number of connections bounds these.
SMALL = 128 * 1024
#: Seconds of grace, and bytes a second, of those who send a review or receive an answer.
GRACE, PACE = 3.0, 2 * 1024 * 1024
#: Seconds to wait for room and a turn: an API server waits no longer for an answer.
WAIT = 30.0
#: Seconds of a conversion after which other tasks have a turn.
TURN = 0.01
#: Bytes that a value in JSON may take once it is parsed, and while only its place is known.
VALUE, PLACE = 160, 64
#: Bytes of what one review may have parsed, and values of one object.
PARSED, VALUES = 32 * 1024 * 1024, 60_000

T = TypeVar("T")


class RefusedError(Exception):
    """A review is not answered; the HTTP status and a message say why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Conversion(Struct, rename={"desired": "desiredAPIVersion"}):
    """The request of a ConversionReview."""

    uid: str
    desired: str
    objects: list[Raw]


class Admission(Struct, rename="camel"):
    """The request of an AdmissionReview."""

    class User(Struct, frozen=True):
        """Who asks."""

        username: str = ""
        groups: list[str] = []
        uid: str = ""
        extra: dict[str, list[str]] = {}

        @property
        def is_control_plane(self) -> bool:
            """Whether it is one of those that `EXEMPT` leaves out."""
            by_group = "system:serviceaccounts:kube-system" in self.groups
            return by_group or self.username.startswith("system:kube-")

    uid: str
    operation: str
    namespace: str = ""
    resource: dict[str, str] = {}
    sub_resource: str | None = None
    dry_run: bool = False
    user_info: User = User()
    object: Raw = Raw(b"null")
    old_object: Raw = Raw(b"null")


class _Review(Struct, Generic[T], rename="camel"):
    """A review of apiextensions.k8s.io/v1 or admission.k8s.io/v1."""

    api_version: str
    kind: str
    request: T


#: Answers a request, without its uid.
Answer = Callable[[Any], Awaitable[dict[str, Any]]]


class Reviews:
    """Converts objects of the kinds that have several versions, and asks the functions of paths."""

    def __init__(
        self, versions: Iterable[Versions], admit: Iterable[tuple[str, Answer]] = ()
    ) -> None:
        self._versions = {
            (converter.kind.group, converter.kind.kind): converter for converter in versions
        }
        self._admit = dict(admit)
        self._bodies, self._parsed = (Room(2 * each, each) for each in (MAX_REVIEW_BYTES, PARSED))
        #: An address has one conversion at a time, as that takes the processor.
        self._converting = Room(sys.maxsize, 1)

    @property
    def routes(self) -> list[web.RouteDef]:
        """The routes to serve; none if the operator has no webhooks."""
        admissions = [(path, _Review[Admission], answer) for path, answer in self._admit.items()]
        conversions = [("/convert", _Review[Conversion], self._convert)] if self._versions else []
        return [
            web.post(path, self._handler(msgspec.json.Decoder(type_), answer))
            for path, type_, answer in (*admissions, *conversions)
        ]

    def _handler(
        self, decoder: msgspec.json.Decoder[Any], answer: Answer
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        converts = answer == self._convert

        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                async with contextlib.AsyncExitStack() as held:
                    body = await self._received(request, held)
                    async with self._turn(request.remote or "", body, converts):
                        answered = await _answered(decoder.decode(body), answer)
                    del body  # while it is sent, only the answer takes memory
                    return await _send(request, answered)
            except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
                return web.Response(status=400, text=f"This is not a review: {error!r}")
            except RefusedError as error:
                return web.Response(status=error.status, text=str(error))

        return handle

    async def _received(self, request: web.Request, held: contextlib.AsyncExitStack) -> bytearray:
        """Receive a body, whose room is held; raise `RefusedError`."""
        length = request.content_length
        if length is None or "Content-Encoding" in request.headers:
            raise RefusedError(411, "Send a Content-Length, and no Content-Encoding.")
        if length > MAX_REVIEW_BYTES:
            raise RefusedError(413, f"A review has at most {MAX_REVIEW_BYTES} bytes.")
        if length > SMALL:
            await _waited(held, self._bodies.part(request.remote or "", length))
        try:
            return await _body(request.content)
        except TimeoutError:
            raise RefusedError(408, f"Send at least {PACE} bytes a second.") from None

    @contextlib.asynccontextmanager
    async def _turn(self, address: str, body: bytearray, converts: bool) -> AsyncIterator[None]:
        """Wait until a body may be parsed and answered; raise `RefusedError`."""
        value = PLACE if converts else VALUE
        size = value * values(body)
        if size > PARSED:
            raise RefusedError(413, f"This has too many values: {size // value}.")
        async with contextlib.AsyncExitStack() as held:
            if converts:
                await _waited(held, self._converting.part(address, 1))
            await _waited(held, self._parsed.part(address, size))
            yield

    async def _convert(self, conversion: Conversion) -> dict[str, Any]:
        try:
            converted = await self._converted(conversion)
        except ConversionError as error:
            logger.warning("%s", error)
            return {"result": {"status": "Failure", "message": str(error)}}
        return {"result": {"status": "Success"}, "convertedObjects": converted}

    async def _converted(self, conversion: Conversion) -> list[Raw]:
        converted, since = [], time.monotonic()
        for payload in conversion.objects:
            if time.monotonic() - since > TURN:
                await asyncio.sleep(0)
                since = time.monotonic()
            converted.append(self._one(payload, conversion.desired))
        return converted

    def _one(self, payload: Raw, desired: str) -> Raw:
        """Convert an object; no other one is in memory as Python objects meanwhile."""
        if (many := values(bytes(payload))) > VALUES:
            raise ConversionError(f"an object has {many} values, more than {VALUES}")
        raw = msgspec.json.decode(payload, type=dict[str, Any])
        group = str(raw.get("apiVersion")).rpartition("/")[0]
        versions = self._versions.get((group, str(raw.get("kind"))))
        if versions is None:
            kind = f"{raw.get('apiVersion')} {raw.get('kind')}"
            raise ConversionError(f"{kind:.200} is not a kind that this operator converts")
        return Raw(msgspec.json.encode(versions.convert(raw, desired)))


async def _body(content: aiohttp.StreamReader) -> bytearray:
    """Receive a body; raise `TimeoutError` if it comes too slowly."""
    loop, body = asyncio.get_running_loop(), bytearray()
    deadline = loop.time() + GRACE
    while True:
        try:
            async with asyncio.timeout_at(deadline):
                part = await content.readany()
        except TimeoutError:
            # Perhaps it was this process that was busy: look at what has come meanwhile.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            if not (part := content.read_nowait()) and not content.at_eof():
                raise
            deadline = loop.time() + GRACE
        if not part:
            return body
        body += part
        deadline += len(part) / PACE


async def _waited(held: contextlib.AsyncExitStack, part: AbstractAsyncContextManager[None]) -> None:
    """Hold a part of a room, once it is free; raise `RefusedError`."""
    try:
        async with asyncio.timeout(WAIT):
            await held.enter_async_context(part)
    except TimeoutError:
        raise RefusedError(503, f"There was no room for this in {WAIT:g} s.") from None


async def _answered(review: _Review[Any], answer: Answer) -> bytes:
    response = {"uid": review.request.uid, **await answer(review.request)}
    envelope = {"apiVersion": review.api_version, "kind": review.kind}
    return msgspec.json.encode({**envelope, "response": response})


async def _send(request: web.Request, body: bytes) -> web.StreamResponse:
    """Send an answer, which takes memory until it is received; give up on one who is slow."""
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    response = web.StreamResponse(headers=headers)
    try:
        async with asyncio.timeout(GRACE + len(body) / PACE):
            await response.prepare(request)
            for start in range(0, len(body), SMALL):
                await response.write(body[start : start + SMALL])
    except (TimeoutError, ConnectionError):
        if request.transport is not None:
            request.transport.abort()
    finally:
        del body  # an error keeps this frame until Python looks for cycles
    return response


def values(payload: bytes | bytearray) -> int:
    """Return how many values JSON has at most; commas within texts count, too."""
    return sum(map(payload.count, (b",", b"[", b"{"))) + 1
