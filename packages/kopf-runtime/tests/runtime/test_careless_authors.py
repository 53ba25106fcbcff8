"""What an author gets wrong is told, and costs no object its child, its retries or its turn."""

import asyncio
import datetime
import gc
import json
import secrets
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import kopf
import pytest
from aiohttp import web
from kopf._core.engines.posting import settings_var

import kopf_runtime as kr
from kopf_runtime.cluster import client as clients
from kopf_runtime.cluster import credentials
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.errors import DeclarationError, PlanError
from kopf_runtime.declaring.kinds import CONFIG_MAP, NAMESPACE, POD, SECRET, Key, Kind
from kopf_runtime.declaring.objects import ObjectMeta, Resource
from kopf_runtime.declaring.records import Owned, Update, Wanted
from kopf_runtime.working.templates import KEPT, Marks, Templates, _encoded
from runtime import widgets
from runtime.support.api_server import ApiServer, RefusedError
from runtime.support.running import NAME, Operator, at_work, build, caches, connected, operating
from runtime.support.waiting import until
from runtime.widgets import (
    WIDGET,
    Raw,
    Widget,
    edit,
    is_ready,
    owning,
    readiness,
    ready,
    reconciled,
    widget,
    working_on,
)

KEY, CHILD = ("ns", "one"), ("ns", "w-one")
#: A half of a character, which JSON may hold and UTF-8 may not.


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


class Service(kr.Object):
    status: dict[str, Any] = {}  # noqa: RUF012


async def waits(*_: object) -> None: ...


async def yields(*_: object) -> AsyncIterator[None]:
    yield


def accepts(_: Any, __: Any) -> None: ...


MANAGER: Any = kr.Manager("gadget-operator", kr.Settings)


def of_others(type_: Any = Service, **how: Any) -> Any:
    """Declare a controller of a kind that others define."""
    return MANAGER.controller_for(kr.kinds.SERVICE, type_, **how)


def ordered(one: Controller, **after: tuple[Kind, ...]) -> None:
    """Have kinds come after others."""
    for name, kinds in after.items():
        one.owns({"configs": CONFIG_MAP, "secrets": SECRET}[name], after=kinds)
    one.desired(widgets.config_map)
    one.declaration.check_complete()


