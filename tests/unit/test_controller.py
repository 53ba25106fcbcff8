import asyncio
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from yarl import URL

from message_operator import controller, messages, metrics, pods, watches
from message_operator.controller import Controller
from message_operator.kube import ApiError
from message_operator.settings import Settings
from message_operator.watches import UnwatchedError
from tests.unit.fake_api import FakeApi
from tests.unit.samples import message, raw_message, raw_pod

POD = "/api/v1/namespaces/ns/pods/msg-hello"
MESSAGE = "/apis/myorg.dev/v1/namespaces/ns/messages/hello"
SETTINGS = Settings(
    namespaces=("ns",),
    message_image="busybox:test",
    metrics_bind_address=None,
    health_probe_bind_address=None,
)


class StartedController(Controller):
    """A controller on a fake API server; the test plays kopf."""

    api: FakeApi
    streams: list[SimpleNamespace]

    def close_the_watches(self) -> None:
        """Close them, as a server does that goes on answering."""
        for stream in self.streams:
            stream.closed = True

    async def watch(self, *paths: str) -> None:
        """Begin to watch, as kopf does once it has listed; all, unless paths are given."""
        self.streams = []

        async def answer(_: Any) -> Any:
            self.streams.append(SimpleNamespace(status=200, closed=False))
            return self.streams[-1]

        for path in paths or (messages.path("ns"), pods.path("ns")):
            for query in ({"limit": "500"}, {"watch": "true"}):
                request: Any = SimpleNamespace(
                    method="GET", url=URL("http://x/prefix").joinpath(path[1:]) % query
                )
                await self._watches(request, answer)


@pytest.fixture
async def started(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[StartedController]:
    monkeypatch.setattr(controller, "Api", lambda _: FakeApi())
    monkeypatch.setattr(controller, "RETRY", 0.01)
    monkeypatch.setattr(metrics.REGISTRY, "register", lambda _: None)
    made = StartedController(SETTINGS)
    made._watches.prefix = "/prefix"
    await made.start()
    yield made
    await made.stop()


async def until_ready(started: Controller) -> None:
    async with asyncio.timeout(5):
        while started._ready():
            await asyncio.sleep(0.01)


async def test_it_does_nothing_before_everything_is_watched(started: StartedController) -> None:
    started.api.put(MESSAGE, raw_message())

    await asyncio.sleep(0.1)

    assert started._ready() == "the caches are not filled yet"
    assert started.api.writes == []


async def test_it_ends_if_what_is_there_is_not_watched(
    started: StartedController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "LATE", 0.05)
    assert started._task is not None
    started._task.remove_done_callback(controller._end_with)

    with pytest.raises(UnwatchedError):
        await asyncio.wait_for(started._task, 5)


async def test_it_waits_for_a_kind_that_is_not_there(
    started: StartedController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "LATE", 0.05)
    list_pages = started.api.pages

    def without_the_kind(path: str, *_: Any) -> Any:
        if path == messages.path("ns"):
            raise ApiError("GET", path, 404, "NotFound", "no")
        return list_pages(path)

    monkeypatch.setattr(started.api, "pages", without_the_kind)
    await started.watch(pods.path("ns"))
    await asyncio.sleep(0.2)
    assert started._ready() == "the caches are not filled yet"

    monkeypatch.setattr(started.api, "pages", list_pages)
    await started.watch(messages.path("ns"))

    await until_ready(started)


async def test_the_last_sweep_that_succeeded_can_be_watched(
    started: StartedController, monkeypatch: pytest.MonkeyPatch
) -> None:
    def last() -> float:
        return (
            metrics.REGISTRY.get_sample_value("message_operator_last_sweep_timestamp_seconds") or 0
        )

    metrics.LAST_SWEEP.set(0)
    await started.watch()
    await until_ready(started)
    first = last()

    async def refused(*_: Any, **__: Any) -> None:
        raise ApiError("GET", "/", 500, "InternalError", "no")

    monkeypatch.setattr(started, "_compare", refused)

    assert first > 0
    assert not await started._sweep(anew=False)
    assert last() == first


async def test_what_went_before_it_was_watched_is_not_remembered(
    started: StartedController,
) -> None:
    started.api.put(MESSAGE, raw_message())
    started.api.put(POD, raw_pod(message()))
    await asyncio.sleep(0.1)  # the first lists have both
    del started.api.objects[POD]

    await started.watch()

    await until_ready(started)
    async with asyncio.timeout(5):
        while POD not in started.api.objects:
            await asyncio.sleep(0.01)


async def test_a_watch_that_stays_down_while_the_server_answers_is_unhealthy(
    started: StartedController, monkeypatch: pytest.MonkeyPatch
) -> None:
    await started.watch()
    await until_ready(started)
    now = time.monotonic()
    started.close_the_watches()
    monkeypatch.setattr("time.monotonic", lambda: now + controller.DEAF + 1)
    started.api.answered = now + controller.DEAF

    assert "has been down for" in started._healthy()


async def test_an_api_server_that_is_away_makes_nobody_unhealthy(
    started: StartedController, monkeypatch: pytest.MonkeyPatch
) -> None:
    await started.watch()
    await until_ready(started)
    now = started.api.answered = time.monotonic()
    started.close_the_watches()
    monkeypatch.setattr("time.monotonic", lambda: now + controller.DEAF + 1)

    assert started._healthy() == ""


async def test_a_reconcile_that_never_ends_is_unhealthy(
    started: StartedController, monkeypatch: pytest.MonkeyPatch
) -> None:
    await started.watch()
    await until_ready(started)
    monkeypatch.setattr(started._queue, "longest_running", lambda: controller.STUCK + 1)

    assert "under way" in started._healthy()


async def test_kopf_lists_nothing_for_the_sweep_lists_all(started: StartedController) -> None:
    asked: list[URL] = []

    async def answer(request: Any) -> Any:
        asked.append(request.url)
        return SimpleNamespace(status=200, closed=False)

    url = URL(f"http://x/prefix{messages.path('ns')}?limit=500")
    request: Any = SimpleNamespace(method="GET", url=url)
    await started._watches(request, answer)

    assert dict(asked[0].query) == {"labelSelector": watches.NOTHING}
