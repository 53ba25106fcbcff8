"""What an object names or selects is read, and other kinds and indexes queue objects."""

import asyncio
import math
import operator
import time
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import kopf_runtime as kr
from kopf_runtime.declaring.context import Unread
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.kinds import CONFIG_MAP, NAMESPACE, NODE, SECRET, Key
from kopf_runtime.declaring.records import Labels
from kopf_runtime.watching.references import Polled
from kopf_runtime.working.queue import WorkQueue
from runtime import widgets
from runtime.support.api_server import ApiServer, RefusedError
from runtime.support.running import Operator, caches, operating
from runtime.support.waiting import until
from runtime.widgets import WIDGET, Raw, Widget, edit, ready, widget, working_on

QUIET = 0.3
TENANT = kr.Kind("example.dev", "v1", "tenants", "Tenant", namespaced=False)


class Secret(kr.Object):
    data: dict[str, str] = msgspec.field(default_factory=dict)


KINDS = (WIDGET, TENANT, CONFIG_MAP, SECRET, NODE)


def reading(
    desired: Callable[..., Iterable[Raw]] | None = None,
    *,
    type_: type[kr.Object] = Secret,
    **reads: Any,
) -> Controller:
    """Return a controller of Widgets, whose text names a Secret: its `text` is the child's."""
    one = widgets.controller(desired or with_secret)
    reads.setdefault("keys", lambda widget: [_named(widget.spec.text)])
    reads.setdefault("transform", lambda secret: secret.data["text"])
    one.reads(SECRET, type_, **reads)
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


def put_labelled(
    server: ApiServer, text: str, labels: str, name: str = "s", namespace: str = "ns"
) -> None:
    raw = {"metadata": {"namespace": namespace, "name": name}, "data": {"text": text}}
    relabel(labels)(raw)
    server.put(SECRET, raw)


def text(server: ApiServer, name: str = "one") -> str:
    child = server.get(CONFIG_MAP, ("ns", f"w-{name}")) or {"data": {"text": ""}}
    return str(child["data"]["text"])


def said(server: ApiServer, name: str = "one") -> str:
    status = (server.get(WIDGET, ("ns", name)) or {}).get("status") or {"conditions": []}
    return " ".join(f"{c['reason']}: {c['message']}" for c in status["conditions"])


def unreadable(operator: Operator) -> float:
    return operator.metric("unreadable_objects", resource="secrets")


@pytest.mark.parametrize("every", [None, 1.0])
async def test_a_missing_secret_is_told_and_one_that_comes_later_heals(
    server: ApiServer, every: float | None
) -> None:
    server.put(WIDGET, widget(text="s"))
    async with working_on(server, widget("two", text="s"), reading(every=every)):
        await until(lambda: said(server) == "ReferenceMissing: Secret ns/s does not exist.")
        assert not server.get(CONFIG_MAP, ("ns", "w-one"))

        put_secret(server, "first")
        await until(lambda: text(server) == text(server, "two") == "first")
        put_secret(server, "second")
        await until(lambda: text(server) == text(server, "two") == "second")
        server.delete(SECRET, ("ns", "s"))
        await until(lambda: "ReferenceMissing" in said(server))
        assert text(server) == "second"  # its children stay as they are

    asked = {request.path for request in server.requests if "/secrets" in request.path}
    if every:  # it is neither listed nor watched
        assert asked == {"/api/v1/namespaces/ns/secrets/s"}


async def test_a_paused_object_tells_that_what_it_names_is_missing(server: ApiServer) -> None:
    paused = widget(text="s", annotations={"example.dev/paused": "true"})
    async with working_on(server, paused, reading()):
        await until(lambda: "Secret ns/s does not exist" in said(server))


@pytest.mark.parametrize("data", [{}, {"text": 1}], ids=["refused", "undecodable"])
async def test_what_is_asked_for_and_cannot_be_read_is_told(server: ApiServer, data: Raw) -> None:
    server.put(SECRET, {"metadata": {"namespace": "ns", "name": "s"}, "data": data})
    async with working_on(server, widget(text="s"), reading(every=60.0)):
        await until(lambda: "ReferenceUnreadable: Secret ns/s cannot be read" in said(server))


