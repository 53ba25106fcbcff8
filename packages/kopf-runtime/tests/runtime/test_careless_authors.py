"""What an author gets wrong is told, and costs no object its child, its retries or its turn."""

import asyncio
import json
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import kopf
import pytest
from aiohttp import web

import kopf_runtime as kr
from kopf_runtime.cluster import client as clients
from kopf_runtime.cluster import credentials
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.errors import DeclarationError
from kopf_runtime.declaring.kinds import CONFIG_MAP, NAMESPACE, POD, SECRET, Key
from kopf_runtime.declaring.objects import Resource
from kopf_runtime.declaring.records import Update
from runtime import widgets
from runtime.support.api_server import ApiServer, RefusedError
from runtime.support.running import NAME, Operator, build, connected, operating
from runtime.support.waiting import until
from runtime.widgets import WIDGET, Raw, Widget, edit, ready, widget

KEY, CHILD = ("ns", "one"), ("ns", "w-one")
#: A half of a character, which JSON may hold and UTF-8 may not.


def told(server: ApiServer) -> Any:
    return ready(server.get(WIDGET, KEY))


def is_ready(server: ApiServer) -> bool:
    return bool(told(server).get("status") == "True")


# --- declarations -------------------------------------------------------------------------------


@kr.custom_resource("example.dev", "v1", "gadgets")
class Gadget(kr.Resource):
    """A Gadget is what these declarations are about."""


async def test_c13_a_manager_without_a_controller_is_refused_in_words(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "find", lambda: kopf.ConnectionInfo(server=server.url))
    manager = kr.Manager("lonely-operator", kr.Settings)
    monkeypatch.setenv("LONELY_OPERATOR_METRICS_BIND_ADDRESS", "0")

    with pytest.raises(SystemExit, match="the manager has no controller; declare one with"):
        await manager._start(kopf.OperatorSettings())


def test_a_declaration_that_cannot_be_meant_is_refused_at_once() -> None:
    manager = kr.Manager("gadget-operator", kr.Settings)
    gadgets = manager.controller_for(Gadget)
    gadgets.owns(CONFIG_MAP)

    gadgets.gauge("size", "Its size.", lambda _: 1)
    with pytest.raises(ValueError, match="the gauge size is declared twice for Gadget"):
        gadgets.gauge("size", "Its size.", lambda _: 1)
    with pytest.raises(ValueError, match="'its-size' cannot name a metric: use a-z, 0-9 and _"):
        gadgets.gauge("its-size", "Its size.", lambda _: 1)

    for workers in (0, 1001, 1.5, True):
        with pytest.raises(ValueError, match=f"workers={workers}: use a whole number from 1 to"):
            manager.controller_for(Gadget, workers=workers)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="print must be a coroutine function: write `async def"):
        manager.task(print)  # type: ignore[type-var]
    with pytest.raises(TypeError, match="print must be a coroutine function: write `async def"):
        manager.adapt(print)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="ConfigMap is declared twice for Gadget"):
        gadgets.owns(CONFIG_MAP)
    with pytest.raises(TypeError, match=r"'Secret' is not a kr\.Kind; kr\.kinds has"):
        gadgets.owns("Secret")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"update='apply': use kr\.APPLY, kr\.RECREATE or"):
        gadgets.owns(SECRET, update="apply")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Secret is created once: leave out finished="):
        gadgets.owns(SECRET, update=kr.CREATE, finished=lambda _: "")
    with pytest.raises(TypeError, match=r"'Pod' is not a kr\.Kind"):
        gadgets.descendants("Pod", transform=lambda _: None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Namespace has no namespace: a Gadget, which has one, c"):
        gadgets.owns(NAMESPACE)


async def waits(*_: object) -> None: ...


async def yields(*_: object) -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize("name", ["desired", "status", "session"])
@pytest.mark.parametrize("function", [waits, yields])
def test_a_function_that_nobody_awaits_is_refused_at_once(name: str, function: Any) -> None:
    with pytest.raises(TypeError, match=f"{function.__name__} must not be a coroutine function"):
        getattr(Controller(WIDGET, Resource, None), name)(function)


@pytest.mark.parametrize(
    "register",
    [
        lambda one: one.desired(list),
        lambda one: one.status(list),
        lambda one: one.session(dict),
        lambda one: one.sync()(waits),
        lambda one: one.sync(waits),
        lambda one: one.finalize(waits),
        lambda one: one.check(every=1)(waits),
        lambda one: one.finalize()(waits),
        lambda one: one.desired(stepwise=True)(list),
    ],
)
def test_a_second_function_does_not_silently_take_the_place_of_the_first(register: Any) -> None:
    one = Controller(WIDGET, Resource, None)

    register(one)
    with pytest.raises(ValueError, match=r"\w+ is registered twice for Widget; do it once"):
        register(one)


async def test_an_operator_that_owns_and_plans_nothing_ends_at_once(server: ApiServer) -> None:
    forgotten = Controller(WIDGET, Resource, None)
    forgotten.owns(CONFIG_MAP)
    taken = Controller(WIDGET, Resource, None)
    taken.gauge("rest_client_requests", "Who leads.", lambda _: 1)

    async with connected(server) as client:
        metrics = Metrics(NAME)
        with pytest.raises(
            DeclarationError, match=r"another metric has the name rest_client_requests; cho"
        ):
            build(client, metrics, kr.Settings(), taken)
        with pytest.raises(DeclarationError, match="which objects of ConfigMap a Widget should"):
            build(client, metrics, kr.Settings(), forgotten)


@pytest.mark.parametrize(
    "limits", [{"backoff": (0, 1)}, {"backoff": (2, 1)}, {"backoff": (1, 601)}, {"rate": 0}]
)
def test_limits_that_cannot_be_meant_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="use "):
        Controller(WIDGET, Widget, None).limits(**limits)