RETAINED: Any = {"deletion_policy": kr.RETAIN, "update": kr.RECREATE}
#: What cannot be meant, and what is said of it.
REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda c: [c.gauge("size", "", len) for _ in "ab"], "the gauge size is declared twice for Wi"),
    (lambda c: c.gauge("its-size", "", len), "'its-size' cannot name a metric: use a-z, 0-9 and _"),
    *(
        (lambda _, n=n: MANAGER.controller_for(Gadget, workers=n), f"workers={n}: use a whole num")
        for n in (0, 1001, 1.5, True)
    ),
    (lambda _: MANAGER.task(print), "print must be a coroutine function: write `async def"),
    (lambda _: MANAGER.adapt(print), "print must be a coroutine function: write `async def"),
    (lambda _: kr.custom_resource("a.b", "v1", "as")(type("A", (), {})), r"class A\(kr.Resource\)"),
    *((lambda c, b=b: c.limits(backoff=b), "use ") for b in ((0, 1), (2, 1), (1, 601))),
    (lambda c: c.limits(rate=0), "use "),
    # children
    (lambda c: [c.owns(CONFIG_MAP) for _ in "ab"], "ConfigMap is declared twice for Widget"),
    (lambda c: c.owns("Secret"), r"'Secret' is not a kr\.Kind; kr\.kinds has"),
    (lambda c: c.owns(SECRET, dict), "dict can read no object: derive it from kr.Object"),
    (lambda c: c.owns(SECRET, "Secret"), "'Secret' is not a class of objects"),
    (lambda c: c.owns(NAMESPACE), "Namespace has no namespace: a Widget, which has one, c"),
    (lambda c: c.owns(SECRET, update="apply"), r"update='apply': use kr\.RECREATE or"),
    (
        lambda c: c.owns(SECRET, update=kr.CREATE, finished=str),
        "is created once: leave out finished=",
    ),
    (lambda c: c.owns(SECRET, after=CONFIG_MAP), "use a tuple of kinds"),
    (lambda c: c.owns(SECRET, after=("configmaps",)), "use a tuple of kinds"),
    (lambda c: c.owns(SECRET, prune=kr.ORPHAN), "prune=.*: use True or False"),
    (lambda c: c.owns(SECRET, prune=lambda _: True), "prune=.*: use True or False"),
    (
        lambda c: c.owns(SECRET, deletion_policy=Update.APPLY),
        "deletion_policy=.*: use kr.DELETE or",
    ),
    (lambda c: c.owns(SECRET, **RETAINED), "it cannot be retained"),
    (lambda c: c.owns(SECRET, **RETAINED | {"deletion_policy": str}), "it cannot be retained"),
    (
        lambda c: c.owns(SECRET, on_immutable=kr.RETAIN),
        "on_immutable=.*: use kr.RECREATE or kr.ORP",
    ),
    (lambda c: c.owns(SECRET, on_immutable=kr.ORPHAN, update=kr.CREATE), "is not changed in place"),
    (lambda c: ordered(c, configs=(SECRET,)), "after= names Secret; declare it with owns"),
    (lambda c: ordered(c, configs=(SECRET,), secrets=(CONFIG_MAP,)), "after= is a circle: "),
    (lambda c: ordered(c, configs=(CONFIG_MAP,)), "ConfigMap after ConfigMap"),
    # what is read
    (lambda c: c.descendants("Pod", transform=str), r"'Pod' is not a kr\.Kind"),
    (lambda c: c.descendants(SECRET, transform="one"), "transform='one': use a function"),
    (lambda c: c.reads("secrets", keys=str, transform=str), "'secrets' is not a kr.Kind"),
    (lambda c: c.reads(SECRET, keys=["s"], transform=str), r"keys=\['s'\]: use a function"),
    (lambda c: c.reads(SECRET, transform=str), r"reads\(Secret\) needs either keys= or labels="),
    (lambda c: c.reads(SECRET, keys=str, labels=dict, transform=str), "either keys= or labels="),
    (lambda c: c.reads(SECRET, labels={"a": "b"}, transform=str), "labels={'a': 'b'}: use a fu"),
    (
        lambda c: c.reads(SECRET, labels=dict, transform=str, every=5),
        "every= asks for objects by their names: leave it out with labels=",
    ),
    (lambda c: c.reads(SECRET, keys=str, transform=str, every=0.5), "every=0.5: use at least 1"),
    (lambda c: [c.reads(SECRET, keys=str, transform=str) for _ in "ab"], "declared twice"),
    (lambda c: c.watches(SECRET, transform=str, to="one"), "to='one': use a function"),
    (lambda c: c.index("host"), r"index\('host'\): use a function"),
    (lambda c: c.unique("Host", str), "'Host' cannot name what is unique"),
    (lambda c: c.unique("host", "host"), r"unique\('host'\): use a function"),
    (lambda c: c.unique("host", str, on_taken=kr.ORPHAN), "on_taken=.*: use kr.DELETE or"),
    (lambda c: [c.unique("host", str) for _ in "ab"], "declared twice for Widget"),
    # calls outside
    (lambda c: c.sync(timeout=600)(waits), "the timeout of waits must be at most 240 seconds"),
    (lambda c: c.sync(timeout=0)(waits), "the timeout of waits must be at most 240 seconds"),
    (lambda c: c.sync(every=0)(waits), "the time between two calls of waits must be above 0 sec"),
    (lambda c: c.sync(every=float("nan"))(waits), "two calls of waits must be above 0 seconds"),
    (lambda c: c.finalize()(accepts), "write `async def accepts`"),
    (
        lambda c: (c.sync(on=[POD])(waits), c.declaration.check_complete()),
        "on=Pod: a Widget neither owns nor watches",
    ),
    # webhooks
    (lambda c: c.validate(operations=())(accepts), r"operations=\(\): use a tuple of create, upda"),
    (lambda c: c.validate(operations="create")(accepts), "operations='create': use a tuple of cre"),
    (lambda c: c.default(operations=("delete",))(accepts), "use a tuple of create, update$"),
    (lambda c: c.validate(failure_policy="Fail")(accepts), "use 'fail' or 'ignore'"),
    (lambda c: c.validate(timeout=30)(accepts), "more than 0 and at most 25 seconds"),
    (lambda c: c.validate()(yields), "return the warnings, or yield them in `def`"),
    (lambda c: c.validate()(lambda *_: None), "call the function after what it checks"),
    (lambda c: [c.validate()(accepts) for _ in "ab"], "another function is the webhook accept"),
    # kinds of others
    (lambda _: of_others().validate(), "a kind of others: it cannot have webhooks"),
    (lambda _: of_others().unique("host", str), "cannot have unique values"),
    (lambda _: of_others(where={"fields": {}}), "'fields' selects nothing"),
    (lambda _: of_others(where={"labels": {"a b": "c"}}), "no label that an object can have"),
    (lambda _: of_others(annotation="a b"), "cannot name an annotation"),
    (lambda _: of_others(condition="a b"), "no type of a condition"),
    (lambda _: of_others(annotation="a", condition="b"), "use one of them"),
    (lambda _: of_others(kr.Object, condition="a"), "whose status has the conditions"),
    # the second one reads no reason
    (lambda _: of_others(kr.Conditioned, condition="a"), "whose status has the conditions"),
]


