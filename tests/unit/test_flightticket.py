"""The FlightTickets of examples/: one booking each, whatever befalls the calls that make it.

The booking service is the real one, a process with a database. examples/flightticket/tests/faults
has the operator on a real control plane.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from flightticket_operator import operator as flighttickets

from examples.flightticket.booking.process import TOKEN, BookingService, booking_service
from kopf_runtime.declaring.controller import Controller
from runtime.support.api_server import ApiServer
from runtime.support.running import operating
from runtime.support.waiting import in_virtual_time, now, until
from runtime.widgets import Raw, ready

FLIGHT_TICKET = flighttickets.controller.kind
KEY, FINALIZER = ("ns", "one"), "flights.com/message-operator"
GARBAGE, FOREVER = "<html>no JSON</html>", float("inf")


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(FLIGHT_TICKET).running() as one:
        yield one


@pytest.fixture
async def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[BookingService]:
    monkeypatch.setattr("kopf_runtime.working.external.MIN_PAUSE_SECONDS", 0.05)
    for pace in ("pace", "asking"):
        monkeypatch.setattr(flighttickets, pace, flighttickets.Pace())
    async with booking_service(tmp_path) as one:
        yield one


def controller(every: float = 60.0) -> Controller:
    """Return the example's controller, with another time between two looks."""
    one = Controller(FLIGHT_TICKET, flighttickets.FlightTicket, None)
    one.sync(every=every, timeout=60)(flighttickets.book)
    one.finalize(timeout=60)(flighttickets.cancel)
    one.status(flighttickets.status)
    return one


def settings(service: BookingService, token: Path | None = None) -> flighttickets.Settings:
    return flighttickets.Settings(
        booking_url=service.url,
        booking_token_path=str(token or service.tokens),
        booking_rate=1000,
    )


def ticket(name: str = "one", to: str = "London", **meta: Any) -> Raw:
    return {
        "metadata": {"namespace": "ns", "name": name, **meta},
        "spec": {"from": "Mumbai", "to": to, "number": 2},
    }


def uid(server: ApiServer, name: str = "one") -> str:
    found: str = (server.get(FLIGHT_TICKET, ("ns", name)) or {})["metadata"]["uid"]
    return found


def told(server: ApiServer, name: str = "one") -> Any:
    return ready(server.get(FLIGHT_TICKET, ("ns", name)))


async def until_reason(server: ApiServer, reason: str, name: str = "one") -> str:
    """Wait until a FlightTicket gives this reason; return what it says."""
    await until(lambda: told(server, name).get("reason") == reason, seconds=30)
    message: str = told(server, name)["message"]
    return message


