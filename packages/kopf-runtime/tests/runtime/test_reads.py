"""What an object names is read, other kinds queue objects, and indexes queue their holders."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import msgspec
import pytest

import kopf_runtime as kr
from kopf_runtime.declaring.kinds import CONFIG_MAP, NODE, SECRET, Key
from kopf_runtime.process.engine import Engine
from kopf_runtime.working.queue import WorkQueue
from runtime import widgets
from runtime.widgets import WIDGET, Raw, Widget, edit, widget
from tests.support.api_server import ApiServer, RefusedError
from tests.support.running import Operator, operating
from tests.support.waiting import until

QUIET = 0.3


class Secret(kr.Object):
    data: dict[str, str] = msgspec.field(default_factory=dict)


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(WIDGET, CONFIG_MAP, SECRET).running() as one:
        yield one


def reading(
    desired: Callable[..., Iterable[Raw]] | None = None, *, type_: type[kr.Object] = Secret,
    **reads: Any,
) -> Engine:  # fmt: skip
    """Return a controller of Widgets, whose text names a Secret: its `text` is the child's."""
    one = widgets.controller(desired or with_secret)
    reads.setdefault("keys", lambda widget: [_named(widget.spec.text)])
    one.reads(SECRET, type_, project=lambda secret: secret.data["text"], **reads)
    return one


def _named(text: str) -> Any:
    return tuple(text.split("/")) if "/" in text else text


def with_secret(one: Widget, context: kr.Context[Any]) -> Iterable[Raw]:
    namespace, _, name = one.spec.text.rpartition("/")
    text = context.read(SECRET, name, namespace or None)
    for manifest in widgets.config_map(one):
        yield {**manifest, "data": {"text": text}}


def put_secret(
    server: ApiServer, text: str, name: str = "s", namespace: str = "ns", **more: Any
) -> None:
    meta = {"namespace": namespace, "name": name}
    server.put(SECRET, {"metadata": meta, "data": {"text": text, **more}})


def text(server: ApiServer, name: str = "one") -> str:
    child = server.get(CONFIG_MAP, ("ns", f"w-{name}")) or {"data": {"text": ""}}
    return str(child["data"]["text"])


def said(server: ApiServer, name: str = "one") -> str:
    status = (server.get(WIDGET, ("ns", name)) or {}).get("status") or {"conditions": []}
    return " ".join(f"{c['reason']}: {c['message']}" for c in status["conditions"])


def looked(operator: Operator) -> float:
    """Return how many reconciles have ended."""
    return sum(
        operator.metric("controller_runtime_reconcile_total", controller="widgets", result=result)
        for result in ("success", "error", "requeue", "requeue_after")
    )


async def test_a_missing_secret_is_told_and_one_that_comes_later_heals(server: ApiServer) -> None:
    server.put(WIDGET, widget(text="s"))
    async with operating(server, reading()):
        await until(lambda: said(server) == "ReferenceMissing: Secret ns/s does not exist.")
        assert not server.get(CONFIG_MAP, ("ns", "w-one"))

        put_secret(server, "first")
        await until(lambda: text(server) == "first")
        put_secret(server, "second")
        await until(lambda: text(server) == "second")
        server.delete(SECRET, ("ns", "s"))
        await until(lambda: "ReferenceMissing" in said(server))
        assert text(server) == "second"  # its children stay as they are


async def test_only_what_is_named_is_kept_and_only_those_who_name_it_are_queued(
    server: ApiServer,
) -> None:
    one = reading()
    put_secret(server, "first")
    put_secret(server, "other", "nobodys")
    server.put(WIDGET, widget(text="s"))
    server.put(WIDGET, widget("two", text="s"))
    async with operating(server, one) as operator:
        await until(lambda: text(server) == "first" and "Reconciled" in said(server))
        await until(lambda: text(server, "two") == "first" and "Reconciled" in said(server, "two"))
        await asyncio.sleep(QUIET)
        before, cache = looked(operator), one._reads.sources[SECRET].cache

        put_secret(server, "changed", "nobodys")
        put_secret(server, "first", unseen="changed")  # `project` returns the same
        await asyncio.sleep(QUIET)
        assert looked(operator) == before
        assert "changed" not in repr(list(cache))

        server.edit(WIDGET, ("ns", "one"), edit("nobodys"))
        await until(lambda: text(server) == "changed")
        server.delete(WIDGET, ("ns", "two"))
        await until(lambda: "first" not in repr(list(cache)))


