"""Books a flight for every FlightTicket at a booking service, and cancels it with the FlightTicket.

README.md says what it promises. Each FlightTicket has at most one booking ever: the key of the
booking is the uid of the FlightTicket, the service is asked before anything is booked, and it takes
a repeated request for the one that it repeats.
"""

import argparse
import asyncio
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import aiohttp
import kopf_runtime as kr
import msgspec
from msgspec import Meta

from flightticket_operator import __version__

#: Seconds between two looks at a booking; that a call may take; that `sync` and `finalize` may
#: take, with the wait for their turns; and that they wait at most if the service asks for a pause.
POLL, PATIENCE, TIMEOUT, LONGEST_WAIT = 300.0, 10.0, 200.0, 60.0
#: Bytes that are read of an answer, and characters that are told of it.
MOST_READ, MOST_TOLD = 2**16, 200

T = TypeVar("T")
City = Annotated[str, Meta(min_length=1, max_length=100)]
Text = Annotated[str, Meta(max_length=MOST_TOLD)]


class Spec(kr.Fields, frozen=True, kw_only=True):
    """What is booked. It cannot be changed."""

    from_: City = msgspec.field(name="from")
    """Where to fly from."""
    to: City
    """Where to fly to."""
    number: Annotated[int, Meta(ge=1, le=10)]
    """How many seats."""


class Status(kr.Fields, frozen=True):
    """What the operator last observed."""

    booking: Text | None
    """The number of the booking."""
    refusal: Text | None
    """Why it is refused."""


@kr.custom_resource(
    "flights.com",
    "v1",
    "flighttickets",
    short_names=["ft"],
    status=Status,
    ready="the seats are booked",
    printer_columns=[
        kr.Column("From", ".spec.from"),
        kr.Column("To", ".spec.to"),
        kr.Column("Number", ".spec.number"),
        kr.Column("Booking", ".status.booking"),
        kr.READY,
        kr.REASON,
        kr.AGE,
    ],
    validations=[
        kr.ValidationRule(
            "self.spec.from != self.spec.to", "from and to are the same; name two cities", ".spec"
        ),
        kr.ValidationRule(
            "self.spec == oldSelf.spec",
            "a booking cannot be changed; delete the FlightTicket and create another one "
            "(kubectl replace --force does both)",
            ".spec",
        ),
    ],
)
class FlightTicket(kr.Resource, kw_only=True):
    """A FlightTicket is a booking of seats on a flight."""

    spec: Spec


def url(text: str) -> str:
    """Parse the address of the booking service."""
    if not re.fullmatch(r"https?://[A-Za-z0-9.:\[\]-]+(/[^\s?#]*)?", text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a valid address; use for example https://booking.example.com, "
            "without a user, a password or a query"
        )
    return text.rstrip("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(kr.Settings):
    """The operator's settings."""

    booking_url: str = kr.flag("http://booking", "where the booking service is", url, "URL")
    booking_token_path: str = kr.flag(
        "/etc/booking-token/token",
        "file with the token for it; read before each call",
        metavar="FILE",
    )
    booking_rate: float = kr.flag(
        "5", "calls to it in a second at most", kr.at_least(1, most=1000), "N"
    )


# --- the booking service ------------------------------------------------------------------------


class Booking(msgspec.Struct, frozen=True):
    """What the booking service says of a FlightTicket."""

    reference: Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]{1,40}$")]
    state: Literal["booked", "cancelled"]
    from_: str = msgspec.field(name="from", default="")
    to: str = ""
    number: int = 0