async def until_it_is(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until what the service says holds."""
    async with asyncio.timeout(30):
        while not await condition():
            await asyncio.sleep(0.02)


# --- it books once ------------------------------------------------------------------------------


async def has_calls(service: BookingService, number: int) -> bool:
    return len(await service.calls()) >= number


async def test_a_refusal_stays_final_after_a_restart(
    server: ApiServer, service: BookingService
) -> None:
    server.put(FLIGHT_TICKET, ticket(to="Atlantis"))
    async with operating(server, controller(), settings=settings(service)):
        await until_reason(server, "Refused")
    async with operating(server, controller(every=0.1), settings=settings(service)):
        await until_it_is(lambda: has_calls(service, 5))

    assert (await service.calls()).count("POST") == 1
    assert told(server)["reason"] == "Refused"


async def test_a_refusal_that_somebody_writes_into_the_status_hides_no_booking(
    server: ApiServer, service: BookingService
) -> None:
    server.put(FLIGHT_TICKET, ticket())
    async with operating(server, controller(every=0.1), settings=settings(service)):
        await until_reason(server, "Booked")
        server.edit(FLIGHT_TICKET, KEY, lambda raw: raw["status"].update(refusal="not by us"))
        await service.cancel(uid(server))
        await until_reason(server, "Cancelled")

    assert (server.get(FLIGHT_TICKET, KEY) or {})["status"].get("refusal") is None


# --- what fails ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"status": 500}, "The booking service failed (500)."),
        ({"status": 503, "headers": {"Retry-After": "0"}}, "The booking service is busy."),
        ({"status": 429, "headers": {"Retry-After": "a date"}}, "The booking service is busy."),
        ({"status": 200, "text": GARBAGE}, "answer (200) makes no sense: "),
        ({"status": 200, "text": '[{"reference": 1}]'}, "answer (200) makes no sense: "),
        ({"status": 200, "text": "x" * 70000}, "more than 65536 bytes"),
        ({"status": 307, "headers": {"Location": "http://127.0.0.1:9/"}}, "--booking-url (307)"),
        ({"status": 404, "text": GARBAGE}, "--booking-url (404); correct it."),
        ({"status": 401}, "The booking service refuses the operator's token (401)."),
        ({"status": 400, "text": "no such parameter"}, "(400) makes no sense: no such parameter"),
    ],
    ids=lambda value: str(value.get("status")) if isinstance(value, dict) else "",
)
async def test_a_bad_answer_is_told_and_made_good_and_holds_up_no_other(
    server: ApiServer, service: BookingService, fault: dict[str, Any], message: str
) -> None:
    server.put(FLIGHT_TICKET, ticket())
    await service.fail({"kind": "answer", "key": uid(server), **fault})
    async with operating(server, controller(), settings=settings(service)):
        assert message in await until_reason(server, "SyncFailed")
        server.put(FLIGHT_TICKET, ticket("two"))
        await until_reason(server, "Booked", "two")
        await service.fail()
        await until_reason(server, "Booked")

    assert await service.events(uid(server)) == ["booked"]


async def test_a_pause_that_the_service_asks_for_holds_for_all(
    server: ApiServer, service: BookingService
) -> None:
    await service.fail({"kind": "answer", "status": 429, "headers": {"Retry-After": "600"}})
    server.put(FLIGHT_TICKET, ticket())
    async with operating(server, controller(), settings=settings(service)):
        assert await until_reason(server, "SyncFailed") == "The booking service is busy."
        await service.fail()
        server.put(FLIGHT_TICKET, ticket("two"))
        message = await until_reason(server, "SyncFailed", "two")

    assert message == "The booking service asked for a pause."
    assert await service.calls() == ["GET"]


@pytest.mark.parametrize("minutes", [0, 10])
@in_virtual_time
async def test_a_thousand_calls_keep_within_the_rate_also_after_a_quiet_time(minutes: int) -> None:
    pace, begun = flighttickets.Pace(), []

    async def call() -> None:
        await pace.turn(5)
        begun.append(now())

    await call()
    await asyncio.sleep(60 * minutes)
    start = now()
    await asyncio.gather(*(call() for _ in range(1000)))

    assert all(later - earlier >= 0.199 for earlier, later in itertools.pairwise(begun))
    assert begun[-1] - start == pytest.approx((999 if minutes else 1000) / 5)


@in_virtual_time
async def test_calls_wait_for_a_short_pause_even_if_they_waited_before() -> None:
    pace, begun = flighttickets.Pace(), []

    async def call() -> None:
        await pace.turn(5)
        begun.append(now())

    start = now()
    calls = asyncio.gather(*(call() for _ in range(3)))
    await asyncio.sleep(0.1)  # the first has begun, the others wait
    pace.pause(30)
    await calls

    assert [round(time - start, 1) for time in begun] == [0.0, 30.1, 30.3]


# --- its token ----------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [None, "", "two\nlines", "비밀"])
async def test_a_token_that_cannot_be_used_is_told(
    server: ApiServer, service: BookingService, tmp_path: Path, content: str | None
) -> None:
    token = tmp_path / "token"
    if content is not None:
        token.write_text(content)
    server.put(FLIGHT_TICKET, ticket())
    async with operating(server, controller(), settings=settings(service, token)):
        message = await until_reason(server, "SyncFailed")
        assert message == f"{token} must have the token in one line; correct its Secret."
        token.write_text(TOKEN)
        await until_reason(server, "Booked")