async def test_a_secret_that_is_asked_for_by_name_is_neither_listed_nor_watched(
    server: ApiServer,
) -> None:
    server.put(WIDGET, widget(text="s"))
    server.put(WIDGET, widget("two", text="s"))
    async with operating(server, reading(every=1.0)):
        await until(lambda: "ReferenceMissing" in said(server))
        put_secret(server, "first")
        await until(lambda: text(server) == text(server, "two") == "first")
        put_secret(server, "second")
        await until(lambda: text(server) == text(server, "two") == "second")

    asked = [one.path for one in server.requests if "/secrets" in one.path]
    assert set(asked) == {"/api/v1/namespaces/ns/secrets/s"}


@pytest.mark.parametrize("every", [None, 60.0])
async def test_a_secret_of_another_namespace_is_refused_unless_it_is_declared(
    server: ApiServer, every: float | None
) -> None:
    put_secret(server, "theirs", namespace="other")
    server.put(WIDGET, widget(text="other/s"))
    async with operating(server, reading(every=every)):
        await until(lambda: "InvalidPlan" in said(server))
        assert "Secret other/s is in another namespace than the Widget" in said(server)

    assert not any("/other/" in one.path for one in server.requests)
    async with operating(server, reading(every=every, across_namespaces=True)):
        await until(lambda: text(server) == "theirs")


async def test_a_namespace_that_is_not_served_is_not_read(server: ApiServer) -> None:
    put_secret(server, "theirs", namespace="other")
    server.put(WIDGET, widget(text="other/s"))
    settings = kr.Settings(namespaces=("ns",))
    async with operating(server, reading(across_namespaces=True), settings=settings):
        await until(lambda: "--namespace does not name it" in said(server))

    assert not any("/other/" in one.path for one in server.requests)


async def test_a_right_that_is_missing_stops_only_who_needs_it(server: ApiServer) -> None:
    server.refuse("GET", "/secrets", RefusedError(403, "Forbidden"), math.inf)
    server.put(WIDGET, widget(text="s"))

    def keys(one: Widget) -> list[str]:
        return [one.spec.text] if one.spec.text == "s" else []

    def desired(one: Widget, context: kr.Context[Any]) -> Iterable[Raw]:
        return widgets.config_map(one) if one.spec.text != "s" else with_secret(one, context)

    server.put(WIDGET, widget("two", text="none"))
    async with operating(server, reading(desired, keys=keys)):
        await until(lambda: "secrets cannot be read: the operator has no right" in said(server))
        await until(lambda: text(server, "two") == "none")


async def test_what_cannot_be_read_is_told(server: ApiServer) -> None:
    server.put(SECRET, {"metadata": {"namespace": "ns", "name": "s"}, "data": {}})
    server.put(WIDGET, widget(text="s"))
    async with operating(server, reading()):
        await until(lambda: "ReferenceUnreadable: Secret ns/s cannot be read" in said(server))
        put_secret(server, "well")
        await until(lambda: text(server) == "well")


async def test_sync_status_and_finalize_see_what_is_read(server: ApiServer) -> None:
    seen: dict[str, Any] = {}
    one = reading()

    @one.sync()
    async def sync(_: Widget, context: kr.Context[Any]) -> str:
        seen["sync"] = context.read(SECRET, "s")
        return "done"

    @one.status
    def status(told: kr.Observed) -> kr.Status:
        seen["status"] = told.find(SECRET, "s")
        return kr.default_status(told)

    @one.finalize()
    async def finalize(_: Widget, context: kr.Context[Any]) -> None:
        seen["finalize"] = context.reads_of(SECRET)

    server.put(WIDGET, widget(text="s"))
    async with operating(server, one):
        await until(lambda: "ReferenceMissing" in said(server))
        put_secret(server, "first")
        await until(lambda: seen.get("sync") == seen.get("status") == text(server) == "first")
        server.delete(WIDGET, ("ns", "one"))
        await until(lambda: seen.get("finalize") == {("ns", "s"): "first"})


async def test_any_object_queues_those_that_it_is_mapped_to(server: ApiServer) -> None:
    one = widgets.controller()
    one.watches(SECRET, Secret, to=lambda secret: secret.data.get("for", "").split())
    for name in ("one", "two"):
        server.put(WIDGET, widget(name))
    async with operating(server, one) as operator:
        await until(lambda: "Reconciled" in said(server) and "Reconciled" in said(server, "two"))
        await asyncio.sleep(QUIET)
        before = looked(operator)
        put_secret(server, "", **{"for": "two"})
        await until(lambda: looked(operator) == before + 1)
        server.delete(SECRET, ("ns", "s"))
        await until(lambda: looked(operator) == before + 2)


