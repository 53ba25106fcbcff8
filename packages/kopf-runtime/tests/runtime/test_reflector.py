"""Each kind and namespace is listed, watched, lost and found again by itself."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from aiohttp import web
from msgspec import Raw

import kopf_runtime as kr
from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring import errors
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.errors import ApiError
from kopf_runtime.declaring.kinds import CONFIG_MAP, Key
from kopf_runtime.watching import cache, listing, reflector
from kopf_runtime.watching.source import Source
from runtime import widgets
from runtime.support.api_server import ApiServer, Asked, RefusedError
from runtime.support.running import at_work, caches, connected, leading, operating
from runtime.support.waiting import until
from runtime.widgets import WIDGET, edit, ready, text, widget, working_on

LABEL = kr.Kind("example.dev", "v1", "labels", "Label")
KINDS = (WIDGET, LABEL)
A, B = ("a", "w-one"), ("b", "w-one")
BOTH = kr.Settings(namespaces=("a", "b"))
FORBIDDEN = RefusedError(403, "Forbidden", "no right in b")
GONE = RefusedError(404, "NotFound", "no such thing in b")
AWAY = RefusedError(503, "ServiceUnavailable", "b's shard is away", after=1)
EXPIRED = RefusedError(410, "Expired", "the continue token is too old")


def put_both(server: ApiServer) -> None:
    for namespace in ("a", "b"):
        server.put(WIDGET, widget(namespace=namespace))


# --- C2 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [FORBIDDEN, GONE, AWAY, EXPIRED], ids=lambda e: str(e.code))
@pytest.mark.parametrize("which", ["widgets", "configmaps", ".*"])
async def test_c2_a_namespace_that_cannot_be_listed_holds_up_no_other(
    server: ApiServer, error: RefusedError, which: str
) -> None:
    put_both(server)
    server.refuse("GET", f"/namespaces/b/{which}$", error, times=float("inf"))
    began = time.time()

    async with operating(server, one := widgets.controller(), settings=BOTH) as operator:
        assert caches(one).last_resync() == 0  # nothing is served yet
        await until(lambda: text(server, A) == "hello")
        await until(lambda: caches(one).unserved()[0] and caches(one).unserved()[1])

        assert caches(one).unserved()[1] == 1  # it is ready, for it serves what it can
        assert caches(one).last_resync() >= began  # or it would look as if resyncs failed
        why = {404: "install its CRD", 403: "no right to it: no right in b"}.get(error.code, ": ")
        assert any("/namespaces/b/" in told and why in told for told in caches(one).unserved()[0])
        labels = {
            "watched_namespace": "b",
            "resource": "configmaps" if which == "configmaps" else "widgets",
        }
        await until(lambda: operator.metric("unserved", **labels) == 1)
        assert server.get(CONFIG_MAP, B) is None

        server.answers.clear()  # and it comes back by itself
        await until(lambda: text(server, B) == "hello")
        await until(lambda: operator.metric("unserved", **labels) == 0)
        assert caches(one).unserved() == ([], 2)


async def test_c2_nothing_is_ready_before_each_namespace_was_tried(server: ApiServer) -> None:
    put_both(server)
    go_on = asyncio.Event()

    async def hang(request: web.Request) -> None:
        if "/namespaces/b/" in request.path:
            await go_on.wait()

    server.answers.append(hang)
    async with operating(server, one := widgets.controller(), settings=BOTH):
        await until(lambda: text(server, A))
        assert caches(one).unserved()[1] == 0

        go_on.set()
        await until(lambda: caches(one).unserved()[1] == 2)


# --- hot loops ----------------------------------------------------------------------------------


async def requests_of(server: ApiServer, pauses: float) -> int:
    """Return how many came in a multiple of the first pause; slower machines send fewer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(errors, "MIN_PAUSE_SECONDS", 0.04)
        async with operating(server, widgets.controller()):
            await asyncio.sleep(pauses * errors.MIN_PAUSE_SECONDS)
    return len(server.requests)


NO_LIST = ("", "{}", "[]", "null", '{"items": 5}', '{"metadata": {"resourceVersion": "x"}}', "<")
NO_EVENT = (
    "",
    "\n",
    "[]",
    '{"type":"ADDED"}',
    '{"type":"BOOKMARK","object":{}}',
    "<html>",
    '{"type":',
    '{"type":"ERROR","object":{"code":"x"}}',
    '{"type":"ERROR","object":{"code":410}}',
    '{"type":"ADDED","object":{}}',
    '{"type":"DELETED","object":{"metadata":{}}}',
)