class Route(msgspec.Struct, frozen=True):
    """Whether there are flights between two cities, and else why not."""

    flown: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the booking service will never book for a FlightTicket."""

    text: str


class Pace:
    """Has all calls keep within a rate, and wait as long as the service asks for."""

    def __init__(self) -> None:
        self._line = asyncio.Lock()
        self._next = 0.0  # when the next call may begin

    async def turn(self, rate: float) -> None:
        """Wait until a call may begin; raise `RetryError` if that takes too long."""
        loop = asyncio.get_running_loop()
        async with self._line:
            while (wait := self._next - loop.time()) > 0:
                if wait > LONGEST_WAIT:
                    raise kr.RetryError("The booking service asked for a pause.", after=wait)
                await asyncio.sleep(wait)
            self._next = loop.time() + 1 / rate

    def pause(self, seconds: float) -> None:
        """Let no call begin for the given number of seconds."""
        self._next = max(self._next, asyncio.get_running_loop().time() + seconds)


pace = Pace()
#: That of the questions before a FlightTicket is stored: nobody who asks many holds up a booking.
asking = Pace()


@dataclass(frozen=True, slots=True)
class Service:
    """The API of the booking service, for one booking."""

    session: aiohttp.ClientSession
    settings: Settings
    key: str = ""

    async def find(self) -> Booking | None:
        """Return the booking, None if it was never made."""
        status, text = await self._ask("GET", "/bookings", params={"key": self.key})
        found = _decoded(status, text, list[Booking])
        return found[0] if found else None

    async def route(self, spec: Spec) -> Route:
        """Return whether it can be booked at all."""
        cities = {"from": spec.from_, "to": spec.to}
        status, text = await self._ask("GET", "/routes", asking, params=cities)
        return _decoded(status, text, Route)

    async def book(self, spec: Spec) -> Booking | Refusal:
        """Book; return a refusal of the service's, which a retry would not change."""
        headers = {"Idempotency-Key": self.key}
        wanted = {"from": spec.from_, "to": spec.to, "number": spec.number}
        status, text = await self._ask("POST", "/bookings", headers=headers, json=wanted)
        if 400 <= status < 500:
            return Refusal(text or f"The booking service answered {status}.")
        return _decoded(status, text, Booking)

    async def cancel(self) -> None:
        """Cancel the booking; the service books nothing for this key from now on."""
        status, text = await self._ask("DELETE", f"/bookings/{self.key}")
        if status >= 400:
            raise kr.RetryError(f"The booking service does not cancel it: {text or status}")

    async def _ask(
        self, method: str, path: str, turns: Pace | None = None, **options: Any
    ) -> tuple[int, str]:
        """Return the status and the text of an answer; raise `RetryError` where it is of no use.

        The text is what may be told: without the token, and short if it tells of a mistake.
        """
        turns = turns or pace
        await turns.turn(self.settings.booking_rate)
        token = _token(self.settings.booking_token_path)
        headers = {"Authorization": f"Bearer {token}", **options.pop("headers", {})}
        try:
            async with self.session.request(
                method,
                self.settings.booking_url + path,
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=PATIENCE),
                **options,
            ) as answer:
                text = " ".join((await _read(answer)).replace(token, "***").split())
        except TimeoutError:
            problem = f"The booking service did not answer within {PATIENCE:g} s."
        except aiohttp.ClientError as error:
            problem = f"The booking service cannot be asked: {kr.describe_error(error)}"
            problem = problem.replace(token, "***")
        else:
            problem = _problem(answer, turns)
            if not problem:
                return answer.status, text if answer.status < 400 else text[:MOST_TOLD]
        raise kr.RetryError(problem)


async def _read(answer: aiohttp.ClientResponse) -> str:
    """Return the text of an answer; raise `RetryError` if it does not end."""
    read = b""
    async for chunk in answer.content.iter_any():
        read += chunk
        if len(read) > MOST_READ:
            raise kr.RetryError(f"The booking service answered with more than {MOST_READ} bytes.")
    return read.decode(errors="replace")