def test_what_is_asked_for_is_due_when_it_was_set() -> None:
    nothing: Any = None
    read: Any = SimpleNamespace(kind=SECRET, type=Secret)
    polled, now = Polled(nothing, nothing, read, 60.0), time.monotonic()
    polled._views = {("ns", "s"): (None, now + 10), ("ns", "failed"): (None, now - 10)}
    assert [round(polled.due(("ns", name)) or 0) for name in ("s", "failed")] == [10, 60]


async def test_only_what_is_named_is_kept_and_only_namers_are_queued(server: ApiServer) -> None:
    one = reading()
    put_secret(server, "first")
    put_secret(server, "other", "nobodys")
    server.put(WIDGET, widget(text="s"))
    async with working_on(server, widget("two", text="s"), one) as operator:
        await until(lambda: text(server) == "first" and "Reconciled" in said(server))
        await until(lambda: text(server, "two") == "first" and "Reconciled" in said(server, "two"))
        await asyncio.sleep(QUIET)
        before, cache = operator.reconciles(), caches(one).reads.sources[SECRET].cache

        put_secret(server, "changed", "nobodys")
        put_secret(server, "first", unseen="changed")  # `project` returns the same
        await asyncio.sleep(QUIET)
        assert operator.reconciles() == before
        assert "changed" not in repr(list(cache))

        server.edit(WIDGET, ("ns", "one"), edit("nobodys"))
        await until(lambda: text(server) == "changed")
        server.delete(WIDGET, ("ns", "two"))
        await until(lambda: "first" not in repr(list(cache)))


@pytest.mark.parametrize("every", [None, 60.0])
async def test_a_secret_of_another_namespace_is_refused_unless_it_is_declared(
    server: ApiServer, every: float | None
) -> None:
    put_secret(server, "theirs", namespace="other")
    async with working_on(server, widget(text="other/s"), reading(every=every)):
        await until(lambda: "InvalidPlan" in said(server))
        told = "Secret other/s is in another namespace than the Widget; name one in ns"
        assert told in said(server)

    assert not any("/other/" in request.path for request in server.requests)


@pytest.mark.parametrize(
    "name", ["../../other/secrets/s", "..", "s?watch=1", "s#", "%2e%2e", "../../other/secrets", "é"]
)
async def test_a_name_that_leads_to_another_object_is_refused(server: ApiServer, name: str) -> None:
    put_secret(server, "theirs", namespace="other")
    server.put(WIDGET, widget(text="s"))
    one = reading(every=60.0, keys=lambda _: [("ns", name)])
    async with operating(server, one):
        await until(lambda: f"InvalidPlan: no Secret can have the name 'ns/{name}'" in said(server))

    assert not [str(asked) for asked in server.requests if "secrets" in asked.path]


@pytest.mark.parametrize(
    ("reads", "verb", "told"),
    [
        ({}, "list", "KindNotServed: secrets cannot be read: the operator has no right to it: "),
        ({"keys": None, "labels": None}, "list", "KindNotServed: secrets "),
        ({"every": 60.0}, "get", "Forbidden: "),
    ],
)
async def test_a_right_that_is_missing_is_named_and_stops_only_who_needs_it(
    server: ApiServer, reads: dict[str, Any], verb: str, told: str
) -> None:
    def keys(one: Widget) -> Any:
        names = [one.spec.text] if one.spec.text == "s" else []
        return {"app": "web"} if "labels" in reads else names

    def desired(one: Widget, context: kr.Context[Any]) -> Iterable[Raw]:
        return widgets.config_map(one) if one.spec.text != "s" else with_secret(one, context)

    why = f'User "op" cannot {verb} resource "secrets" in API group "" in the namespace "ns"'
    server.refuse("GET", "/secrets", RefusedError(403, "Forbidden", why), math.inf)
    server.put(WIDGET, widget(text="s"))
    server.put(WIDGET, widget("two", text="none"))
    how = "labels" if "labels" in reads else "keys"
    one = reading(desired, **{**reads, how: keys})
    async with operating(server, one, settings=kr.Settings(namespaces=("ns",))):
        await until(lambda: said(server).startswith(told) and said(server).endswith(why))
        await until(lambda: how == "labels" or text(server, "two") == "none")