@pytest.mark.parametrize(("declare", "why"), REFUSED, ids=[why for _, why in REFUSED])
def test_a_declaration_that_cannot_be_meant_is_refused_at_once(
    declare: Callable[[Any], Any], why: str
) -> None:
    with pytest.raises((TypeError, ValueError, DeclarationError), match=why):
        declare(Controller(WIDGET, Widget, None))


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


def test_f6_a_metric_has_the_name_that_its_author_gives_it() -> None:
    metrics = Metrics("site-operator")
    metrics.counter("site_visits", "Visits.")
    metrics.gauge("site_pages", "Pages.")
    metrics.histogram("site_visit_seconds", "Visits.")
    metrics.of_objects("site_up", "Whether it answers.", lambda: [(("ns", "a"), 1.0)])

    names = {family.name for family in metrics.registry.collect()}

    assert {"site_visits", "site_pages", "site_visit_seconds", "site_up"} <= names
    assert "site_operator_leader" in names


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
    async with working_on(server, widget(), one) as operator:
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
        await until(lambda: readiness(server).get("reason") == "TooManyRequests")
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

    async with reconciled(server, widget(), widgets.controller(by_chance)):
        server.remove(CONFIG_MAP, CHILD)

        await until(lambda: readiness(server).get("reason") == "InvalidPlan")
    assert "has another ConfigMap w-one each time it is made" in readiness(server)["message"]


@pytest.mark.parametrize("update", [Update.APPLY, kr.RECREATE])
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
    async with working_on(server, widget(), widgets.controller(update=update)):
        await until(lambda: readiness(server).get("reason") == "BadRequest")

    assert readiness(server)["message"] == unknown.message


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
    ended = {"finished": lambda phase: phase if phase == "Failed" else ""}
    phase: Raw = {"type_": widgets.Pod, "transform": lambda pod: pod.status.phase, **ended}
    one = owning(two, POD, update=kr.RECREATE, **phase)
    async with working_on(server, widget(), one):
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

    one = widgets.controller(desired)

    @one.sync(every=300)
    async def sync(thing: Widget, _: object) -> Any:
        calls.append(thing.metadata.generation)
        return await value() if thing.metadata.generation == 2 else "fine"

    return one


async def test_an_outcome_that_no_request_can_carry_is_told(server: ApiServer) -> None:
    async def half() -> Any:
        return json.loads('"\\ud83d"')

    calls: list[int] = []
    async with reconciled(server, widget(), synced(calls, half)):
        server.edit(WIDGET, KEY, edit("again"))

        await until(lambda: readiness(server).get("reason") == "InvalidPlan")
    assert "ConfigMap w-one is not JSON" in readiness(server)["message"]
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
                    await until(lambda: "no answer within" in readiness(server).get("message", ""))
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
    async with reconciled(server, widget(), synced(calls, cancelled)):
        server.edit(WIDGET, KEY, edit("again"))

        await until(lambda: (server.get(CONFIG_MAP, CHILD) or {})["data"]["text"] == "fine again")
        await until(lambda: is_ready(server))
    assert any("awaited a task that was cancelled" in event["message"] for event in server.events)


# --- bad plans: what an author returns that cannot be is a condition, never a crash ---------------


ONE = ("ns", "one")
CLUSTER_ROLE = Kind("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False)
FLEET = Kind("example.dev", "v1", "fleets", "Fleet", False)


class Watched(Widget, weakref=True):
    """A Widget of which one can see whether it is still in memory."""


def child(name: Any = "c", kind: str = "ConfigMap", version: str = "v1", **meta: Any) -> Raw:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **meta}, "data": {}}