@pytest.mark.parametrize(
    ("status", "body", "to_a_watch"),
    [
        *((code, "", False) for code in (400, 401, 403, 404, 410, 429, 500, 503)),
        *((200, body, False) for body in NO_LIST),
        *((200, line, True) for line in NO_EVENT),
    ],
)
async def test_m4_no_answer_makes_a_hot_loop_or_an_end(
    server: ApiServer, status: int, body: str, to_a_watch: bool
) -> None:
    async def answer(request: web.Request) -> web.Response | None:
        if to_a_watch and "watch" not in request.query:
            return None
        if status != 200:
            return RefusedError(status, "No").response()
        return web.Response(text=f"{body}\n" if body else "", content_type="application/json")

    server.answers.append(answer)

    # Two paths: after 0, 1, 3, 7 pauses.
    assert await requests_of(server, 7.5) <= (30 if to_a_watch else 12)


class _Nowhere:
    """A sink that keeps nothing."""

    def take(self, raw: Raw, at: int = 0, asked: float = 0.0) -> None:
        pass

    def gone(self, raw: Raw) -> None:
        pass

    def replace(self, seen: dict[Key, int], version: int, namespace: str | None) -> list[Key]:
        return []

    def reset(self, namespace: str | None) -> None:
        pass


async def test_a_watch_that_fails_as_the_operator_ends_does_not_outlive_it(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching, fails = asyncio.Event(), asyncio.Event()

    async def lines(path: str, _: dict[str, str]) -> AsyncIterator[bytes]:
        watching.set()
        await fails.wait()
        raise ApiError("GET", path, 0, "Lost", "the connection was lost")
        yield b""

    async with connected(server) as client:
        monkeypatch.setattr(client, "lines", lines)
        following = reflector.Reflector(
            client,
            Metrics("test"),
            _Nowhere(),
            reflector.Scope(WIDGET.path(), "widgets"),
            resync_period=300.0,
            changed=lambda _: None,
            stands_by=lambda: False,
        )
        task = asyncio.create_task(following.run())
        await watching.wait()

        fails.set()
        task.cancel()

        done, _ = await asyncio.wait({task}, timeout=60)
        task.cancel()
        assert done, "it has forgotten that it was cancelled"


async def test_resyncs_that_fail_are_told_though_watches_go_on(server: ApiServer) -> None:
    server.put(WIDGET, widget())
    refused: list[str] = []

    async def refuse_lists(request: web.Request) -> web.Response | None:
        if request.method != "GET" or request.query.get("watch"):
            return None
        refused.append(request.path)
        return RefusedError(429, "TooManyRequests").response()

    settings = kr.Settings(resync_period=0.2)
    async with operating(server, one := widgets.controller(), settings=settings) as operator:
        await until(lambda: operator.synced and server.watching == 2)
        server.answers.append(refuse_lists)
        await until(lambda: len(set(refused)) == 2)
        before, asked = caches(one).last_resync(), len(refused)
        await until(lambda: len(refused) > asked + 2)
        server.edit(WIDGET, ("ns", "one"), edit("seen by the watch"))

        await until(lambda: text(server) == "seen by the watch")
        assert caches(one).last_resync() == before
        assert caches(one).unserved()[0] == []


# --- watches and lists --------------------------------------------------------------------------


async def test_a_watch_that_ends_is_opened_again_where_it_was(server: ApiServer) -> None:
    async with working_on(server, widget(), widgets.controller()):
        await until(lambda: text(server))
        for number in range(3):
            await until(lambda: server.watching == 2)
            server.close_watches()
            server.edit(WIDGET, ("ns", "one"), edit(f"{number}"))
            await until(lambda n=number: text(server) == f"{n}")  # type: ignore[misc]

    lists = [
        request for request in server.requests if request.query.get("limit") == str(listing.PAGE)
    ]
    assert len(lists) == 2  # one for each kind


def pages(server: ApiServer) -> list[Asked]:
    return [
        request
        for request in server.requests
        if request.path.endswith("/widgets")
        and not request.query.get("watch")
        and request.query.get("limit") != "1"
    ]


async def test_minor_3_a_page_that_fails_is_asked_for_again_and_not_the_first(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "PAGE", 5)
    monkeypatch.setattr(errors, "MIN_PAUSE_SECONDS", 0.02)
    for number in range(15):
        server.put(WIDGET, widget(f"w{number}"))
    failures = 3

    async def fail(request: web.Request) -> web.Response | None:
        nonlocal failures
        if request.query.get("continue") == "5" and failures:
            failures -= 1
            return RefusedError(500, "InternalError").response()
        return None

    server.answers.append(fail)
    async with operating(server, widgets.controller()):
        await until(lambda: len(server.all(CONFIG_MAP)) == 15)

    asked = [page.query.get("continue") for page in pages(server)]
    assert asked == [None, "5", "5", "5", "5", "12"]


@pytest.mark.parametrize("which", ["the first page", "another page", "a resync"])
async def test_minor_3_a_list_waits_as_long_as_it_is_told(
    server: ApiServer, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "PAGE", 5)
    monkeypatch.setattr(errors, "MIN_PAUSE_SECONDS", 0.01)
    for number in range(7):
        server.put(WIDGET, widget(f"w{number}"))
    first = 0
    times: list[float] = []

    async def busy(request: web.Request) -> web.Response | None:
        nonlocal first
        if not request.path.endswith("/widgets") or request.query.get("limit") in (None, "1"):
            return None
        if ("continue" in request.query) != (which == "another page"):
            return None
        first += 1
        if which == "a resync" and first == 1:
            return None
        times.append(time.monotonic())
        busy = RefusedError(429, "TooManyRequests", "come back later", after=1)
        return busy.response() if len(times) == 1 else None

    server.answers.append(busy)
    settings = kr.Settings(resync_period=0.02)
    async with operating(server, widgets.controller(), settings=settings, working=False):
        await until(lambda: len(times) > 1)

    assert times[1] - times[0] >= 1


async def test_a_page_that_goes_on_failing_is_told_and_holds_up_no_other(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with one object that etcd, or the webhook that converts it, cannot give."""
    monkeypatch.setattr(listing, "PAGE", 5)
    monkeypatch.setattr(listing, "PAGE_ATTEMPTS_SECONDS", 0.1)
    put_both(server)
    for number in range(12):
        server.put(WIDGET, widget(f"w{number}", namespace="b"))

    async def fail(request: web.Request) -> web.Response | None:
        if "/namespaces/b/widgets" in request.path and request.query.get("continue") == "5":
            return RefusedError(500, "InternalError", "unable to decode w7").response()
        return None

    server.answers.append(fail)
    async with operating(server, one := widgets.controller(), settings=BOTH) as operator:
        await until(lambda: any("unable to decode w7" in why for why in caches(one).unserved()[0]))
        assert operator.metric("unserved", watched_namespace="b", resource="widgets") == 1
        await until(lambda: caches(one).unserved()[1] == 1 and text(server, A))

        server.answers.clear()
        await until(lambda: server.get(CONFIG_MAP, ("b", "w-w7")))


async def test_a_page_of_large_objects_is_given_up_for_a_smaller_one(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If large objects follow small ones, one page could use up all memory."""
    monkeypatch.setattr(listing, "PAGE", 40)
    monkeypatch.setattr(listing, "MOST_BYTES", 20_000)
    sizes: list[int] = []
    request = Client.request

    async def noting(self: Client, method: str, path: str, *args: Any, **options: Any) -> bytes:
        answer = await request(self, method, path, *args, **options)
        if path.endswith("/widgets") and "limit=1&" not in f"{options['query']}&":
            sizes.append(len(answer))
        return answer

    monkeypatch.setattr(Client, "request", noting)
    for number in range(60):
        server.put(WIDGET, widget(f"small-{number}"))
    for number in range(20):
        server.put(WIDGET, widget(f"tall-{number}", annotations={"a": "x" * 4_000}))
    server.put(WIDGET, widget("tallest", annotations={"a": "x" * 40_000}))

    async with operating(server, one := widgets.controller(), working=False) as operator:
        await until(lambda: operator.synced)

        assert len(caches(one).owners.cache) == 81
    assert len(sizes) > 5
    assert max(sizes) <= 20_000


@pytest.mark.parametrize("late", ["the first page", "another page"])
async def test_a_page_that_takes_too_long_is_asked_for_in_smaller_parts(
    server: ApiServer, late: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As over a slow link: the same page would come too late each time, and nothing be served."""
    monkeypatch.setattr(listing, "PAGE", 12)
    monkeypatch.setattr(errors, "MIN_PAUSE_SECONDS", 0.01)
    for number in range(40):
        server.put(WIDGET, widget(f"w{number}"))

    async def slow(request: web.Request) -> web.Response | None:
        large = request.path.endswith("/widgets") and int(request.query.get("limit", 0)) > 4
        if large and ("continue" in request.query) == (late == "another page"):
            await asyncio.sleep(1)
        return None

    server.answers.append(slow)
    async with operating(server, one := widgets.controller(), working=False) as operator:
        operator.client._timeout = 0.2
        await until(lambda: operator.synced)

        assert len(caches(one).owners.cache) == 40
    limits = [int(page.query["limit"]) for page in pages(server)]
    assert limits.count(12) <= 2  # and no more than were needed to see that it is too large


async def test_the_next_page_is_asked_for_before_the_last_one_is_stored(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 100,000 objects, the operator would otherwise wait half of the time."""
    monkeypatch.setattr(listing, "PAGE", 5)
    order: list[str] = []
    request, take = Client.request, Source.take

    async def asking(self: Client, method: str, path: str, *args: Any, **options: Any) -> bytes:
        if "continue" in options.get("query", ""):
            order.append("page")
        return await request(self, method, path, *args, **options)

    def taking(self: Source[Any], raw: Raw, at: int, asked: float) -> tuple[Key, int, bool] | None:
        order.append("object")
        return take(self, raw, at, asked)

    monkeypatch.setattr(Client, "request", asking)
    monkeypatch.setattr(Source, "take", taking)
    for number in range(15):
        server.put(WIDGET, widget(f"w{number}"))

    async with operating(server, widgets.controller(), working=False) as operator:
        await until(lambda: operator.synced)

    assert order == ["page", *["object"] * 5, "page", *["object"] * 10]


async def test_a_list_that_ends_early_leaves_no_request_behind(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restore of etcd, the first page shows that the list is of no use."""
    monkeypatch.setattr(listing, "PAGE", 5)
    request = Client.request
    under_way = 0

    async def hanging(self: Client, method: str, path: str, *args: Any, **options: Any) -> bytes:
        nonlocal under_way
        under_way += 1
        try:
            if "continue" in options["query"]:
                await asyncio.sleep(60)
            return await request(self, method, path, *args, **options)
        finally:
            under_way -= 1

    monkeypatch.setattr(Client, "request", hanging)
    for number in range(12):
        server.put(WIDGET, widget(f"w{number}"))

    async with connected(server) as client:
        lister = listing.Lister(client, WIDGET.path(None), "")
        async with contextlib.aclosing(lister.pages()) as pages:
            await anext(pages)
            await until(lambda: under_way == 1)

        assert under_way == 0


async def test_a_long_page_leaves_time_for_other_tasks(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resync's page has 500 objects: meanwhile an edit is waiting."""
    turns = 0
    taken: list[int] = []
    take = Source.take

    def taking(self: Source[Any], raw: Raw, at: int, asked: float) -> tuple[Key, int, bool] | None:
        taken.append(turns)
        return take(self, raw, at, asked)

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    monkeypatch.setattr(Source, "take", taking)
    for number in range(300):
        server.put(WIDGET, widget(f"w{number}"))
    task = asyncio.create_task(other())
    async with operating(server, widgets.controller()):
        await until(lambda: len(taken) >= 300)
    task.cancel()

    assert len(pages(server)) == 1
    assert max(Counter(taken[:300]).values()) <= 100


async def test_a_start_reconciles_each_object_once_new_ones_first(server: ApiServer) -> None:
    old = [f"old-{number}" for number in range(20)]
    for name in old:
        server.put(WIDGET, widget(name))
    async with operating(server, widgets.controller()):
        await until(lambda: all(ready(server.get(WIDGET, ("ns", name))) for name in old))
    server.put(WIDGET, widget("zz-new"))  # the last one of the list
    order: list[str] = []
    one = widgets.controller()

    @one.status
    def status(one: Any, seen: kr.Observed) -> kr.Status:
        order.append(one.metadata.name)
        return kr.default_status(seen)

    async with operating(server, one, settings=kr.Settings(workers=1)):
        await until(lambda: set(old) < set(order))
        await until(lambda: ready(server.get(WIDGET, ("ns", "zz-new"))))

    assert order[0] == "zz-new"
    assert sorted(name for name in order if name != "zz-new") == sorted(old)


async def test_a_missed_event_is_made_good_by_a_resync_and_counted(server: ApiServer) -> None:
    server.put(WIDGET, widget())
    async with operating(
        server, widgets.controller(), settings=kr.Settings(resync_period=0.3)
    ) as operator:
        await until(lambda: text(server) and server.watching == 2)
        server.mute = True
        server.edit(WIDGET, ("ns", "one"), edit("missed"))
        server.mute = False
        server.bookmark()  # the watch believes that it has seen it

        await until(lambda: text(server) == "missed")
        await until(lambda: operator.metric("resync_repairs_total", resource="widgets") == 1)


async def test_minor_10_changes_in_flight_are_no_repairs(server: ApiServer) -> None:
    for name in ("one", "short"):
        server.put(WIDGET, widget(name))
    asking: list[web.Request] = []  # the lists so far; only the last one may still be waiting
    allowed = 1

    async def one_by_one(request: web.Request) -> web.Response | None:
        if request.path.endswith("/widgets") and request.query.get("limit") == str(listing.PAGE):
            asking.append(request)
            number = len(asking)
            await until(lambda: number <= allowed or number < len(asking))
        return None

    server.answers.append(one_by_one)
    async with operating(
        server, one := widgets.controller(), settings=kr.Settings(resync_period=0.02), working=False
    ) as operator:
        await until(lambda: operator.synced and server.watching == 2 and len(asking) == 2)
        watches, server.watches, told = server.watches, {}, len(server.history)
        server.edit(WIDGET, ("ns", "one"), edit("edited"))
        server.put(WIDGET, widget("new"))
        server.remove(WIDGET, ("ns", "short"))
        allowed = 2
        await until(lambda: len(asking) == 3)  # a resync came before the events
        assert {record.key[1] for record in caches(one).owners.cache} == {"one", "new"}

        server.watches = watches
        server.put(WIDGET, widget("last"))
        for queue, select in watches.items():
            for change in server.history[told:-1]:
                if (line := select(change)) is not None:
                    queue.put_nowait(line)
        await until(lambda: caches(one).owners.cache.get(("ns", "last")))
        allowed = 3
        await until(lambda: len(asking) == 4)

        assert operator.metric("resync_repairs_total", resource="widgets") == 0


async def test_minor_1_a_standby_lists_rarely_and_writes_nothing_until_it_leads(
    server: ApiServer,
) -> None:
    settings = kr.Settings(resync_period=0.2)
    server.put(WIDGET, widget())
    async with operating(
        server, one := widgets.controller(), settings=settings, working=False
    ) as operator:
        await until(lambda: operator.synced)
        server.put(WIDGET, widget("two"))
        await until(lambda: len(caches(one).owners.cache) == 2)
        await asyncio.sleep(1)
        assert (len(at_work(one).queue), server.writes) == (0, [])
        assert len(pages(server)) == 1
        await until(lambda: len(pages(server)) == 2)  # after 12 periods

        async with leading(one):
            await asyncio.sleep(1)
    assert len(pages(server)) >= 4


async def test_d20_a_long_list_brings_back_nothing_that_is_gone(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page comes when the deletion is forgotten that happened meanwhile."""
    monkeypatch.setattr(cache, "LATE", 0.0)
    for name in ("one", "two", "three"):
        server.put(WIDGET, widget(name))
    lists = 0

    async def delay(request: web.Request) -> web.StreamResponse | None:
        nonlocal lists
        if request.path != WIDGET.path() or "watch" in request.query:
            return None
        lists += 1
        if lists != 1:
            await asyncio.sleep(0.1)  # which would find them gone
            return None
        page = await server._serve(request)
        server.put(WIDGET, widget("new"))  # which no page has
        await until(lambda: caches(one).owners.cache.get(("ns", "new")))
        for name in ("one", "two", "three", "new"):
            server.remove(WIDGET, ("ns", name))
            await until(lambda name=name: caches(one).owners.cache.get(("ns", name)) is None)  # type: ignore[misc]
        return page

    settings = kr.Settings(resync_period=0.2)
    async with operating(server, one := widgets.controller(), settings=settings):
        await until(lambda: all(ready(raw).get("status") == "True" for raw in server.all(WIDGET)))
        server.answers.append(delay)
        await until(lambda: lists == 2)

        assert list(caches(one).owners.cache) == []


async def test_d20_deletions_are_not_collected_after_a_list_that_failed(server: ApiServer) -> None:
    settings = kr.Settings(resync_period=0.1)
    async with operating(server, one := widgets.controller(), settings=settings):
        await until(lambda: server.watching == 2)
        refused = server.refuse("GET", "/widgets$", AWAY, times=float("inf"))
        await until(lambda: refused)
        (watched,) = caches(one).owners.reflectors.values()
        await until(lambda: watched._deleted is None, seconds=5)


# --- several kinds in one process -----------------------------------------------------------------


def labels() -> Controller:
    """Return the controller of a second kind, which also owns ConfigMaps."""

    def desired(label: widgets.Widget, _: object) -> Iterable[widgets.Raw]:
        yield widgets.manifest(
            CONFIG_MAP, f"l-{label.metadata.name}", data={"text": label.spec.text}
        )

    one = Controller(LABEL, widgets.Widget, lambda _: None)
    one.owns(CONFIG_MAP)
    one.desired(desired)
    return one


def is_ready(server: ApiServer, kind: kr.Kind) -> bool:
    return bool(ready(server.get(kind, ("ns", "one"))).get("status") == "True")


async def test_both_are_served_and_neither_touches_the_other_s_children(server: ApiServer) -> None:
    for kind in KINDS:
        server.put(kind, widget())
    async with operating(server, widgets.controller(), labels()):
        await until(lambda: is_ready(server, WIDGET) and is_ready(server, LABEL))
        before = len(server.writes)
        server.edit(CONFIG_MAP, ("ns", "l-one"), lambda raw: raw.update(data={"text": "altered"}))
        await until(lambda: text(server, ("ns", "l-one")) == "hello")

        assert server.writes[before:] == ["PATCH /api/v1/namespaces/ns/configmaps/l-one"]
    owners = [
        server.get(CONFIG_MAP, ("ns", name))["metadata"]["ownerReferences"][0]["kind"]  # type: ignore[index]
        for name in ("w-one", "l-one")
    ]
    assert owners == ["Widget", "Label"]


def test_d17_objects_that_cannot_be_read_are_counted_for_all_controllers() -> None:
    metrics = Metrics("tester")
    for count in (2, 0, 1):
        metrics.count_unreadable("pods", lambda count=count: count)  # type: ignore[misc]

    labels = {"resource": "pods"}
    assert metrics.registry.get_sample_value("tester_unreadable_objects", labels) == 3


async def test_c14_two_kinds_of_one_plural_are_told_apart_in_the_metrics() -> None:
    other = WIDGET._replace(group="example.com")
    asked = list[str]()

    async def fail(request: Any) -> Any:
        if request.method == "PATCH" and request.path.startswith(f"/apis/{other.group}/"):
            asked.append(request.path)
            return RefusedError(403, "Forbidden", "no").response()
        return None

    one, two = widgets.controller(), Controller(other, widgets.Widget, lambda _: None)
    two.desired(lambda *_: ())
    async with ApiServer(WIDGET, other).running() as server:
        server.put(WIDGET, widget())
        server.put(other, widget())
        server.answers.append(fail)
        async with operating(server, one, two) as operator:
            await until(lambda: is_ready(server, WIDGET) and len(asked) >= 3)
            assert operator.reconciles("requeue", of="widgets.example.com") >= 2
            assert not operator.reconciles("requeue")
            assert operator.metric("status_writes_refused_total", resource="widgets.example.com")
            assert not operator.metric("status_writes_refused_total", resource="widgets")
            depth = operator.metrics.registry.get_sample_value
            for queue in ("widgets", "widgets.example.com"):
                assert depth("workqueue_depth", {"name": queue}) == 0