async def test_a_mapped_object_queues_only_by_what_project_returns_and_those_it_named_too(
    server: ApiServer,
) -> None:
    one = widgets.controller()
    to = lambda secret: secret.data.get("for", "").split()  # noqa: E731
    one.watches(SECRET, Secret, to=to, project=lambda secret: secret.data["text"])
    for name in ("one", "two"):
        server.put(WIDGET, widget(name))
    put_secret(server, "open", **{"for": "one"})

    def change(data: Raw) -> None:
        server.edit(SECRET, ("ns", "s"), lambda raw: raw["data"].update(data))

    async with operating(server, one) as operator:
        await until(lambda: "Reconciled" in said(server) and "Reconciled" in said(server, "two"))
        await asyncio.sleep(QUIET)
        before = looked(operator)
        change({"beat": "2"})
        await asyncio.sleep(QUIET)
        assert looked(operator) == before
        change({"text": "closed"})
        await until(lambda: looked(operator) == before + 1)
        change({"for": "two"})
        await until(lambda: looked(operator) == before + 3)


async def test_the_next_holder_of_a_value_follows_when_the_oldest_leaves_it(
    server: ApiServer,
) -> None:
    def desired(one: Widget, context: kr.Context[Any]) -> Iterable[Raw]:
        key = (one.metadata.namespace, one.metadata.name)
        first = context.holders(hosts, one.spec.text)[0]
        if first != key:
            raise kr.Wait("HostnameTaken", f"{'/'.join(first)} has {one.spec.text}.")
        return widgets.config_map(one)

    one = widgets.controller(desired)
    hosts = one.index(lambda widget: [widget.spec.text])
    for name, second in (("two", 1), ("one", 2), ("three", 3)):
        raw = widget(name, text="a.example")
        raw["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:0{second}Z"
        server.put(WIDGET, raw)
    async with operating(server, one):
        await until(lambda: text(server, "two") == "a.example")
        taken = "HostnameTaken: ns/two has a.example."
        await until(lambda: said(server) == said(server, "three") == taken)

        server.edit(WIDGET, ("ns", "two"), edit("b.example"))
        await until(lambda: text(server) == "a.example" and text(server, "two") == "b.example")
        server.delete(WIDGET, ("ns", "one"))
        await until(lambda: text(server, "three") == "a.example")
    assert not hosts.holders("c.example")


async def test_a_first_list_of_many_with_one_value_costs_no_more_than_its_objects(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = widgets.controller()
    one.index(lambda widget: [widget.spec.text])
    added: list[Key] = []
    monkeypatch.setattr(WorkQueue, "add", lambda _, key, *, listed=False: added.append(key))
    for number in range(50):
        server.put(WIDGET, widget(f"w{number}", text=""))

    async with operating(server, one, working=False) as operator:
        await until(lambda: operator.synced)
    assert {name for _, name in added} == {f"w{number}" for number in range(50)}
    assert len(added) < 50 * 10


@pytest.mark.parametrize(
    ("declare", "why"),
    [
        (lambda c: c.reads("secrets", keys=str, project=str), "'secrets' is not a kr.Kind"),
        (lambda c: c.reads(SECRET, keys=["s"], project=str), r"keys=\['s'\]: use a function"),
        (lambda c: c.reads(SECRET, keys=str, project=str, every=0.5), "every=0.5: use at least 1"),
        (
            lambda c: c.reads(NODE, keys=str, project=str, across_namespaces=True),
            "Node has no namespaces; leave out across_namespaces=",
        ),
        (lambda c: [c.reads(SECRET, keys=str, project=str) for _ in "ab"], "declared twice"),
        (lambda c: c.watches(SECRET), "needs project=, for grandchildren, or to=, not None"),
        (lambda c: c.watches(SECRET, project=str, to="one"), "or to=, not one"),
        (lambda c: c.index("host"), r"index\('host'\): use a function"),
    ],
)
def test_a_declaration_that_cannot_be_meant_is_refused(
    declare: Callable[[Any], Any], why: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=why):
        declare(Engine(WIDGET, Widget, lambda _: None))


def test_what_is_not_declared_is_an_error_that_says_so() -> None:
    context = kr.Context(kr.Settings(), namespace="ns", reads={SECRET: {("ns", "s"): None}})

    assert context.find(SECRET, "s") is None
    with pytest.raises(kr.Wait, match=r"Secret ns/s does not exist\."):
        context.read(SECRET, "s")
    with pytest.raises(LookupError, match="did not name Secret ns/t"):
        context.find(SECRET, "t")
    with pytest.raises(LookupError, match="Node is not read; declare it by"):
        context.reads_of(NODE)