def templates(manifests: Any, kind: Kind = WIDGET) -> Templates:
    owned = [
        Owned(owned_kind, kr.Object, Update.APPLY, lambda _: None, lambda _: "")
        for owned_kind in (CONFIG_MAP, CLUSTER_ROLE)
    ]

    def desired(thing: Any, _: Any) -> Any:
        return manifests(thing) if callable(manifests) else manifests

    return Templates(kind, Marks("tester", kind), owned, desired)


def make(manifests: Any, kind: Kind = WIDGET, text: str = "hello") -> tuple[Wanted, ...]:
    namespace = "ns" if kind.namespaced else ""
    meta = ObjectMeta("one", "uid-1", "7", namespace, 3)
    return templates(manifests, kind).make(Widget(meta, spec=widgets.Spec(text)))


def recursive() -> Raw:
    manifest = child()
    manifest["data"]["again"] = manifest
    return manifest


def failing(_: Any) -> Iterable[Raw]:
    yield child()
    raise ZeroDivisionError("an author's mistake")


def posting(_: object) -> None:
    settings_var.set(kopf.OperatorSettings())  # as in kopf's process
    kopf.event(cast("kopf.Body", child()), type="Normal", reason="Started")


def endless(_: Any) -> Iterable[Raw]:
    """Return far more children than are allowed, as for a size that a tenant wrote."""
    for number in range(100_000):
        yield child(f"c-{number}")
    raise ZeroDivisionError("all of them were asked for")


def first(names: list[str]) -> Raw:
    return child(next(name for name in names if name.startswith("c")))


class Counted:
    """An iterator that is written in Python, and ends as it should."""

    def __init__(self, number: int) -> None:
        self._left = number

    def __iter__(self) -> "Counted":
        return self

    def __next__(self) -> str:
        if not self._left:
            raise StopIteration
        self._left -= 1
        return f"c-{self._left}"


