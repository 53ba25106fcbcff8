"""A FlightTicket on a real control plane, with the real booking service.

A life is a FlightTicket that is created, booked, deleted and gone. Whatever fails in it, the
service has booked once and cancelled once. The tests without `long` are a quick choice of them:
kills after each write and in the middle of a call, a lost answer, and what the API server refuses.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from signal import Signals
from typing import Any

import pytest
from kopf_kit.testing import calls
from kopf_kit.testing.calls import Call, Forward
from kopf_kit.testing.conformance.every_write import FAULTS
from kopf_kit.testing.process import Operator
from kopf_kit.testing.requests import Raw, RefusedError
from kopf_kit.testing.under_test import Subject
from kopf_kit.testing.world import ELECT, World
from kopf_runtime.declaring.kinds import Kind

from booking.process import TOKEN, BookingService, booking_service
from flightticket_operator import operator


class FlightTickets(Subject):
    """The operator, whose objects have no children: no `Parent`."""

    program = ("-m", "flightticket_operator")
    manager = operator.manager
    creates = Kind("", "v1", "events", "Event")
    ready_reason = "Booked"

    def spec(self, text: str) -> Raw:
        return {"from": "Mumbai", "to": text, "number": 2}


SUBJECTS = (FlightTickets(),)
#: The writes of a life: the finalizer, the status, and that the finalizer is taken off.
WRITES = 3
CALLS = ("GET", "POST", "DELETE")
slow = pytest.mark.long


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[BookingService]:
    async with booking_service(tmp_path) as one:
        yield one


async def start(here: World, service: BookingService, *flags: str) -> Operator:
    return await here.start(
        f"--booking-url={service.url}",
        f"--booking-token-path={service.tokens}",
        "--booking-rate=1000",
        *flags,
    )


async def create(here: World, name: str = "hello", to: str = "London") -> str:
    """Create a FlightTicket; return its uid, the key of its booking."""
    uid: str = (await here.create(to, name))["metadata"]["uid"]
    return uid


async def gone(here: World, name: str = "hello") -> None:
    async with here.within(120, f"{name} is gone"):
        while await here.cluster.find(here.object(name)) is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def called(here: World, service: BookingService, method: str, times: int = 1) -> None:
    """Wait until the service got so many calls of a method."""
    async with here.within(60, f"{method} comes {times} times"):
        while (await service.calls()).count(method) < times:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def live(here: World, service: BookingService, name: str = "hello") -> None:
    """Create and delete a FlightTicket; check that it was booked once and cancelled once."""
    key = await create(here, name)
    await here.wait_until_ready(name)
    await here.delete(name)
    await gone(here, name)

    assert await service.events(key) == ["booked", "cancelled"], here.story("events")


@pytest.mark.parametrize(
    "number",
    [*range(1, WRITES + 1), *(pytest.param(WRITES + more, marks=slow) for more in (1, 2))],
)
async def test_killed_after_every_single_write(
    here: World, service: BookingService, number: int
) -> None:
    await start(here, service)

    async def crash(_: Call, forward: Forward) -> None:
        await forward()
        here.operator.send(Signals.SIGKILL)

    here.proxy.arm(calls.nth_write(number), crash, may_miss=number > WRITES)

    await live(here, service)


@pytest.mark.parametrize("method", [pytest.param("GET", marks=slow), "POST", "DELETE"])
async def test_killed_in_the_middle_of_every_call(
    here: World, service: BookingService, method: str
) -> None:
    """The service handles the call only after the operator that sent it has ended."""
    await start(here, service)
    await service.fail({"kind": "hold", "method": method, "times": 1})
    key = await create(here)
    if method == "DELETE":
        await here.wait_until_ready()
        await here.delete()
    await called(here, service, method)

    await here.restart()
    await service.fail()

    if method != "DELETE":
        await here.wait_until_ready()
        await here.delete()
    await gone(here)
    assert await service.events(key) == ["booked", "cancelled"]


@slow
async def test_a_fault_at_every_single_write(here: World, service: BookingService) -> None:
    await start(here, service, "--request-timeout=2")
    cases = {
        f"{fault}-{number}": (FAULTS[fault], number)
        for fault in FAULTS
        for number in range(1, WRITES + 1)
    }
    armed = [
        here.proxy.arm(calls.nth_write(number, name), fault)
        for name, (fault, number) in cases.items()
    ]

    await asyncio.gather(*(live(here, service, name) for name in cases))

    await here.met(*armed)
    assert here.operator.exits == [], here.story("it ended")


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "lose"},
        *(
            pytest.param({"kind": "answer", **answer}, marks=slow)
            for answer in (
                {"status": 500},
                {"status": 503, "headers": {"Retry-After": "1"}},
                {"status": 429, "headers": {"Retry-After": "1"}},
                {"status": 302, "headers": {"Location": "http://127.0.0.1:9/"}},
                {"status": 401},
                {"status": 404, "text": "default backend"},
            )
        ),
    ],
    ids=lambda fault: f"{fault['kind']}-{fault.get('status', '')}",
)
async def test_a_fault_at_every_single_call(
    here: World, service: BookingService, fault: dict[str, Any]
) -> None:
    await start(here, service)
    await service.fail(*({**fault, "method": method, "times": 1} for method in CALLS))

    await live(here, service)

    found = await service.calls()
    assert found.count("GET") > 1
    assert found.count("POST") == (1 if fault["kind"] == "lose" else 2)  # it is looked for first
    assert found.count("DELETE") > 1
    assert TOKEN not in here.operator.log.read_text(errors="replace")


@slow
async def test_the_leader_changes_in_the_middle_of_a_call(
    here: World, service: BookingService
) -> None:
    leader = await start(here, service, *ELECT)
    await service.fail({"kind": "hold", "method": "POST", "times": 1})
    key = await create(here)
    await called(here, service, "POST")
    here.frozen.add(leader)
    leader.send(Signals.SIGSTOP)

    await start(here, service, *ELECT)
    await here.wait_until_ready()
    leader.send(Signals.SIGCONT)
    await service.fail()
    await here.delete()
    await gone(here)

    assert await service.events(key) == ["booked", "cancelled"]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"number": 0}, "spec.number in body should be greater than or equal to 1"),
    ({"number": 11}, "spec.number in body should be less than or equal to 10"),
    ({"number": "2"}, 'spec.number in body must be of type integer: "string"'),
    ({"number": None}, "spec.number: Required value"),
    ({"from": None}, "spec.from: Required value"),
    ({"to": ""}, "spec.to in body should be at least 1 chars long"),
    ({"to": "Mumbai"}, "from and to are the same; name two cities"),
]


async def test_what_cannot_be_booked_is_refused_in_words(here: World) -> None:
    for spec, complaint in REFUSED:
        changed = SUBJECTS[0].spec("London") | spec
        wanted = {key: value for key, value in changed.items() if value is not None}
        await here.refused(wanted, complaint)


async def test_an_edit_is_refused_with_what_to_do_instead(here: World) -> None:
    await create(here)

    with pytest.raises(RefusedError) as refused:
        await here.edit("Paris")

    assert "a booking cannot be changed; delete the FlightTicket" in refused.value.message
