import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from message_operator import events
from message_operator.events import Recorder
from tests.unit.fake_api import FakeApi
from tests.unit.samples import message

ABOUT = message().reference


@asynccontextmanager
async def posting(api: FakeApi) -> AsyncIterator[Recorder]:
    recorder = Recorder(api, "replica-1")
    task = asyncio.create_task(recorder.run())
    try:
        yield recorder
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def posted(api: FakeApi) -> list[dict[str, Any]]:
    return [raw for path, raw in api.objects.items() if "/events/" in path]


async def test_an_event_names_its_object_and_who_tells() -> None:
    api = FakeApi()

    async with posting(api) as recorder:
        recorder.normal(ABOUT, "Created", "Created Pod msg-hello.")
        await recorder.flush()

    (event,) = posted(api)
    assert event["involvedObject"]["uid"] == ABOUT["uid"]
    assert (event["type"], event["reason"], event["count"]) == ("Normal", "Created", 1)
    assert event["reportingInstance"] == "replica-1"
    assert event["metadata"]["namespace"] == "ns"


async def test_the_same_again_counts_up_the_first() -> None:
    api = FakeApi()

    async with posting(api) as recorder:
        for _ in range(3):
            recorder.warning(ABOUT, "Conflict", "taken")
        await recorder.flush()

    (event,) = posted(api)
    assert event["count"] == 3


async def test_another_event_is_posted_beside_it() -> None:
    api = FakeApi()

    async with posting(api) as recorder:
        recorder.normal(ABOUT, "Created", "one")
        recorder.normal(ABOUT, "Replaced", "two")
        await recorder.flush()

    assert [event["reason"] for event in posted(api)] == ["Created", "Replaced"]


async def test_an_event_that_somebody_deleted_is_posted_anew() -> None:
    api = FakeApi()

    async with posting(api) as recorder:
        recorder.normal(ABOUT, "Created", "one")
        await recorder.flush()
        api.objects.clear()
        recorder.normal(ABOUT, "Created", "one")
        await recorder.flush()

    assert [event["count"] for event in posted(api)] == [1]


async def test_a_refused_event_is_dropped_and_the_next_one_posted() -> None:
    api = FakeApi()
    api.refuse("POST", 403, "Forbidden")

    async with posting(api) as recorder:
        recorder.normal(ABOUT, "Created", "one")
        recorder.normal(ABOUT, "Replaced", "two")
        await recorder.flush()

    assert [event["reason"] for event in posted(api)] == ["Replaced"]


async def test_one_object_cannot_flood() -> None:
    api = FakeApi()

    async with posting(api) as recorder:
        for number in range(200):
            recorder.normal(ABOUT, "Healed", f"again {number}")
        await recorder.flush()

    assert len(posted(api)) == events.BURST


async def test_recording_never_waits_however_much_is_recorded() -> None:
    recorder = Recorder(FakeApi(), "replica-1")  # and nobody posts

    for number in range(events.PENDING * 2):
        recorder.normal({**ABOUT, "uid": str(number)}, "Created", "one")


@pytest.mark.parametrize("name", ["a" * 150, "a" * 229 + "..b"])
async def test_long_names_still_make_names_of_events(name: str) -> None:
    api = FakeApi()

    async with posting(api) as recorder:
        recorder.normal({**ABOUT, "name": name}, "Created", "one")
        await recorder.flush()

    (event,) = posted(api)
    assert len(event["metadata"]["name"]) <= 253
    assert ".." not in event["metadata"]["name"]