BAD: dict[str, tuple[Any, str]] = {
    "two of one name": ([child(), child()], "two children ConfigMap c"),
    "another namespace": ([child(namespace="other")], "namespace other; a child has the namespace"),
    "an unknown kind": ([child(kind="Secret")], "a Secret of v1, a kind that the operator does"),
    "another version": ([child(version="v2")], "does not own"),
    "a kind that is no text": ([{**child(), "kind": ["ConfigMap"]}], "does not own"),
    "no manifest": (["x"], "a str that is not a manifest"),
    "no metadata": ([{"apiVersion": "v1", "kind": "ConfigMap"}], "not a manifest"),
    "nothing": ([None], "a NoneType that is not a manifest"),
    "not even a list": (5, "the plan failed: TypeError"),
    "no name": ([child(None)], "whose name None is not valid"),
    "a bad name": ([child("Big_One")], "whose name 'Big_One' is not valid"),
    "a long name": ([child("a" * 254)], "is not valid"),
    "a date": ([{**child(), "data": {"at": object()}}], "ConfigMap c is not JSON"),
    "itself": ([recursive()], "ConfigMap c is not JSON"),
    "keys that are no texts": ([{**child(), "data": {(1, 2): "x"}}], "ConfigMap c is not JSON"),
    "labels that are a list": ([child(labels=["a"])], "labels"),
    "annotations that are a text": ([child(annotations="a")], "annotations"),
    "an exception": (failing, "the plan failed: ZeroDivisionError: an author's mistake"),
    "an Event of kopf's": (posting, r"LookupError: kopf.event\(\) is for handlers of kopf; use"),
    "an end by mistake": (
        lambda _: map(first, [["c"], ["other"]]),
        "the plan failed: RuntimeError: a function raised",
    ),
    "too many": ((child(f"c-{n}") for n in range(1001)), "more than 1000 children"),
    "children without an end": (endless, "more than 1000 children"),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_plan_that_cannot_be_says_what_is_wrong(bad: str) -> None:
    manifests, complaint = BAD[bad]

    with pytest.raises(PlanError, match=complaint):
        make(manifests)


def test_an_iterator_of_an_author_s_may_end() -> None:
    assert len(make(lambda _: map(child, Counted(3)))) == 3
    assert len(make(lambda _: filter(None, map(child, ["a", "b"])))) == 2


@pytest.mark.parametrize("namespace", ["x/secrets/y?a=", {"a": 1}, 5, "Big"], ids=str)
def test_a_namespace_that_is_not_valid_is_refused(namespace: object) -> None:
    """It becomes a part of the path, and an author may take it from what a tenant wrote."""
    with pytest.raises(PlanError, match=r"the namespace .* of ConfigMap c is not valid"):
        make([child(namespace=namespace)], FLEET)


def test_a_child_of_a_clusterwide_object_says_its_namespace_if_it_needs_one() -> None:
    with pytest.raises(PlanError, match="must say the namespace of ConfigMap c"):
        make([child()], FLEET)

    role = child(kind="ClusterRole", version="rbac.authorization.k8s.io/v1")
    dated = {**child(namespace="here"), "data": {"at": datetime.date(2026, 1, 1)}}
    made = make([dated, role], FLEET)
    assert [(wanted.kind, wanted.key) for wanted in made] == [
        (CONFIG_MAP, ("here", "c")),
        (CLUSTER_ROLE, ("", "c")),
    ]
    assert made[0].template


def test_the_marks_of_a_kind_of_any_length_are_names_of_labels() -> None:
    def names(kind: str) -> list[str]:
        marks = Marks("tester", Kind("example.dev", "v1", "longs", kind))
        return [mark.partition("/")[2] for mark in (marks.uid, marks.generation, marks.name)]

    assert names("L" * 52)[1] == "l" * 52 + "-generation"
    longest, other = names("L" * 63), names("L" * 62 + "M")
    assert max(map(len, longest)) == 63
    assert not {*longest} & {*other}


def test_m3_manifests_are_kept_for_a_while_only() -> None:
    many = templates(lambda thing: [{**child(), "data": {"text": thing.spec.text}}])
    wanted = [
        many.make(
            Widget(
                ObjectMeta("one", f"uid-{n}", "7", "ns", 3), spec=widgets.Spec(f"{n}" + "x" * 65536)
            )
        )
        for n in range(200)
    ]

    kept = sum(len(body) for (made,) in wanted if (body := many.body(made)) is not None)
    assert kept <= KEPT
    assert many.body(wanted[-1][0]) is not None
    assert many.body(wanted[0][0]) is None


async def test_a_standby_keeps_no_manifest_that_is_not_wanted_any_more(server: ApiServer) -> None:
    def wanted() -> tuple[Wanted, ...]:
        owner = caches(standby).owners.cache.get(ONE)
        return owner.wanted if owner is not None else ()

    def kept(children: tuple[Wanted, ...]) -> list[bool]:
        return [at_work(standby).templates.body(child) is not None for child in children]

    standby = widgets.controller()
    async with working_on(server, widget(text="old"), standby, working=False):
        await until(lambda: kept(wanted()) == [True])
        old = wanted()
        server.edit(WIDGET, ONE, edit("new"))
        await until(lambda: wanted() != old)
        assert kept(old) + kept(new := wanted()) == [False, True]

        server.remove(WIDGET, ONE)
        await until(lambda: not wanted())
        assert kept(new) == [False]


def test_a_plan_that_waits_keeps_nothing_of_its_object_in_memory() -> None:
    def wait(thing: Any) -> Iterable[Raw]:
        things.append(weakref.ref(thing))
        raise kr.Wait("Busy", "It is busy.", after=5)

    things = list[weakref.ref[Any]]()
    meta = ObjectMeta("one", "uid-1", "7", "ns", 3)
    _, wait_kept = templates(wait).plan(Watched(meta))
    gc.collect()

    assert isinstance(wait_kept, kr.Wait)
    assert (wait_kept.reason, wait_kept.message, wait_kept.after) == ("Busy", "It is busy.", 5)
    assert things[0]() is None


def test_d15_the_next_version_of_the_api_replaces_no_child() -> None:
    (before,), (after,) = make([child()]), make([child()], WIDGET._replace(version="v2"))

    assert before.template == after.template


@pytest.mark.parametrize("texts", [None, [], {"a": 1}, {"a": "\ud800"}, "text"])
def test_d9_texts_of_a_secret_that_are_none_are_left_to_be_refused(texts: Any) -> None:
    secret = {"metadata": {"name": "s"}, "stringData": texts, "data": {"b": "Yg=="}}

    assert _encoded(secret) == secret