def test_an_author_says_why_the_operator_is_not_ready() -> None:
    manager, why = kr.Manager("o", kr.Settings), ["the model is not loaded"]
    served: Any = SimpleNamespace(
        caches=SimpleNamespace(unserved=lambda: ((), True)),
        queue=SimpleNamespace(longest_running=lambda: 0.0),
    )
    manager.runtimes, manager._task = [served], cast("Any", SimpleNamespace(done=lambda: False))
    manager.ready(lambda: why[0])

    assert manager._ready() == "the model is not loaded"
    assert not manager._answers()  # what is asked where versions are converted
    why[0] = ""
    assert manager._ready() == ""
    why.clear()
    assert "failed: IndexError: list index out of range" in manager._ready()


async def test_a_controller_may_have_workers_of_its_own(server: ApiServer) -> None:
    running = most = 0

    async def slow(request: web.Request) -> web.Response | None:
        nonlocal running, most
        if request.method == "PATCH" and "configmaps" in request.path:
            most = max(most, running := running + 1)
            await asyncio.sleep(0.02)
            running -= 1
        return None

    server.answers.append(slow)
    one = Controller(WIDGET, Widget, None, workers=2)
    one.owns(CONFIG_MAP)
    one.desired(widgets.config_map)
    for number in range(8):
        server.put(WIDGET, widget(f"w{number}"))
    async with operating(server, one, settings=kr.Settings(workers=16)):
        await until(lambda: len(server.all(CONFIG_MAP)) == 8)
    assert most == 2