def _problem(answer: aiohttp.ClientResponse, turns: Pace) -> str:
    """Return why an answer is none, empty if it is one; raise `RetryError` if it asks for a pause.

    The address in a redirect is not followed: it would get the token, and the seats.
    """
    after = answer.headers.get("Retry-After", "")  # or a date
    if answer.status in (429, 503) and (after.isdecimal() or answer.status == 429):
        seconds = min(float(after), 600.0) if after.isdecimal() else 1.0
        turns.pause(seconds)
        raise kr.RetryError("The booking service is busy.", after=seconds)
    if answer.status in (401, 403):
        return f"The booking service refuses the operator's token ({answer.status})."
    if 300 <= answer.status < 400 or answer.status in (404, 405):
        return f"There are no bookings at --booking-url ({answer.status}); correct it."
    if answer.status >= 500 or answer.status in (408, 425):
        return f"The booking service failed ({answer.status})."
    return ""


def _decoded(status: int, text: str, type_: type[T]) -> T:
    """Return what an answer says; raise `RetryError` if it makes no sense."""
    try:
        if status < 300:
            return msgspec.json.decode(text, type=type_)
    except msgspec.MsgspecError as error:
        text = str(error)
    text = f"The booking service's answer ({status}) makes no sense: {text}"
    raise kr.RetryError(text[:MOST_TOLD])


def _token(path: str) -> str:
    """Return the token; its Secret may be changed while the operator runs."""
    try:
        token = Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeError):
        token = ""
    if not token or not token.isprintable():
        raise kr.RetryError(f"{path} must have the token in one line; correct its Secret.")
    return token


# --- the operator -------------------------------------------------------------------------------

manager = kr.Manager("flightticket-operator", Settings, version=__version__)
controller = manager.controller_for(FlightTicket)


@controller.validate(operations=("create",), failure_policy="ignore", timeout=3)
async def known_route(ticket: FlightTicket, context: kr.ReviewContext[Settings]) -> None:
    """Refuse a route that nobody flies, which CEL cannot check; raise if the service is down."""
    route = await Service(context.session, context.settings).route(ticket.spec)
    if not route.flown:
        raise kr.Denied(route.why[:MOST_TOLD] or "Nobody flies there; name two other cities.")


@controller.sync(every=POLL, timeout=TIMEOUT)
async def book(ticket: FlightTicket, context: kr.CallContext[Settings]) -> Booking | Refusal:
    """Look for the booking, and make it only if it was never made."""
    service = Service(context.session, context.settings, ticket.metadata.uid)
    if booking := await service.find():
        return booking
    if refusal := ticket.status.get("refusal"):  # it is final
        return Refusal(str(refusal))
    if known := ticket.status.get("booking"):  # it was booked: booking again could book twice
        return Booking(reference=str(known), state="cancelled")
    return await service.book(ticket.spec)


@controller.finalize(timeout=TIMEOUT)
async def cancel(ticket: FlightTicket, context: kr.CallContext[Settings]) -> None:
    """Cancel the booking; the service cancels one only once, however often it is asked."""
    await Service(context.session, context.settings, ticket.metadata.uid).cancel()


@controller.status
def status(ticket: FlightTicket, seen: kr.Observed) -> kr.Status:
    """Return how a FlightTicket fares."""
    booking: Booking | Refusal | None = seen.sync_result
    if booking is None:
        return kr.default_status(seen)
    if isinstance(booking, Refusal):
        told = Status(booking=None, refusal=booking.text)
        return kr.Status(False, "Refused", booking.text, told)
    spec = ticket.spec
    told = Status(booking=booking.reference, refusal=None)
    if booking.state == "cancelled":
        text = f"The booking {booking.reference} was cancelled outside of the cluster."
        return kr.Status(False, "Cancelled", text, told)
    if (booking.from_, booking.to, booking.number) != (spec.from_, spec.to, spec.number):
        text = f"{booking.number} from {booking.from_} to {booking.to}"[:MOST_TOLD]
        text = f"The booking {booking.reference} was changed outside of the cluster: {text}"
        return kr.Status(False, "Changed", text, told)
    return kr.Status(True, "Booked", f"The seats are booked: {booking.reference}.", told)
