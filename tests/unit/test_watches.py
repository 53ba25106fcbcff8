from types import SimpleNamespace
from typing import Any

import pytest
from yarl import URL

from message_operator.watches import Watches

THINGS, OTHERS = "/apis/g/v1/things", "/api/v1/others"


class Server:
    """Answers at once, and knows the streams that it opened."""

    def __init__(self, watches: Watches) -> None:
        self.status = 200
        self.streams: list[SimpleNamespace] = []
        self._watches = watches

    async def get(self, path: str, **query: str) -> None:
        request: Any = SimpleNamespace(method="GET", url=URL("http://x").with_path(path) % query)
        await self._watches(request, self._answer)

    async def _answer(self, _: Any) -> Any:
        self.streams.append(SimpleNamespace(status=self.status, closed=False))
        return self.streams[-1]


@pytest.fixture
def watches() -> Watches:
    return Watches([THINGS, OTHERS])


async def test_a_watch_after_a_list_has_begun_anew(watches: Watches) -> None:
    server = Server(watches)
    await server.get(THINGS, limit="500")
    assert not await watches.begun(0)

    await server.get(THINGS, watch="true")

    assert await watches.begun(0)
    assert not await watches.begun(0)


async def test_a_watch_that_goes_on_where_it_was_is_no_news(watches: Watches) -> None:
    server = Server(watches)
    await server.get(THINGS)
    await server.get(THINGS, watch="true")
    await watches.begun(0)

    await server.get(THINGS, watch="true", resourceVersion="7")

    assert not await watches.begun(0)


async def test_what_else_is_asked_for_does_not_count(watches: Watches) -> None:
    await Server(watches).get("/api/v1/nodes", watch="true")

    assert not watches.complete


async def test_all_are_complete_once_each_was_watched(watches: Watches) -> None:
    server = Server(watches)
    await server.get(THINGS, watch="true")
    assert not watches.complete
    await server.get(OTHERS, watch="true")

    assert watches.complete
    watches.forget(OTHERS)
    assert not watches.complete


async def test_an_open_watch_is_not_silent_a_closed_one_is(
    watches: Watches, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    server = Server(watches)
    await server.get(THINGS, watch="true")
    await server.get(OTHERS, watch="true")

    now = 150.0
    assert watches.longest_silence()[0] == 0.0
    server.streams[0].closed = True
    now = 190.0

    assert watches.longest_silence() == (40.0, THINGS)


async def test_a_watch_that_is_refused_stays_silent(
    watches: Watches, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    server = Server(watches)
    server.status = 403
    await server.get(THINGS, watch="true")
    now = 130.0
    await server.get(THINGS, watch="true")

    assert watches.longest_silence() == (30.0, THINGS)