async def test_a_gauge_that_fails_for_an_object_costs_the_others_no_value(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    def size(owner: kr.Owner) -> float | None:
        return {"a": 1, "b": None}[owner.key[1]]

    one = widgets.controller()
    one.gauge("size", "Its size.", size)
    for name in ("a", "b", "c", "d"):
        server.put(WIDGET, widget(name))
    async with operating(server, one) as operator:
        await until(lambda: len(list(one.owners)) == 4)
        assert sizes(operator) == {"ns/a": 1.0}
        assert caplog.text.count("The gauge size failed for ns/c") == 1
        server.remove(WIDGET, ("ns", "a"))
        await until(lambda: len(list(one.owners)) == 3)
        assert sizes(operator) == {}


def test_f6_a_class_that_is_no_resource_and_an_after_of_no_child_are_refused() -> None:
    with pytest.raises(TypeError, match=r"write class Site\(kr.Resource\)"):
        kr.custom_resource("example.dev", "v1", "sites")(type("Site", (), {}))
    odd = Controller(WIDGET, Resource, None)
    odd.owns(CONFIG_MAP, after=(kr.kinds.SECRET,))
    odd.desired(widgets.config_map)
    with pytest.raises(DeclarationError, match="after= names Secret; declare it with owns"):
        odd.declaration.check_complete()


def test_f6_a_metric_has_the_name_that_its_author_gives_it() -> None:
    metrics = Metrics("site-operator")
    metrics.counter("site_visits", "Visits.")
    metrics.of_objects("site_up", "Whether it answers.", lambda: [(("ns", "a"), 1.0)])

    names = {family.name for family in metrics.registry.collect()}

    assert {"site_visits", "site_up", "site_operator_leader"} <= names


async def test_a_gauge_of_many_objects_leaves_time_for_other_tasks() -> None:
    metrics, turns = Metrics("test"), list[int]()

    def values() -> Iterator[tuple[Key, float]]:
        for number in range(2000):
            turns.append(turn)
            yield ("ns", f"w{number}"), number

    metrics.of_objects("test_size", "Its size.", values)
    turn, text = 0, asyncio.ensure_future(metrics.text())
    while not text.done():
        turn += 1
        await asyncio.sleep(0)

    assert max(Counter(turns).values()) <= 500
    lines = [line for line in text.result().decode().splitlines() if "test_size" in line]
    assert lines[:2] == ["# HELP test_size Its size.", "# TYPE test_size gauge"]
    assert lines[2:] == [f'test_size{{name="w{n}",namespace="ns"}} {n}.0' for n in range(2000)]


def sizes(operator: Operator) -> dict[str, float]:
    families = [m for m in operator.metrics.registry.collect() if m.name == "size"]
    samples = [sample for family in families for sample in family.samples]
    return {f"{s.labels['namespace']}/{s.labels['name']}": s.value for s in samples}


# --- status -------------------------------------------------------------------------------------


def careless(_: Any, seen: kr.Observed) -> kr.Status:
    """Forget that the child may not exist yet."""
    assert seen.child is not None
    return kr.Status(True, "Fine", "Fine.")


async def test_a_status_that_fails_does_not_hide_that_a_request_needs_time(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt would time out again, and the child would never be created."""
    monkeypatch.setattr(clients, "PATIENT", 30.0)

    async def slow(request: web.Request) -> web.Response | None:
        if request.method == "POST" and request.path.endswith("/pods"):
            await asyncio.sleep(0.6)
            if request.transport is None or request.transport.is_closing():  # given up
                return RefusedError(504, "Timeout").response()
        return None

    server.answers.append(slow)
    one = widgets.controller(widgets.pod)
    one.status(careless)
    server.put(WIDGET, widget())
    async with operating(server, one) as operator:
        operator.client._timeout = 0.3

        await until(lambda: server.get(POD, CHILD))
        await until(lambda: is_ready(server))


async def test_a_status_that_fails_does_not_hide_how_long_to_wait(server: ApiServer) -> None:
    busy = RefusedError(429, "TooManyRequests", "slow down", after=60)
    met = server.refuse("POST", "/pods$", busy, times=float("inf"))
    one = widgets.controller(widgets.pod)
    one.status(careless)
    server.put(WIDGET, widget())
    async with operating(server, one) as operator:
        await until(lambda: told(server).get("reason") == "TooManyRequests")
        await until(lambda: operator.reconciles("requeue"))
        for number in range(5):
            server.edit(WIDGET, KEY, edit(f"{number}"))
            await asyncio.sleep(0.05)

        assert len(met) == 1


# --- desired ------------------------------------------------------------------------------------


async def test_a_plan_that_differs_each_time_is_told(server: ApiServer) -> None:
    def by_chance(thing: Widget, _: object = None) -> Iterable[Raw]:
        for manifest in widgets.config_map(thing):
            yield {**manifest, "data": {"password": secrets.token_hex(8)}}

    server.put(WIDGET, widget())
    async with operating(server, widgets.controller(by_chance)):
        await until(lambda: is_ready(server))
        server.remove(CONFIG_MAP, CHILD)

        await until(lambda: told(server).get("reason") == "InvalidPlan")
    assert "has another ConfigMap w-one each time it is made" in told(server)["message"]


@pytest.mark.parametrize("update", [kr.APPLY, kr.RECREATE])
async def test_a_field_that_the_server_does_not_know_is_told_in_its_words(
    server: ApiServer, update: Update
) -> None:
    """The server would drop it, which looks as if somebody had taken it away again and again."""
    unknown = RefusedError(400, "BadRequest", 'strict decoding error: unknown field "data2"')

    async def decode(request: web.Request) -> web.Response | None:
        if request.method in ("POST", "PATCH") and "configmaps" in request.path:
            assert request.query["fieldValidation"] == "Strict"
            return unknown.response()
        return None

    server.answers.append(decode)
    server.put(WIDGET, widget())
    async with operating(server, widgets.controller(update=update)):
        await until(lambda: told(server).get("reason") == "BadRequest")

    assert told(server)["message"] == unknown.message


async def test_a_child_that_waits_hides_no_other_that_is_refused(server: ApiServer) -> None:
    """One Pod ends at once and is replaced more and more slowly; the other one is refused."""

    def two(thing: Widget, _: object = None) -> Iterable[Raw]:
        for name in ("a", "b"):
            for manifest in widgets.pod(thing):
                yield {**manifest, "metadata": {"name": f"{name}-one"}}

    def fail(raw: Raw) -> None:
        raw["status"] = {"phase": "Failed"}

    async def watched(request: web.Request) -> web.Response | None:
        if (first := server.get(POD, ("ns", "a-one"))) and not first.get("status"):
            server.edit(POD, ("ns", "a-one"), fail, "kubelet", "status")
        if request.method == "PATCH":
            reasons.append(ready(await request.json())["reason"])
        if request.method == "POST" and request.path.endswith("/pods"):
            made.append((await request.json())["metadata"]["name"])
            return quota.response() if made[-1] == "b-one" and full else None
        return None

    quota, full = RefusedError(403, "Forbidden", "exceeded quota"), True
    made: list[str] = []
    reasons: list[str] = []
    server.answers.append(watched)
    one = Controller(WIDGET, Widget, None)
    one.owns(
        POD,
        widgets.Pod,
        update=kr.RECREATE,
        transform=lambda thing: thing.status.phase,
        finished=lambda phase: phase if phase == "Failed" else "",
    )
    one.desired(two)
    server.put(WIDGET, widget())
    async with operating(server, one):
        await until(lambda: made.count("a-one") == 7)  # after a pause of a second
        assert set(reasons) == {"Forbidden"}
        full = False

        await until(lambda: server.get(POD, ("ns", "b-one")))
    assert any(event["message"] == "exceeded quota" for event in server.events)


# --- sync ---------------------------------------------------------------------------------------


def synced(calls: list[int], value: Any) -> Controller:
    """Return a controller whose `sync` returns, from the second generation on, what is given."""

    def desired(thing: Widget, context: kr.Context[Any]) -> Iterable[Raw]:
        for manifest in widgets.config_map(thing):
            yield {**manifest, "data": {"text": context.sync_result}}

    one = Controller(WIDGET, Widget, None)
    one.owns(CONFIG_MAP)
    one.desired(desired)

    @one.sync(every=300)
    async def sync(thing: Widget, _: object) -> Any:
        calls.append(thing.metadata.generation)
        return await value() if thing.metadata.generation == 2 else "fine"

    return one


async def test_an_outcome_that_no_request_can_carry_is_told(server: ApiServer) -> None:
    async def half() -> Any:
        return json.loads('"\\ud83d"')

    calls: list[int] = []
    server.put(WIDGET, widget())
    async with operating(server, synced(calls, half)):
        await until(lambda: is_ready(server))
        server.edit(WIDGET, KEY, edit("again"))

        await until(lambda: told(server).get("reason") == "InvalidPlan")
    assert "ConfigMap w-one is not JSON" in told(server)["message"]
    assert calls.count(2) == 1


@pytest.mark.parametrize("timeout", [0.1, 60.0], ids=["too long", "this replica stops"])
async def test_a_sync_that_catches_its_cancellation_holds_nobody_up(
    server: ApiServer, timeout: float, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """Who waited for it would keep the Lease, and the next leader would wait, too."""
    monkeypatch.setattr("kopf_runtime.working.ending.ENDING", 0.1)
    called, released = asyncio.Event(), asyncio.Event()
    one = widgets.controller()

    @one.sync(timeout=timeout)
    async def stubborn(*_: Any) -> None:
        called.set()
        while not released.is_set():
            with suppress(asyncio.CancelledError):
                await released.wait()

    server.put(WIDGET, widget())
    try:
        async with asyncio.timeout(10):
            async with operating(server, one):
                await called.wait()
                if timeout < 1:
                    await until(lambda: "no answer within" in told(server).get("message", ""))
    finally:
        released.set()
    assert "goes on though it was cancelled" in caplog.text


async def test_a_sync_that_awaits_what_was_cancelled_has_failed(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a token that all calls share, and whose renewal one of them has cancelled."""
    monkeypatch.setattr("kopf_runtime.working.external.MIN_PAUSE_SECONDS", 0.05)

    async def cancelled() -> Any:
        if calls.count(2) > 2:
            return "fine again"
        renewal = asyncio.ensure_future(asyncio.sleep(60))
        renewal.cancel()
        return await renewal

    calls: list[int] = []
    server.put(WIDGET, widget())
    async with operating(server, synced(calls, cancelled)):
        await until(lambda: is_ready(server))
        server.edit(WIDGET, KEY, edit("again"))

        await until(lambda: (server.get(CONFIG_MAP, CHILD) or {})["data"]["text"] == "fine again")
        await until(lambda: is_ready(server))
    assert any("awaited a task that was cancelled" in event["message"] for event in server.events)
