import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from yarl import URL

from message_operator import controller, messages, metrics, pods
from message_operator.controller import Controller
from message_operator.settings import Settings
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

    async def watch(self) -> None:
        """Begin to watch, as kopf does once it has listed."""

        async def answer(_: Any) -> Any:
            return SimpleNamespace(status=200, closed=False)

        for path in (messages.path("ns"), pods.path("ns")):
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