@pytest.mark.parametrize("data", [{}, {"text": 1}], ids=["refused", "undecodable"])
async def test_what_cannot_be_read_is_told_if_it_is_named(
    server: ApiServer, data: Raw, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("s", "strangers"):
        server.put(SECRET, {"metadata": {"namespace": "ns", "name": name}, "data": data})
    async with working_on(server, widget(text="s"), reading()) as operator:
        await until(lambda: "ReferenceUnreadable: Secret ns/s cannot be read" in said(server))
        await until(lambda: unreadable(operator) == 1)
        assert "strangers" not in caplog.text

        server.edit(WIDGET, ("ns", "one"), edit("strangers"))
        await until(lambda: "Secret ns/strangers cannot be read" in said(server))
        await until(lambda: unreadable(operator) == 1)
        put_secret(server, "well", "strangers")
        await until(lambda: text(server) == "well" and unreadable(operator) == 0)


async def test_sync_status_and_finalize_see_what_is_read(server: ApiServer) -> None:
    seen: dict[str, Any] = {}
    one = reading()

    @one.sync()
    async def sync(_: Widget, context: kr.CallContext[Any]) -> str:
        seen["sync"] = context.read(SECRET, "s")
        return "done"

    @one.status
    def status(_: Any, told: kr.Observed) -> kr.Status:
        seen["status"] = told.find(SECRET, "s")
        return kr.default_status(told)

    @one.finalize()
    async def finalize(_: Widget, context: kr.CallContext[Any]) -> None:
        seen["finalize"] = context.reads_of(SECRET)

    async with working_on(server, widget(text="s"), one):
        await until(lambda: "ReferenceMissing" in said(server))
        put_secret(server, "first")
        await until(lambda: seen.get("sync") == seen.get("status") == text(server) == "first")
        server.delete(WIDGET, ("ns", "one"))
        await until(lambda: seen.get("finalize") == {("ns", "s"): "first"})


@pytest.mark.parametrize(
    "look",
    [
        dict,
        len,
        bool,
        sorted,
        lambda reads: {**reads},
        lambda reads: reads | {},
        lambda reads: {} | reads,
        lambda reads: reads == {},
        *map(operator.methodcaller, ("copy", "items", "keys", "values")),
        operator.methodcaller("get", SECRET),
    ],
)
def test_no_look_at_what_cannot_be_read_takes_it_for_missing(look: Callable[[Any], Any]) -> None:
    reads = Unread({SECRET: {}}, kr.Wait("Forbidden", "It cannot be read."))
    with pytest.raises(kr.Wait, match="It cannot be read"):
        look(kr.CallContext(None, reads=reads).reads)
    with pytest.raises(LookupError, match="Node is not read"):
        kr.CallContext(None, reads=reads).reads_of(NODE)


@pytest.mark.parametrize("how", [{}, {"keys": None, "labels": lambda _: {"app": "web"}}])
async def test_a_cleanup_waits_for_what_cannot_be_read(
    server: ApiServer, how: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kopf_runtime.working.external.UNSEEN", 3600.0)  # nothing but news helps
    seen, one = list[Any](), reading(**how)

    @one.finalize()
    async def finalize(_: Widget, context: kr.CallContext[Any]) -> None:
        seen.append(dict(context.reads_of(SECRET)))

    put_labelled(server, "first", "app=web")
    server.put(WIDGET, widget(text="s", finalizers=["example.dev/message-operator"]))
    server.delete(WIDGET, ("ns", "one"))
    server.refuse("GET", "/secrets", RefusedError(403, "Forbidden"), math.inf)
    async with operating(server, one):
        await until(lambda: "KindNotServed: secrets cannot be read" in said(server))
        assert "To give up, remove its finalizer example.dev/message-operator." in said(server)
        assert not seen
        server.answers.clear()
        await until(lambda: not server.get(WIDGET, ("ns", "one")), 60.0)
    assert seen == [{("ns", "s"): "first"}]


async def test_what_names_too_many_is_told_and_served_with_fewer(server: ApiServer) -> None:
    put_secret(server, "first", "s0")
    server.put(WIDGET, widget(text="101"))

    def desired(one: Widget, context: kr.Context[Any]) -> Iterable[Raw]:
        for manifest in widgets.config_map(one):
            yield {**manifest, "data": {"text": context.read(SECRET, "s0")}}

    def keys(one: Widget) -> list[str]:
        return [f"s{number}" for number in range(int(one.spec.text))]

    async with operating(server, reading(desired, keys=keys)):
        told = "InvalidPlan: it names more than 100 objects of secrets, the most"
        await until(lambda: said(server) == told)
        server.edit(WIDGET, ("ns", "one"), edit("many"))  # `keys` fails
        told = "InvalidPlan: what it names of secrets failed: ValueError: invalid literal"
        await until(lambda: said(server).startswith(told))
        server.edit(WIDGET, ("ns", "one"), edit("100"))
        await until(lambda: text(server) == "first")


@pytest.mark.parametrize(
    ("how", "named", "why"),
    [
        ("keys", lambda one: [one.status["secret"]], "KeyError: 'secret'"),
        ("labels", lambda one: {"a": one.status["secret"]}, "KeyError: 'secret'"),
        ("index", lambda one: [one.status["secret"]], "KeyError: 'secret'"),
        ("keys", lambda one: one.spec.text, "TypeError: it returned the text 's', not a list"),
        ("index", lambda one: one.spec.text, "TypeError: it returned the text 's', not a list"),
    ],
)
async def test_what_names_others_depends_on_no_status_and_is_not_of_letters(
    server: ApiServer, how: str, named: Callable[[Any], Any], why: str
) -> None:
    """Nobody would notice that a status has changed."""
    server.put(WIDGET, {**widget(text="s"), "status": {"secret": "s", "conditions": []}})
    put_secret(server, "first")
    server.put(CONFIG_MAP, {"metadata": {"namespace": "ns", "name": "one"}})
    if how == "index":
        (one := widgets.controller()).index(named)
    else:
        one = selecting(named) if how == "labels" else reading(keys=named)
    one.watches(CONFIG_MAP, to=lambda config_map: config_map.metadata.name)
    failed = "Unreadable:" if how == "index" else "InvalidPlan: what it names of secrets failed:"
    async with operating(server, one) as operator:
        await until(lambda: said(server) == f"{failed} {why}")
        await until(lambda: operator.metric("unreadable_objects", resource="configmaps") == 1)


# --- by labels ------------------------------------------------------------------------------------


def selecting(select: Callable[[Any], Any] | None = None, **reads: Any) -> Controller:
    """Return a controller of Widgets, whose child has what is said by Secrets with their labels."""

    def desired(one: Widget, context: kr.Context[Any]) -> Iterable[Raw]:
        views = context.reads_of(SECRET)
        said = " ".join(f"{'/'.join(key)}={views[key]}" for key in views)
        for manifest in widgets.config_map(one):
            yield {**manifest, "data": {"text": said or "nothing"}}

    select = select or (lambda widget: dict(pair.split("=") for pair in widget.spec.text.split()))
    return reading(desired, keys=None, labels=select, **reads)


def relabel(labels: str) -> Callable[[Raw], None]:
    pairs = dict(pair.split("=") for pair in labels.split())
    return lambda raw: raw["metadata"].update(labels=pairs)


async def test_those_that_have_all_labels_are_read_and_planned_by(server: ApiServer) -> None:
    one = selecting()
    server.put(WIDGET, widget(text="app=web tier=a"))
    server.put(WIDGET, widget("two", text="app=web"))
    put_labelled(server, "first", "app=web tier=a more=1")
    put_labelled(server, "hidden", "app=db tier=a", "other")
    put_labelled(server, "theirs", "app=web tier=a", namespace="theirs")
    async with operating(server, one) as operator:
        await until(lambda: text(server) == text(server, "two") == "ns/s=first")

        server.edit(SECRET, ("ns", "s"), lambda raw: raw["data"].update(text="second"))
        await until(lambda: text(server) == text(server, "two") == "ns/s=second")
        server.edit(SECRET, ("ns", "s"), relabel("app=web"))  # one selects it no longer
        await until(lambda: text(server) == "nothing")
        assert text(server, "two") == "ns/s=second"
        server.edit(SECRET, ("ns", "s"), relabel("app=web tier=a"))
        await until(lambda: text(server) == "ns/s=second")
        put_labelled(server, "new", "app=web", "new")
        await until(lambda: text(server, "two") == "ns/new=new ns/s=second")
        server.delete(SECRET, ("ns", "s"))
        await until(lambda: text(server) == "nothing" and text(server, "two") == "ns/new=new")

        await until(lambda: "Reconciled" in said(server) and "Reconciled" in said(server, "two"))
        await asyncio.sleep(QUIET)
        before, cache = operator.reconciles(), caches(one).reads.sources[SECRET].cache
        server.edit(SECRET, ("ns", "other"), lambda raw: raw["data"].update(text="unseen"))
        server.edit(SECRET, ("ns", "new"), relabel("app=web more=2"))  # it changes nothing
        await asyncio.sleep(QUIET)
        assert operator.reconciles() == before
        assert not any(text in repr(list(cache)) for text in ("hidden", "unseen"))
        server.delete(WIDGET, ("ns", "two"))
        await until(lambda: "'new'" not in repr([seen.view for seen in cache]))

    lists = [request for request in server.requests if "labelSelector" in request.query]
    assert not [call for call in lists if "/secrets" in call.path]  # all came with the first list


class Unequal(str):
    """A view that differs each time that it is made."""

    __eq__, __hash__ = object.__eq__, object.__hash__


@pytest.mark.parametrize("view", [str, Unequal])
async def test_labels_that_are_selected_later_find_what_is_there(
    server: ApiServer, view: type[str]
) -> None:
    one = selecting(transform=lambda secret: view(secret.data["text"]))
    server.put(WIDGET, widget(text="app=none"))
    for name in ("a", "b", "c"):
        put_labelled(server, name, "app=web", name)
    async with operating(server, one):
        await until(lambda: text(server) == "nothing")
        for number in range(9):  # they share what they select
            server.put(WIDGET, widget(f"w{number}", text="app=web"))
        server.edit(WIDGET, ("ns", "one"), edit("app=web"))
        names = ["one", *(f"w{number}" for number in range(9))]
        await until(lambda: all(text(server, n) == "ns/a=a ns/b=b ns/c=c" for n in names))
        part: Any = caches(one).reads.parts[SECRET]
        part.add(given_up := Labels("ns", (("app", "db"),)))
        part.drop(given_up)  # before it was read
        assert not part._partial
        assert [key[1][1] for key in part._by_label] == ["web"]


async def test_more_than_can_be_read_are_told_until_there_are_fewer(server: ApiServer) -> None:
    for number in range(103):
        put_labelled(server, "", "app=web", f"s{number:03}")
    server.put(WIDGET, widget(text="app=web"))
    one = selecting()
    async with operating(server, one):
        told = "InvalidPlan: its labels select more than 100 objects of secrets, the most"
        await until(lambda: said(server) == told)
        assert not server.get(CONFIG_MAP, ("ns", "w-one"))
        for number in (0, 1):
            server.delete(SECRET, ("ns", f"s{number:03}"))
        await asyncio.sleep(QUIET)
        assert said(server) == told

        server.delete(SECRET, ("ns", "s102"))
        await until(lambda: text(server).split() == [f"ns/s{n:03}=" for n in range(2, 102)])


async def test_an_unreadable_object_holds_up_those_that_select_it(server: ApiServer) -> None:
    server.put(WIDGET, widget(text="app=web"))
    server.put(WIDGET, widget("two", text="app=db"))
    put_labelled(server, "first", "app=web")
    put_labelled(server, "second", "app=db", "t")
    async with operating(server, selecting()) as operator:
        await until(lambda: text(server) == "ns/s=first" and text(server, "two") == "ns/t=second")
        server.edit(SECRET, ("ns", "s"), lambda raw: raw["data"].pop("text"))
        await until(lambda: "ReferenceUnreadable: Secret ns/s cannot be read" in said(server))
        assert text(server) == "ns/s=first"  # its children stay as they are
        assert unreadable(operator) == 1
        put_labelled(server, "third", "app=db", "u")
        await until(lambda: text(server, "two") == "ns/t=second ns/u=third")
        server.delete(SECRET, ("ns", "s"))
        await until(lambda: text(server) == "nothing")


@pytest.mark.parametrize("during_sync", [False, True])
async def test_a_kind_that_cannot_be_seen_is_not_taken_for_one_without_objects(
    server: ApiServer, during_sync: bool
) -> None:
    called, go_on = asyncio.Event(), asyncio.Event()
    one = selecting()
    if during_sync:

        @one.sync()
        async def sync(*_: Any) -> None:
            called.set()
            await go_on.wait()

    server.put(WIDGET, widget(text="app=web"))
    put_labelled(server, "first", "app=web")
    async with operating(server, one) as operator:
        go_on.set()
        await until(lambda: text(server) == "ns/s=first")
        go_on.clear()
        called.clear()
        if during_sync:
            labels = {"a": "b"}
            server.edit(WIDGET, ("ns", "one"), lambda raw: raw["metadata"].update(labels=labels))
            await called.wait()
        server.refuse("GET", "/secrets", RefusedError(404, "NotFound"), math.inf)
        server.close_watches()
        await until(lambda: not operator.synced)
        go_on.set()
        if not during_sync:
            server.edit(WIDGET, ("ns", "one"), edit("app=db"))
        await until(lambda: "KindNotServed: secrets cannot be read" in said(server))
        assert text(server) == "ns/s=first"


async def test_a_change_is_compared_with_few_of_many_that_share_a_label(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared, match = set[Labels](), Labels.match

    def counting(one: Labels, *args: Any) -> bool:
        compared.add(one)
        return match(one, *args)

    for number in range(20):
        server.put(WIDGET, widget(f"w{number}", text=f"app=site site={number}"))
    put_labelled(server, "first", "app=site site=7")
    async with operating(server, selecting()):
        await until(lambda: text(server, "w7") == "ns/s=first" and text(server, "w19"))
        monkeypatch.setattr(Labels, "match", counting)
        server.edit(SECRET, ("ns", "s"), lambda raw: raw["data"].update(text="second"))
        await until(lambda: text(server, "w7") == "ns/s=second")
    assert len(compared) <= 2


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ({}, "labels= returned no label, which would select every Secret; return at least one"),
        ({"app": "a,b"}, "'app': 'a,b' cannot be a label of secrets"),
        ({"tier": 1}, "'tier': 1 cannot be a label of secrets"),
        (None, "what it names of secrets failed: TypeError: "),
    ],
)
async def test_labels_that_cannot_be_meant_are_refused(
    server: ApiServer, labels: Any, why: str
) -> None:
    async with working_on(server, widget(), selecting(lambda _: labels)):
        await until(lambda: said(server).startswith(f"InvalidPlan: {why}"))


# --- without namespaces ---------------------------------------------------------------------------


class Tenant(kr.Resource):
    spec: widgets.Spec = widgets.Spec()


def tenants(**reads: Any) -> Controller:
    """Return a controller of Tenants, which have no namespace; each has a ConfigMap in `ns`."""

    def desired(one: Tenant, context: kr.Context[Any]) -> Iterable[Raw]:
        said = " ".join(f"{'/'.join(key)}={view}" for key, view in context.reads_of(SECRET).items())
        meta = {"namespace": "ns", "name": "w-one"}
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"text": said}}

    one = Controller(TENANT, Tenant, lambda _: None)
    one.owns(CONFIG_MAP)
    one.desired(desired)
    one.reads(SECRET, Secret, transform=lambda secret: secret.data["text"], **reads)
    return one


