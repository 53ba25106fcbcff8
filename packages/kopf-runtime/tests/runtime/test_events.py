import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.reporting import events
from kopf_runtime.reporting.events import Recorder
from runtime.support.api_server import EVENT, ApiServer, RefusedError
from runtime.support.running import connected
from runtime.support.waiting import beside, until

ABOUT = {
    "apiVersion": "example.dev/v1",
    "kind": "Widget",
    "namespace": "ns",
    "name": "one",
    "uid": "uid-1",
    "resourceVersion": "7",
}


@asynccontextmanager
async def posting(server: ApiServer) -> AsyncIterator[Recorder]:
    async with connected(server) as client:
        recorder = Recorder(client, "replica-1", Metrics("tester"))
        async with beside(recorder.run()):
            yield recorder


def counted(server: ApiServer) -> list[Any]:
    return [(event["reason"], event["count"]) for event in server.events]


async def test_an_event_names_its_object_and_counts_up(server: ApiServer) -> None:
    async with posting(server) as recorder:
        for _ in range(3):
            recorder.warning(ABOUT, "Conflict", "taken")
        recorder.normal(ABOUT, "Created", "one")
        await recorder.flush()
        assert counted(server) == [("Conflict", 3), ("Created", 1)]
        warning, event = server.events
        assert (warning["type"], event["type"]) == ("Warning", "Normal")
        assert event["involvedObject"]["uid"] == ABOUT["uid"]
        assert event["reportingInstance"] == "replica-1"
        assert event["metadata"]["namespace"] == "ns"

        server.remove(EVENT, ("ns", event["metadata"]["name"]))  # somebody deletes it
        recorder.normal(ABOUT, "Created", "one")
        await recorder.flush()

    assert counted(server) == [("Conflict", 3), ("Created", 1)]


async def test_a_text_that_cannot_be_posted_holds_up_no_other(server: ApiServer) -> None:
    """As of an API outside the cluster, whose JSON may hold half a character."""
    async with posting(server) as recorder:
        recorder.warning(ABOUT, "SyncFailed", "half a character: \ud800")
        recorder.normal(ABOUT, "Created", "Created Pod w-one.")
        await recorder.flush()

    assert counted(server) == [("Created", 1)]


async def test_a_refused_event_is_dropped_and_the_next_one_posted(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.refuse("POST", "/events", RefusedError(403, "Forbidden"), times=2)
    server.refuse("POST", "/events", RefusedError(429, "TooManyRequests"))

    async with posting(server) as recorder:
        for number in range(3):
            recorder.normal(ABOUT, "Created", f"{number}")
        recorder.normal(ABOUT, "Replaced", "two")
        await recorder.flush()

    assert counted(server) == [("Replaced", 1)]
    dropped = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(dropped) == 2, "one warning for each HTTP status"
    assert "Forbidden" in dropped[0]
    assert "TooManyRequests" in dropped[1]


async def test_one_object_cannot_flood(server: ApiServer, caplog: pytest.LogCaptureFixture) -> None:
    async with posting(server) as recorder:
        for number in range(200):
            recorder.normal(ABOUT, "Healed", f"again {number}")
            recorder.normal({**ABOUT, "uid": "words"}, f"No{number}", "one")
        recorder.warning(ABOUT, "MemberLost", "routine does not use up what failures need")
        recorder.normal({**ABOUT, "uid": "another"}, "Created", "one")
        await recorder.flush()

    assert counted(server).count(("Healed", 1)) == events.BURST
    assert len(server.events) == 2 * events.BURST + events.REASONS + 2
    assert {("MemberLost", 1), ("Created", 1)} <= {*counted(server)}
    dropped = [record.message for record in caplog.records if "some are dropped" in record.message]
    assert len(dropped) == 2, "one line for each budget"
    assert "Healed" in dropped[0]


async def test_recording_never_waits_however_much_is_recorded(server: ApiServer) -> None:
    async with connected(server) as client:
        metrics = Metrics("tester")
        recorder = Recorder(client, "replica-1", metrics)  # and nobody posts

        for number in range(events.PENDING * 2):
            recorder.normal({**ABOUT, "uid": str(number)}, "Created", "one")

    dropped = metrics.registry.get_sample_value("tester_events_dropped_total")
    assert dropped == events.PENDING


@pytest.mark.parametrize("each", [1, 50], ids=["many namespaces", "many Events of one"])
async def test_namespaces_with_hanging_events_delay_no_other(server: ApiServer, each: int) -> None:
    free, _ = hanging(server)
    many = 1 if each > 1 else events.POSTING // 2
    async with posting(server) as recorder:
        delayed(recorder, many, each)
        recorder.normal(ABOUT, "Created", "one")
        await until(lambda: counted(server) == [("Created", 1)])

        free.set()
        await recorder.flush()

    in_order = [event["message"] for event in server.events if event["reason"] == "Delayed"]
    assert len(in_order) == 2 * each * many  # none was given up
    assert many > 1 or in_order == [text for _ in range(each) for text in ("one", "two")]


def hanging(server: ApiServer) -> tuple[asyncio.Event, list[str]]:
    """Let the Events of the namespaces `slow-…` hang; return what frees them, and their paths."""
    free, met = asyncio.Event(), list[str]()

    async def hang(request: web.Request) -> None:
        if request.method == "POST" and "/namespaces/slow-" in request.path:
            met.append(request.path)
            await free.wait()

    server.answers.append(hang)
    return free, met


def delayed(recorder: Recorder, namespaces: int, objects: int = 1) -> None:
    """Record two Events of each object in each of the namespaces `slow-…`."""
    for number in range(namespaces * objects):
        slow = {**ABOUT, "namespace": f"slow-{number // objects}", "uid": str(number)}
        recorder.normal(slow, "Delayed", "one")
        recorder.normal(slow, "Delayed", "two")


async def test_the_requests_that_hang_at_once_are_bounded(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "POSTING", 11)
    free, met = hanging(server)

    async with posting(server) as recorder:
        delayed(recorder, 22)
        await until(lambda: len(met) >= 11)
        await asyncio.sleep(0.2)
        assert len(met) == 11

        free.set()
        await recorder.flush()

    assert len(met) == 44


async def test_a_namespace_with_too_many_events_costs_the_others_none(server: ApiServer) -> None:
    async with connected(server) as client:
        recorder = Recorder(client, "replica-1", Metrics("tester"))  # and nobody posts yet
        for number in range(events.PENDING * 2):
            recorder.normal({**ABOUT, "namespace": "busy", "uid": str(number)}, "Many", "one")
        recorder.normal(ABOUT, "Created", "one")

        async with beside(recorder.run()):
            await recorder.flush()

    assert counted(server).count(("Created", 1)) == 1
    assert counted(server).count(("Many", 1)) == events.PENDING - 1


@pytest.mark.parametrize("name", ["a" * 150, "a" * 229 + "..b"])
async def test_long_names_still_make_names_of_events(server: ApiServer, name: str) -> None:
    async with posting(server) as recorder:
        recorder.normal({**ABOUT, "name": name}, "Created", "one")
        await recorder.flush()

    (event,) = server.events
    assert len(event["metadata"]["name"]) <= 253
    assert ".." not in event["metadata"]["name"]
