"""Answers the API server's reviews: conversions between versions, and admission of writes.

`web` serves it over HTTPS in every replica from its start, for it needs neither caches nor a Lease.
Nobody has to log in for that, so what the reviews take is bounded: a small one by the number of
connections, and large ones by being received one at a time. What a body becomes in Python is
estimated before it is parsed.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Generic, TypeVar

import msgspec
from aiohttp import web
from msgspec import Raw, Struct

from kopf_runtime.declaring.versions import ConversionError, Versions

logger = logging.getLogger(__name__)

#: Bytes of a review; the API server accepts objects of three megabytes.
MAX_REVIEW_BYTES = 16 * 1024 * 1024
#: Bytes of a review that is not large.
SMALL = 128 * 1024
#: Seconds to receive a review, and to wait until others need less memory.
RECEIVE = 10.0
#: Seconds of a review after which other tasks have a turn.
TURN = 0.01
#: Bytes that a value in JSON may take once it is parsed, and while only its place is known.
VALUE, PLACE = 200, 64
#: Bytes of what all reviews may have parsed, and values of one object.
PARSED, VALUES = 48 * 1024 * 1024, 60_000

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
        self._large = asyncio.Semaphore()
        self._parsed = 0
        self._freed = asyncio.Event()

    @property
    def routes(self) -> list[web.RouteDef]:
        """The routes to serve; none if the operator has no webhooks."""
        served = {path: (_Review[Admission], answer, VALUE) for path, answer in self._admit.items()}
        conversion: Any = (_Review[Conversion], self._convert, PLACE)
        served |= {"/convert": conversion} if self._versions else {}
        return [web.post(path, self._handler(*rest)) for path, rest in served.items()]

    def _handler(
        self, type_: Any, answer: Answer, value: int
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        decoder = msgspec.json.Decoder(type_)

        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                async with self._received(request, value) as body:
                    return await _send(request, await _answered(decoder.decode(body), answer))
            except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
                return web.Response(status=400, text=f"This is not a review: {error!r}")
            except RefusedError as error:
                return web.Response(status=error.status, text=str(error))

        return handle

    @contextlib.asynccontextmanager
    async def _received(self, request: web.Request, value: int) -> AsyncIterator[bytearray]:
        """Receive a body once there is room for it; raise `RefusedError`."""
        length = request.content_length
        if length is None or "Content-Encoding" in request.headers:
            raise RefusedError(411, "Send a Content-Length, and no Content-Encoding.")
        if length > MAX_REVIEW_BYTES:
            raise RefusedError(413, f"A review has at most {MAX_REVIEW_BYTES} bytes.")
        async with contextlib.AsyncExitStack() as held:
            try:
                async with asyncio.timeout(RECEIVE):
                    if length > SMALL:
                        await held.enter_async_context(self._large)
                    body = bytearray()
                    async for part in request.content.iter_any():
                        body += part
                    size = value * values(body)
                    if size > PARSED:
                        raise RefusedError(413, f"This has too many values: {size // value}.")
                    while self._parsed + size > PARSED:
                        self._freed.clear()
                        await self._freed.wait()
            except TimeoutError:
                raise RefusedError(503, f"There was no room for this in {RECEIVE:g} s.") from None
            self._parsed += size
            held.callback(self._free, size)
            yield body

    def _free(self, size: int) -> None:
        self._parsed -= size
        self._freed.set()

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
            if (many := values(bytes(payload))) > VALUES:
                raise ConversionError(f"an object has {many} values, more than {VALUES}")
            raw = msgspec.json.decode(payload, type=dict[str, Any])
            group = str(raw.get("apiVersion")).rpartition("/")[0]
            versions = self._versions.get((group, str(raw.get("kind"))))
            if versions is None:
                kind = f"{raw.get('apiVersion')} {raw.get('kind')}"
                raise ConversionError(f"{kind:.200} is not a kind that this operator converts")
            # Only one of them is in memory as Python objects.
            converted.append(Raw(msgspec.json.encode(versions.convert(raw, conversion.desired))))
        return converted


async def _answered(review: _Review[Any], answer: Answer) -> bytes:
    response = {"uid": review.request.uid, **await answer(review.request)}
    envelope = {"apiVersion": review.api_version, "kind": review.kind}
    return msgspec.json.encode({**envelope, "response": response})


async def _send(request: web.Request, body: bytes) -> web.StreamResponse:
    """Send an answer, which takes memory until it is received; give up on one who is slow."""
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    response = web.StreamResponse(headers=headers)
    try:
        async with asyncio.timeout(RECEIVE):
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