@pytest.mark.parametrize("every", [None, 60.0])
async def test_an_object_without_a_namespace_names_secrets_of_any(
    server: ApiServer, every: float | None
) -> None:
    put_secret(server, "first")
    server.put(TENANT, {"metadata": {"name": "one"}, "spec": {"text": "s"}})
    keys = lambda tenant: [_named(tenant.spec.text)]  # noqa: E731
    async with operating(server, tenants(keys=keys, every=every)):
        told = "Secret s is named without a namespace"
        await until(lambda: told in ready(server.get(TENANT, ("", "one"))).get("message", ""))
        server.edit(TENANT, ("", "one"), edit("ns/s"))
        await until(lambda: text(server) == "ns/s=first")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (kr.Settings(namespaces=("ns",)), "served: --namespace does not name it"),
        (kr.Settings(namespace_selector="team=a"), "served: --namespace-selector does not select"),
    ],
)
async def test_a_namespace_that_is_not_served_is_not_read(
    server: ApiServer, settings: kr.Settings, told: str
) -> None:
    put_secret(server, "theirs", namespace="other")
    server.put(TENANT, {"metadata": {"name": "one"}})
    async with operating(server, tenants(keys=lambda _: [("other", "s")]), settings=settings):
        await until(lambda: told in ready(server.get(TENANT, ("", "one"))).get("message", ""))

    assert not any("/other/" in request.path for request in server.requests)


