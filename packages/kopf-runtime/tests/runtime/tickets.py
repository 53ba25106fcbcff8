"""A kind that calls what is outside the cluster: a Ticket books seats, and gives them back.

`BookingService` is the service that it calls, in this process.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from aiohttp import web
from msgspec import Meta

import kopf_runtime as kr
from runtime.support.api_server import listening


class Spec(kr.Fields, frozen=True):
    """What is to be booked."""

    route: Annotated[str, Meta(min_length=1, max_length=100, description="From where to where.")]
    seats: Annotated[int, Meta(ge=1, le=10, description="How many seats.")] = 1


class Status(kr.Fields, frozen=True):
    """What the operator last observed."""

    booking: Annotated[str | None, Meta(description="The booking's number.")]


@kr.custom_resource("example.dev", "v1", "tickets", status=Status, ready="the seats are booked")
class Ticket(kr.Resource, kw_only=True):
    """A Ticket is a booking of seats."""

    spec: Spec


class Booking(msgspec.Struct, frozen=True):
    """What the booking service says of a Ticket."""

    number: str = ""
    #: Why it cannot be booked, empty if it is.
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(kr.Settings):
    """The operator's settings."""

    booking_url: str = kr.flag("http://booking", "where the booking service is", metavar="URL")

    def booking(self, ticket: Ticket) -> str:
        """Return the address of a Ticket's booking; the uid keeps it from being booked twice."""
        return f"{self.booking_url}/bookings/{ticket.metadata.uid}"


manager = kr.Manager("ticket-operator", Settings)
controller = manager.controller_for(Ticket)


@controller.sync(every=60, timeout=10)
async def book(ticket: Ticket, context: kr.CallContext[Settings]) -> Booking:
    """Bring the booking in line with the Ticket."""
    wanted = {"route": ticket.spec.route, "seats": ticket.spec.seats}
    async with context.session.put(context.settings.booking(ticket), json=wanted) as answer:
        if answer.status == 429:
            after = answer.headers.get("Retry-After", "")  # or a date
            seconds = float(after) if after.isdecimal() else 1.0
            raise kr.RetryError("The booking service is busy.", after=seconds)
        if 400 <= answer.status < 500:  # to try again would not help
            return Booking(problem=(await answer.text())[:200])
        answer.raise_for_status()
        return msgspec.json.decode(await answer.read(), type=Booking)


@controller.finalize(timeout=10)
async def cancel(ticket: Ticket, context: kr.CallContext[Settings]) -> None:
    """Give the seats back."""
    async with context.session.delete(context.settings.booking(ticket)) as answer:
        if answer.status != 404:  # cancelled before
            answer.raise_for_status()


@controller.status
def status(_: object, seen: kr.Observed) -> kr.Status:
    """Return how a Ticket fares."""
    booking: Booking | None = seen.sync_result
    if seen.trouble is not None or booking is None:
        return kr.default_status(seen)
    if booking.problem:
        return kr.Status(False, "Refused", booking.problem, Status(booking=None))
    return kr.Status(True, "Booked", "The seats are booked.", Status(booking=booking.number))


# --- the service ---------------------------------------------------------------------------------

#: Answers a request in the service's place; None leaves it to the service.
Mood = Callable[[web.Request], Awaitable[web.Response | None]]


async def well(_: web.Request) -> None:
    """Leave all to the service."""


async def hang(_: web.Request) -> None:
    """Answer never."""
    await asyncio.Event().wait()


def refuse(status: int, text: str = "", **headers: str) -> Mood:
    """Return what answers with this status."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, text=text, headers=headers)

    return answer


class BookingService:
    """Keeps one booking for each uid, however often it is asked for."""

    def __init__(self) -> None:
        self.url = ""
        self.mood: Mood = well
        self.calls: list[str] = []
        self.bookings: dict[str, dict[str, Any]] = {}
        #: Called for each request.
        self.asked: Callable[[str], object] = lambda _: None

    @asynccontextmanager
    async def running(self) -> AsyncIterator["BookingService"]:
        """Serve while the block lasts."""
        async with listening(self._answer) as self.url:
            yield self

    async def _answer(self, request: web.Request) -> web.Response:
        self.calls.append(request.method)
        self.asked(request.method)
        if (given := await self.mood(request)) is not None:
            return given
        uid = request.path.rpartition("/")[2]
        if request.method == "DELETE":
            return web.Response(status=204 if self.bookings.pop(uid, None) else 404)
        booking = self.bookings.setdefault(uid, {"number": f"B{len(self.bookings) + 1}"})
        booking["wanted"] = await request.json()
        return web.json_response({"number": booking["number"]})
