"""Namespaces that gain or lose the selector's labels come and go without a restart."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from aiohttp import web

import kopf_runtime as kr
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.kinds import CONFIG_MAP, NAMESPACE, Key
from kopf_runtime.watching.cache import Cache
from kopf_runtime.working.queue import WorkQueue
from runtime import widgets
from runtime.support.api_server import ApiServer, RefusedError
from runtime.support.running import Operator, caches, operating
from runtime.support.waiting import until
from runtime.widgets import WIDGET, Raw, Widget, edit, ready, widget

SETTINGS = kr.Settings(namespace_selector="team=a")
QUIET = 0.3  # seconds in which an operator that wrongly acts would have acted


def selecting(
    server: ApiServer, one: Controller | None = None, **options: Any
) -> AbstractAsyncContextManager[Operator]:
    return operating(server, one or widgets.controller(), settings=SETTINGS, **options)


def put_namespace(server: ApiServer, name: str, **labels: str) -> None:
    server.put(NAMESPACE, {"metadata": {"name": name, "labels": labels}})


def label(server: ApiServer, name: str, **labels: str) -> None:
    server.edit(NAMESPACE, ("", name), lambda raw: raw["metadata"].update(labels=labels))


def child(server: ApiServer, namespace: str) -> Raw | None:
    return server.get(CONFIG_MAP, (namespace, "w-one"))


def is_ready(server: ApiServer, namespace: str, text: str = "hello") -> bool:
    raw = server.get(WIDGET, (namespace, "one"))
    made = child(server, namespace)
    return bool(made and made["data"]["text"] == text and ready(raw).get("status") == "True")


def unreadable(name: str = "one", namespace: str = "ns") -> Raw:
    return widget(name, namespace) | {"spec": {"text": 7}}


def reason_in(server: ApiServer, namespace: str) -> Any:
    return ready(server.get(WIDGET, (namespace, "one"))).get("reason")


def nothing(*_: object) -> Iterable[Raw]:
    return ()


def writes_in(server: ApiServer, namespace: str) -> list[str]:
    return [
        str(request)
        for request in server.requests
        if request.method != "GET" and f"/namespaces/{namespace}/" in request.path
    ]


async def test_only_namespaces_with_the_labels_are_served(server: ApiServer) -> None:
    for namespace, team in (("ours", "a"), ("theirs", "b"), ("nobodys", "")):
        put_namespace(server, namespace, **({"team": team} if team else {}))
        server.put(WIDGET, widget(namespace=namespace))

    async with selecting(server) as operator:
        await until(lambda: is_ready(server, "ours"))
        server.edit(WIDGET, ("theirs", "one"), edit("changed"))
        await asyncio.sleep(QUIET)
        # To try what the fence stops would be to try it for good.
        assert operator.reconciles("requeue") == 0

    assert not writes_in(server, "theirs")
    assert not writes_in(server, "nobodys")


async def test_a_namespace_that_loses_the_label_is_left_as_it_is(server: ApiServer) -> None:
    one = widgets.controller()
    put_namespace(server, "ours", team="a")
    server.put(WIDGET, widget(namespace="ours"))

    async with selecting(server, one):
        await until(lambda: is_ready(server, "ours") and server.events)
        label(server, "ours", team="b")
        await until(lambda: not caches(one).keys())
        before = writes_in(server, "ours")
        server.edit(WIDGET, ("ours", "one"), edit("changed"))
        server.put(WIDGET, widget("two", "ours"))
        await asyncio.sleep(QUIET)

        assert writes_in(server, "ours") == before
        assert (child(server, "ours") or {})["data"]["text"] == "hello"

        label(server, "ours", team="a")  # what was missed is made good
        await until(lambda: is_ready(server, "ours", "changed"))
        await until(lambda: server.get(CONFIG_MAP, ("ours", "w-two")))


def holding(server: ApiServer, method: str, path: str) -> tuple[asyncio.Event, asyncio.Event]:
    """Hold the answer to the first such request; return what tells of it, and what lets it go."""
    asked, released = asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request) -> None:
        if request.method == method and request.path.endswith(path) and not asked.is_set():
            asked.set()
            await released.wait()

    server.answers.append(answer)
    return asked, released


async def test_nothing_more_is_written_once_the_label_is_gone(server: ApiServer) -> None:
    """A reconcile that is under way in that moment does not finish its work."""
    one = widgets.controller()
    put_namespace(server, "ours", team="a")
    server.put(WIDGET, widget(namespace="ours"))
    asked, released = holding(server, "PATCH", "/namespaces/ours/configmaps/w-one")

    async with selecting(server, one):
        await asked.wait()
        label(server, "ours")
        await until(lambda: not caches(one).keys())
        await asyncio.sleep(QUIET)
        sent = writes_in(server, "ours")
        released.set()  # what was sent before is done
        await asyncio.sleep(QUIET)

    assert writes_in(server, "ours") == sent  # no status, no Event


async def test_nothing_is_written_outside_once_the_label_is_gone(server: ApiServer) -> None:
    one, began, gone = widgets.controller(nothing), asyncio.Event(), asyncio.Event()

    @one.sync()
    async def sync(_: Widget, context: kr.CallContext[Any]) -> None:
        began.set()
        await gone.wait()
        async with context.session.post(f"{server.url}/outside") as answer:
            answer.raise_for_status()

    put_namespace(server, "ours", team="a")
    server.put(WIDGET, widget(namespace="ours"))
    async with selecting(server, one):
        await began.wait()
        label(server, "ours")
        await until(lambda: not caches(one).keys())
        gone.set()
        await asyncio.sleep(QUIET)

    assert not [asked for asked in server.requests if asked.path == "/outside"]
    assert not writes_in(server, "ours")


@pytest.mark.parametrize("gap", [False, True], ids=["watched", "in a gap of the watch"])
async def test_the_outside_is_asked_once_the_label_is_back(server: ApiServer, gap: bool) -> None:
    """The label, or the namespace itself, may have gone and come back meanwhile."""
    one, calls = widgets.controller(nothing), list[str]()

    @one.sync()
    async def sync(thing: Widget, *_: object) -> None:
        calls.append(thing.metadata.namespace)

    for namespace in ("ours", "others"):
        put_namespace(server, namespace, team="a")
        server.put(WIDGET, widget(namespace=namespace))
    async with selecting(server, one):
        await until(lambda: sorted(calls) == ["others", "ours"])
        server.mute = gap
        label(server, "ours")
        if not gap:
            await until(lambda: len(caches(one).keys()) == 1)
        label(server, "ours", team="a")
        server.mute = False
        if gap:
            server.refuse("GET", "/namespaces$", RefusedError(410, "Expired"))
            server.close_watches()
        await until(lambda: calls[2:])
        await asyncio.sleep(QUIET)

    assert calls[2:] == ["ours"]


async def test_what_cannot_be_read_is_counted_and_told_only_where_it_is_served(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    put_namespace(server, "ours")
    server.put(WIDGET, unreadable(namespace="ours"))

    async with selecting(server) as operator:
        await until(lambda: operator.synced)
        await asyncio.sleep(QUIET)
        assert operator.metric("unreadable_objects", resource="widgets") == 0
        assert not writes_in(server, "ours")
        assert "cannot be read" not in caplog.text

        label(server, "ours", team="a")
        await until(lambda: operator.metric("unreadable_objects", resource="widgets") == 1)
        await until(lambda: reason_in(server, "ours") == "Unreadable")
    assert caplog.text.count("cannot be read") == 1


async def test_what_is_in_no_selected_namespace_is_neither_queued_nor_counted(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    added: list[Key] = []
    add = WorkQueue.add

    def watched(queue: WorkQueue, key: Key, **how: bool) -> None:
        added.append(key)
        add(queue, key, **how)

    monkeypatch.setattr(WorkQueue, "add", watched)
    put_namespace(server, "ours", team="a")
    put_namespace(server, "theirs")
    server.put(WIDGET, widget("early", "theirs"))
    one = widgets.controller()
    async with selecting(server, one) as operator:
        await until(lambda: operator.synced)
        server.put(WIDGET, widget(namespace="theirs"))
        server.edit(WIDGET, ("theirs", "one"), edit("changed"))
        server.remove(WIDGET, ("theirs", "one"))
        server.put(WIDGET, unreadable("broken", "theirs"))
        server.put(WIDGET, widget(namespace="ours"))  # is told after the others
        await until(lambda: is_ready(server, "ours"))
        foreign = child(server, "ours") or {}
        foreign["metadata"]["namespace"] = "theirs"
        server.put(CONFIG_MAP, foreign)
        await asyncio.sleep(QUIET)
        assert set(added) == {("ours", "one")}

        label(server, "ours")
        await until(lambda: not caches(one).keys())
        await asyncio.sleep(QUIET)
        added.clear()
        server.edit(WIDGET, ("ours", "one"), edit("changed"))
        await asyncio.sleep(QUIET)
        assert added == []


async def test_namespaces_that_come_cost_only_what_is_in_them(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"ns-{number}" for number in range(40)]
    for name in names:
        put_namespace(server, name)
        server.put(WIDGET, widget(namespace=name))
    looked_at: list[object] = []
    within = Cache.within

    def watched(cache: Cache[Any], namespace: str | None) -> Iterator[Any]:
        for record in within(cache, namespace):
            looked_at.append(record)
            yield record

    async with selecting(server, widgets.controller(nothing)) as operator:
        await until(lambda: operator.synced)
        monkeypatch.setattr(Cache, "within", watched)
        for name in names:
            label(server, name, team="a")
        await until(lambda: all(ready(server.get(WIDGET, (name, "one"))) for name in names))

    assert 0 < len(looked_at) < 10 * len(names)


async def test_no_namespace_at_all_is_no_trouble(server: ApiServer) -> None:
    one = widgets.controller()
    async with selecting(server, one) as operator:
        await until(lambda: operator.synced)

        assert caches(one).unserved() == ([], 1)


async def test_many_namespaces_cost_no_more_watches_than_one(server: ApiServer) -> None:
    for number in range(200):
        put_namespace(server, f"ns-{number}", team="a")
        server.put(WIDGET, widget(namespace=f"ns-{number}"))

    one = widgets.controller()
    async with selecting(server, one, working=False) as operator:
        await until(lambda: operator.synced and len(caches(one).keys()) == 200)
        await until(lambda: server.watching == 3)  # Widgets, ConfigMaps, Namespaces