async def test_what_is_selected_in_all_is_in_selected_namespaces(server: ApiServer) -> None:
    def label(namespace: str, **labels: str) -> None:
        server.put(NAMESPACE, {"metadata": {"name": namespace, "labels": labels}})

    def reason() -> Any:
        return ready(server.get(TENANT, ("", "one"))).get("reason")

    label("ns", team="a")
    label("other")
    server.put(TENANT, {"metadata": {"name": "one"}})
    put_labelled(server, "first", "app=web")
    put_labelled(server, "second", "app=web", namespace="other")
    settings = kr.Settings(namespace_selector="team=a")
    async with operating(server, tenants(labels=lambda _: {"app": "web"}), settings=settings):
        await until(lambda: text(server) == "ns/s=first")
        label("other", team="a")
        await until(lambda: text(server) == "ns/s=first other/s=second")
        label("other")
        await until(lambda: text(server) == "ns/s=first")
        server.edit(SECRET, ("other", "s"), lambda raw: raw["data"].clear())
        label("other", team="a")
        await until(lambda: reason() == "ReferenceUnreadable")
        label("other")
        await until(lambda: reason() == "Reconciled")


async def test_only_what_is_in_selected_namespaces_counts_for_the_limit(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kopf_runtime.watching.selections.MAX_NAMES", 2)
    server.put(NAMESPACE, {"metadata": {"name": "ns", "labels": {"team": "a"}}})
    server.put(NAMESPACE, {"metadata": {"name": "other"}})
    for name in ("s", "t", "u"):
        put_labelled(server, "theirs", "app=web", name, "other")
    put_labelled(server, "unreadable", "app=web", "v", "other")
    server.edit(SECRET, ("other", "v"), lambda raw: raw["data"].clear())
    for name in ("s", "t"):
        put_labelled(server, name, "app=web", name)
    settings = kr.Settings(namespace_selector="team=a")
    one = tenants(labels=lambda _: {"app": "web"})
    async with operating(server, one, settings=settings) as operator:
        await until(lambda: operator.synced)
        server.put(TENANT, {"metadata": {"name": "one"}})
        await until(lambda: text(server) == "ns/s=s ns/t=t")


@pytest.mark.parametrize("by", ["keys", "labels"])
async def test_objects_without_namespace_are_named_and_selected(server: ApiServer, by: str) -> None:
    def put(zone: str) -> None:
        server.put(NODE, {"metadata": {"name": "n", "labels": {"app": "web", "zone": zone}}})

    def desired(one: Widget, context: kr.Context[Any]) -> Iterable[Raw]:
        (zone,) = context.reads_of(NODE).values()
        for manifest in widgets.config_map(one):
            yield {**manifest, "data": {"text": context.find(NODE, "n") and zone}}

    select: dict[str, Any] = {"keys": lambda _: ["n"], "labels": lambda _: {"app": "web"}}
    one = widgets.controller(desired)
    one.reads(NODE, transform=lambda node: node.metadata.labels["zone"], **{by: select[by]})
    server.put(WIDGET, widget())
    put("a")
    async with operating(server, one):
        await until(lambda: text(server) == "a")
        server.edit(NODE, ("", "n"), lambda raw: raw["metadata"]["labels"].update(zone="b"))
        await until(lambda: text(server) == "b")


async def test_any_object_queues_what_has_no_namespace_by_its_name(server: ApiServer) -> None:
    one = tenants(keys=lambda _: ())
    one.watches(CONFIG_MAP, to=lambda thing: [thing.metadata.name])
    server.put(TENANT, {"metadata": {"name": "one"}})
    async with operating(server, one) as operator:
        await until(lambda: ready(server.get(TENANT, ("", "one"))).get("status") == "True")
        await asyncio.sleep(QUIET)
        before = operator.reconciles(of="tenants")
        server.put(CONFIG_MAP, {"metadata": {"namespace": "any", "name": "one"}})
        await until(lambda: operator.reconciles(of="tenants") > before)


# --- who is queued --------------------------------------------------------------------------------


@pytest.mark.parametrize("project", [None, lambda secret: secret.data["text"]], ids=["all", "some"])
async def test_a_mapped_object_queues_what_it_names(server: ApiServer, project: Any) -> None:
    one = widgets.controller()
    to = lambda secret: secret.data.get("for", "").split()  # noqa: E731
    one.watches(SECRET, Secret, to=to, **{"transform": project} if project else {})
    for name in ("one", "two"):
        server.put(WIDGET, widget(name))

    def change(data: Raw) -> None:
        server.edit(SECRET, ("ns", "s"), lambda raw: raw["data"].update(data))

    async with operating(server, one) as operator:
        await until(lambda: "Reconciled" in said(server) and "Reconciled" in said(server, "two"))
        await asyncio.sleep(QUIET)
        before = operator.reconciles()
        put_secret(server, "open", **{"for": "one"})
        await until(lambda: operator.reconciles() == before + 1)
        change({"beat": "2"})
        await asyncio.sleep(QUIET)
        before += 1 if project else 2
        assert operator.reconciles() == before
        change({"text": "closed"})
        await until(lambda: operator.reconciles() == before + 1)
        change({"for": "two"})
        await until(lambda: operator.reconciles() == before + 3)
        server.delete(SECRET, ("ns", "s"))
        await until(lambda: operator.reconciles() == before + 4)


@pytest.mark.parametrize("namespaces", [("a", "b"), ()], ids=["two", "all"])
async def test_c17_a_first_list_costs_no_square_of_those_that_share_a_value(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch, namespaces: tuple[str, ...]
) -> None:
    """With --namespace, too; and the end of one namespace's list tells the holders in others."""
    added: list[Key] = []
    add = WorkQueue.add

    def adding(self: WorkQueue, key: Key, **options: Any) -> None:
        added.append(key)
        add(self, key, **options)

    monkeypatch.setattr(WorkQueue, "add", adding)
    one = widgets.controller()
    one.index(lambda _: ["a.example"])
    keys = {("ab"[number % 2], f"w{number}") for number in range(50)}
    for namespace, name in keys:
        server.put(WIDGET, widget(name, namespace=namespace))
    settings = kr.Settings(namespaces=namespaces)
    async with operating(server, one, settings=settings, working=False) as operator:
        await until(lambda: operator.synced)

    assert set(added) == keys
    assert len(added) <= 50 * 8


async def test_the_next_holder_of_a_value_follows_the_oldest(server: ApiServer) -> None:
    def desired(one: Widget, context: kr.Context[Any]) -> Iterable[Raw]:
        key = (one.metadata.namespace, one.metadata.name)
        first = context.by_index(hosts, one.spec.text)[0]
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
    assert not hosts.by_index("c.example")


def test_what_is_not_declared_is_an_error_that_says_so() -> None:
    context = kr.Context(kr.Settings(), namespace="ns", reads={SECRET: {("ns", "s"): None}})

    assert context.find(SECRET, "s") is None
    with pytest.raises(kr.Wait, match=r"Secret ns/s does not exist\."):
        context.read(SECRET, "s")
    with pytest.raises(LookupError, match="did not name or select Secret ns/t"):
        context.find(SECRET, "t")
    with pytest.raises(LookupError, match="Node is not read; declare it by"):
        context.reads_of(NODE)
