"""What may hold data is neither deleted nor taken over; one missing kind holds up nothing else."""

import asyncio
import dataclasses
import secrets
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from aiohttp import web

import kopf_runtime as kr
from kopf_runtime.declaring.conditions import condition
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.kinds import CONFIG_MAP, DEPLOYMENT, POD, SECRET, may_hold_data
from kopf_runtime.declaring.records import Update
from kopf_runtime.watching import availability
from runtime import widgets
from runtime.support.api_server import ApiServer, RefusedError
from runtime.support.running import at_work, caches, leading, operating
from runtime.support.waiting import until
from runtime.test_readiness import DEPLOYED
from runtime.widgets import (
    TEMPLATE,
    UID,
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
from runtime.widgets import manifest as named

PVC = kr.kinds.PERSISTENT_VOLUME_CLAIM
MONITOR = kr.Kind("monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor")
KEY, CLAIM = ("ns", "one"), ("ns", "w-one")
OTHERS = kr.Kind("db.example.org", "v1", "databases", "Database")
KINDS = (WIDGET, PVC, MONITOR, SECRET, DEPLOYMENT, CONFIG_MAP, OTHERS)


def claim(thing: Widget, _: object) -> Iterable[Raw]:
    spec = {"resources": {"requests": {"storage": thing.spec.text}}}
    yield named(PVC, f"w-{thing.metadata.name}", spec=spec)


def claims(desired: widgets.Desired = claim, surplus: bool | None = True) -> Controller:
    return owning(desired, PVC, prune=surplus)


def stored(server: ApiServer, kind: kr.Kind, key: tuple[str, str]) -> Raw:
    raw = server.get(kind, key)
    assert raw is not None, f"{kind.kind} {key} is gone"
    return raw


def deletions(server: ApiServer) -> list[str]:
    return [write for write in server.writes if write.startswith("DELETE")]


@pytest.mark.parametrize("text", [(), ("",)], ids=["none", "empty"])
async def test_a_plan_that_is_refused_without_a_word_deletes_nothing(
    server: ApiServer, text: tuple[str, ...]
) -> None:
    def desired(thing: Widget, _: object) -> Iterable[Raw]:
        if thing.spec.text == "bad":
            raise kr.PlanError(*text)
        return claim(thing, _)

    async with reconciled(server, widget(text="1Gi"), claims(desired)):
        server.edit(WIDGET, KEY, edit("bad"))
        await until(lambda: readiness(server).get("reason") == "InvalidPlan")

    assert "without a reason" in readiness(server)["message"]
    assert deletions(server) == []


# --- D1 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["1Gi", 5])  # with a number, it cannot be read, but it lives
async def test_d1_a_claim_of_a_living_object_is_not_taken(server: ApiServer, text: Any) -> None:
    other = server.put(WIDGET, widget("other", text=text))
    labels = {"app.kubernetes.io/managed-by": "message-operator", UID: other["metadata"]["uid"]}
    meta = {"namespace": "ns", "name": "w-one", "labels": labels, "annotations": {TEMPLATE: "x"}}
    server.put(PVC, {"metadata": meta, "spec": {"theirs": True}})
    async with working_on(server, widget(text="1Gi"), claims()):
        await until(lambda: readiness(server).get("reason") == "Conflict")
    assert stored(server, PVC, CLAIM)["spec"] == {"theirs": True}


async def test_d1_a_claim_restored_in_another_namespace_is_adopted(server: ApiServer) -> None:
    """The object that it was made for lives on in the former namespace."""
    other = server.put(WIDGET, widget(namespace="former", text="1Gi"))
    labels = {"app.kubernetes.io/managed-by": "message-operator", UID: other["metadata"]["uid"]}
    meta = {"namespace": "ns", "name": "w-one", "labels": labels, "annotations": {TEMPLATE: "x"}}
    before = server.put(PVC, {"metadata": meta, "spec": {}})
    async with reconciled(server, widget(text="1Gi"), claims()):
        pass

    now = stored(server, PVC, CLAIM)["metadata"]
    assert now["uid"] == before["metadata"]["uid"]
    assert now["labels"][UID] == stored(server, WIDGET, KEY)["metadata"]["uid"]


# --- D2, D3 -------------------------------------------------------------------------------------


class Past:
    """While `stale`, lists of Widgets are answered as they were when this was made."""

    def __init__(self, server: ApiServer) -> None:
        self.stale = False
        self._items = server.all(WIDGET)
        self._version = str(server.version)
        server.answers.append(self._answer)

    async def _answer(self, request: web.Request) -> web.Response | None:
        if not self.stale or request.path != WIDGET.path():
            return None
        if "watch" in request.query:
            return web.Response(content_type="application/json")
        metadata = {"resourceVersion": self._version}
        return web.json_response({"metadata": metadata, "items": self._items})


async def deceived(server: ApiServer, past: Past, controller: Controller) -> None:
    """Restart the operator in the past, until it has asked for the object itself."""
    past.stale, asked = True, len(server.requests)
    async with operating(server, controller):
        await until(lambda: f"GET {WIDGET.at(KEY)}" in map(str, server.requests[asked:]))
        past.stale = False
        generation = stored(server, WIDGET, KEY)["metadata"]["generation"]
        await until(lambda: caches(controller).owners.cache.get(KEY).generation == generation)  # type: ignore[union-attr]
        await until(
            lambda: is_ready(server) and readiness(server)["observedGeneration"] == generation
        )


def so_many(thing: Widget, _: object) -> Iterable[Raw]:
    return (named(PVC, f"w-{number}", spec={}) for number in range(int(thing.spec.text)))


async def test_d2_what_its_user_kept_in_the_last_moment_is_not_deleted(server: ApiServer) -> None:
    """The watch of the claims is late: they are not the object's any more."""
    async with reconciled(server, widget(text="2"), claims(so_many)):
        server.mute = True
        server.edit(PVC, ("ns", "w-1"), lambda raw: raw["metadata"].pop("ownerReferences"))
        server.mute = False
        server.edit(WIDGET, KEY, edit("1"))
        await until(lambda: readiness(server).get("observedGeneration") == 2)

    assert "ownerReferences" not in stored(server, PVC, ("ns", "w-1"))["metadata"]


async def test_what_an_object_leaves_is_the_garbage_collectors(server: ApiServer) -> None:
    gone: list[bool] = []

    async def go(request: web.Request) -> None:
        if request.method == "GET" and request.path.endswith("/widgets/one"):
            server.remove(WIDGET, KEY)
            gone.append(True)

    async with reconciled(server, widget(text="2"), claims(so_many)):
        server.answers.append(go)
        server.edit(WIDGET, KEY, edit("1"))
        await until(lambda: gone)
        await asyncio.sleep(0.2)
    assert deletions(server) == []


async def test_what_changed_unseen_is_read_again_and_deleted_with_what_belongs_to_it(
    server: ApiServer,
) -> None:
    async with reconciled(server, widget(text="2"), claims(so_many)):
        server.mute = True
        server.edit(PVC, ("ns", "w-1"), lambda raw: raw["metadata"].update(finalizers=[]))
        server.mute = False
        server.edit(WIDGET, KEY, edit("1"))
        await until(lambda: server.get(PVC, ("ns", "w-1")) is None)

    assert server.policies == ["Background"] * 2


def by_annotation(thing: Widget, _: object) -> Iterable[Raw]:
    image = (thing.metadata.annotations or {}).get("image", "old")
    yield named(POD, "w-one", spec={"containers": [{"name": "main", "image": image}]})


def replaced(desired: widgets.Desired) -> Controller:
    return owning(desired, POD, update=kr.RECREATE, unready=lambda _: "")


async def test_s3_a_stale_view_changes_no_child_in_place(server: ApiServer) -> None:
    async with reconciled(server, widget(text="1Gi"), claims()):
        past = Past(server)
        server.edit(WIDGET, KEY, edit("2Gi"))
        await until(lambda: readiness(server).get("observedGeneration") == 2 and is_ready(server))
    before = stored(server, PVC, CLAIM)

    await deceived(server, past, claims())

    assert stored(server, PVC, CLAIM) == before


class Secret(kr.Object):
    data: dict[str, str]


def taken(context: kr.Context[Any]) -> int:
    return sum(int(text or 0) for text in context.reads_of(SECRET).values())


def untaken(thing: Widget, context: kr.Context[Any]) -> Iterable[Raw]:
    for number in range(int(thing.spec.text) - taken(context)):
        yield named(PVC, f"w-{number}")


def taking(text: str, name: str = "s") -> Raw:
    meta = {"namespace": "ns", "name": name, "labels": {"app": "w"}}
    return {"metadata": meta, "data": {"text": text}}


BY_NAME: dict[str, Any] = {"keys": lambda _: ["s"]}
BY_LABEL: dict[str, Any] = {"labels": lambda _: {"app": "w"}}


@pytest.mark.parametrize("reads", [{}, BY_NAME], ids=["", "and others"])
async def test_d3_a_stale_view_of_an_annotation_replaces_no_child(
    server: ApiServer, reads: dict[str, Any]
) -> None:
    def controller() -> Controller:
        one = replaced(by_annotation)
        if reads:
            one.reads(SECRET, Secret, transform=lambda secret: secret.data["text"], **reads)
        return one

    def image() -> str:
        pod = server.get(POD, CLAIM) or {"spec": {"containers": [{"image": ""}]}}
        return str(pod["spec"]["containers"][0]["image"])

    server.put(SECRET, taking("0"))
    async with reconciled(server, widget(), controller()):
        past = Past(server)
        server.edit(WIDGET, KEY, lambda raw: raw["metadata"].update(annotations={"image": "new"}))
        await until(lambda: image() == "new" and is_ready(server))
    pod, written = stored(server, POD, CLAIM), len(server.writes)

    await deceived(server, past, controller())

    assert [write for write in server.writes[written:] if "/pods" in write] == []
    assert stored(server, POD, CLAIM) == pod


async def edited_after_a_missed(
    server: ApiServer, change: Callable[[ApiServer], object], text: str
) -> None:
    """Change something that no watch tells of, then the Widget; wait for its reconcile."""
    server.mute = True
    change(server)
    server.mute = False
    server.edit(WIDGET, KEY, edit(text))
    await until(lambda: readiness(server).get("observedGeneration") == 2)


def is_edited(server: ApiServer) -> None:
    server.put(SECRET, taking("0"))


def is_gone(server: ApiServer) -> None:
    server.remove(SECRET, ("ns", "s"))


def is_unlabelled(server: ApiServer) -> None:
    server.edit(SECRET, ("ns", "s"), lambda raw: raw["metadata"].pop("labels"))


def is_unreadable(server: ApiServer) -> None:
    server.put(SECRET, {**taking("0"), "data": "no map"})


def has_company(server: ApiServer) -> None:
    server.put(SECRET, taking("-1", "other"))


@pytest.mark.parametrize(
    ("reads", "change"),
    [
        (BY_NAME, is_edited),
        (BY_NAME, is_gone),
        (BY_NAME, is_unreadable),
        (BY_NAME | {"every": 3600}, is_edited),
        (BY_LABEL, is_edited),
        (BY_LABEL, is_gone),
        (BY_LABEL, is_unlabelled),
        (BY_LABEL, has_company),
    ],
)
async def test_d2_a_stale_view_of_what_is_read_deletes_no_child(
    server: ApiServer, reads: dict[str, Any], change: Callable[[ApiServer], None]
) -> None:
    controller = claims(untaken)
    controller.reads(SECRET, Secret, transform=lambda secret: secret.data["text"], **reads)
    server.put(SECRET, taking("1"))
    async with working_on(server, widget(text="3"), controller):
        await until(lambda: is_ready(server) and server.get(PVC, ("ns", "w-1")))
        await edited_after_a_missed(server, change, "2")  # two are untaken again

    assert deletions(server) == []


def member(server: ApiServer, name: str, role: str = "member") -> None:
    """Put what belongs to a child of the Widget."""
    owner = stored(server, WIDGET, KEY)["metadata"]["uid"]
    labels = {"app.kubernetes.io/managed-by": "message-operator", UID: owner, "role": role}
    meta = {"namespace": "ns", "name": name, "labels": labels}
    server.put(POD, {"metadata": {**meta, "annotations": {"example.dev/widget-name": "one"}}})


@pytest.mark.parametrize(
    "change",
    [
        lambda server: member(server, "other"),
        lambda server: server.remove(POD, ("ns", "p")),
        lambda server: member(server, "p", role="leader"),
    ],
    ids=["new", "gone", "edited"],
)
async def test_d2_a_stale_view_of_what_is_there_deletes_no_child(
    server: ApiServer, change: Callable[[ApiServer], object]
) -> None:
    controller = Controller(WIDGET, Widget, None)
    controller.owns(PVC, prune=True)
    controller.descendants(POD, transform=lambda pod: pod.metadata.labels["role"])

    @controller.desired(stepwise=True)
    def desired(thing: Widget, context: kr.StepContext[Any]) -> Iterable[Raw]:
        if thing.spec.text == "1" or [pod.view for pod in context.descendants[POD]] != ["member"]:
            yield named(PVC, "w-one")

    server.put(WIDGET, widget(text="1"))
    member(server, "p")
    async with operating(server, controller):
        await until(lambda: is_ready(server) and caches(controller).descendants[POD].cache)
        await edited_after_a_missed(server, change, "2")

    assert deletions(server) == []


async def test_a_child_with_another_label_is_not_taken_for_gone(server: ApiServer) -> None:
    controller = Controller(WIDGET, Widget, None)
    controller.owns(MONITOR, prune=False)
    controller.owns(PVC, prune=True)

    @controller.desired(stepwise=True)
    def desired(thing: Widget, context: kr.StepContext[Any]) -> Iterable[Raw]:
        yield from [named(MONITOR, "m")] if thing.spec.text == "1" else []
        yield from (named(PVC, monitor.key[1]) for monitor in context.children_of(MONITOR))
        yield from [named(PVC, "spare")] if thing.spec.text != "3" else []

    async with working_on(server, widget(text="1"), controller):
        await until(lambda: is_ready(server) and server.get(PVC, ("ns", "m")))
        server.edit(WIDGET, KEY, edit("2"))
        await until(lambda: readiness(server).get("observedGeneration") == 2)
        server.edit(MONITOR, ("ns", "m"), lambda raw: raw["metadata"]["labels"].update({UID: "x"}))
        server.edit(WIDGET, KEY, edit("3"))
        await until(lambda: server.get(PVC, ("ns", "spare")) is None)
        await until(lambda: readiness(server).get("observedGeneration") == 3)

    assert server.get(PVC, ("ns", "m"))


async def test_what_came_unseen_in_the_place_of_a_child_is_not_changed(server: ApiServer) -> None:
    def is_another(server: ApiServer) -> None:
        server.remove(PVC, CLAIM)
        server.put(PVC, {"metadata": {"namespace": "ns", "name": "w-one"}, "spec": {"theirs": 1}})

    async with reconciled(server, widget(text="1Gi"), claims()):
        await edited_after_a_missed(server, is_another, "2Gi")
    assert stored(server, PVC, CLAIM)["spec"] == {"theirs": 1}


async def test_d3_a_stale_view_of_what_is_read_replaces_no_child(server: ApiServer) -> None:
    def sums(thing: Widget, context: kr.Context[Any]) -> Iterable[Raw]:
        (pod,) = widgets.pod(thing)
        value = str(int(thing.spec.text) + taken(context))
        pod["spec"]["containers"][0]["env"] = [{"name": "TEXT", "value": value}]
        yield pod

    controller = replaced(sums)
    controller.reads(SECRET, Secret, transform=lambda secret: secret.data["text"], **BY_NAME)
    server.put(SECRET, taking("1"))
    async with reconciled(server, widget(text="1"), controller):
        await edited_after_a_missed(server, is_edited, "2")

    assert deletions(server) == []


async def test_what_deletes_nothing_asks_for_nothing_that_is_read_again(server: ApiServer) -> None:
    controller = claims(untaken)
    controller.reads(SECRET, Secret, transform=lambda secret: secret.data["text"], **BY_NAME)
    server.put(SECRET, taking("1"))
    async with reconciled(server, widget(text="2"), controller):
        server.edit(WIDGET, KEY, edit("3"))
        await until(lambda: is_ready(server) and server.get(PVC, ("ns", "w-1")))
        assert f"GET {SECRET.at(('ns', 's'))}" not in map(str, server.requests)
        server.edit(WIDGET, KEY, edit("2"))
        await until(lambda: server.get(PVC, ("ns", "w-1")) is None)
        assert f"GET {SECRET.at(('ns', 's'))}" in map(str, server.requests)


@pytest.mark.parametrize(
    "change",
    [
        lambda server: server.edit(WIDGET, ("ns", "older"), edit("another")),
        lambda server: server.remove(WIDGET, ("ns", "older")),
    ],
    ids=["given up", "gone"],
)
async def test_d2_a_stale_view_of_an_index_deletes_no_child(
    server: ApiServer, change: Callable[[ApiServer], object]
) -> None:
    def desired(thing: Widget, context: kr.Context[Any]) -> Iterable[Raw]:
        if context.by_index(hosts, thing.spec.text)[0] == thing.metadata.key:
            yield named(PVC, f"w-{thing.metadata.name}")

    controller = claims(desired)
    hosts = controller.index(lambda thing: [thing.spec.text])
    for second, name in enumerate(("older", "one"), 1):
        stamp = f"2026-01-01T00:00:0{second}Z"
        server.put(WIDGET, widget(name, text=f"{name}'s", creationTimestamp=stamp))
    async with operating(server, controller):
        await until(lambda: is_ready(server) and server.get(PVC, CLAIM))
        await edited_after_a_missed(server, change, "older's")

    assert deletions(server) == []


async def test_d2_a_holder_that_no_watch_has_brought_keeps_the_child(server: ApiServer) -> None:
    def desired(thing: Widget, context: kr.Context[Any]) -> Iterable[Raw]:
        if len(context.by_index(texts, thing.spec.text)) > 1:
            yield named(PVC, f"w-{thing.metadata.name}")

    controller = claims(desired)
    texts = controller.index(lambda thing: [thing.spec.text])
    for name in ("one", "other"):
        server.put(WIDGET, widget(name, text="shared"))
    async with operating(server, controller):
        await until(lambda: is_ready(server) and server.get(PVC, CLAIM))
        server.mute = True
        server.put(WIDGET, widget("newer", text="shared"))
        server.mute = False
        server.edit(WIDGET, ("ns", "other"), edit("alone"))
        await until(lambda: server.get(PVC, ("ns", "w-newer")))  # it was listed

    assert server.get(PVC, CLAIM)
    assert [path for path in deletions(server) if "w-other" not in str(path)] == []


async def test_many_deletions_share_the_lists_of_what_an_index_has(server: ApiServer) -> None:
    def desired(thing: Widget, context: kr.Context[Any]) -> Iterable[Raw]:
        if thing.spec.text == "kept":
            yield named(PVC, f"w-{thing.metadata.name}")

    controller = claims(desired)
    controller.index(lambda thing: ["all"])
    names = [f"o{number:02}" for number in range(30)]
    for name in names:
        server.put(WIDGET, widget(name, text="kept"))
    async with operating(server, controller):
        await until(lambda: all(server.get(PVC, ("ns", f"w-{name}")) for name in names))
        before = lists(server)
        for name in names:
            server.edit(WIDGET, ("ns", name), edit("gone"))
        await until(lambda: not any(server.get(PVC, ("ns", f"w-{name}")) for name in names))

    assert 1 <= lists(server) - before < len(names)


def lists(server: ApiServer) -> int:
    """Return how often the kind was listed."""
    return sum(
        str(request).startswith("GET")
        and request.path.endswith(f"/{WIDGET.plural}")
        and "watch" not in request.query
        for request in server.requests
    )


# --- D4 -----------------------------------------------------------------------------------------


def with_folder(thing: Widget, _: object) -> Iterable[Raw]:
    """A Pod with a field more before the edit."""
    (pod,) = widgets.pod(thing)
    if thing.spec.text == "old":
        pod["spec"]["containers"][0]["workingDir"] = "/srv"
    yield pod


async def test_d4_a_standby_that_saw_an_older_edit_replaces_no_child(server: ApiServer) -> None:
    async with reconciled(server, widget(text="old"), replaced(with_folder)):
        pass
    async with operating(server, controller := replaced(with_folder), working=False) as standby:
        await until(lambda: standby.synced)
        server.mute = True
        server.edit(WIDGET, KEY, edit("new"))
        async with operating(server, replaced(with_folder)):
            await until(lambda: is_ready(server) and readiness(server)["observedGeneration"] == 2)
        server.mute = False
        server.edit(POD, CLAIM, lambda raw: raw["metadata"]["labels"].update(team="blue"))
        await until(
            lambda: (
                caches(controller).children[POD].cache.get(CLAIM).template  # type: ignore[union-attr]
                == stored(server, POD, CLAIM)["metadata"]["annotations"][TEMPLATE]
            )
        )
        server.edit(WIDGET, KEY, lambda raw: raw["metadata"].update(labels={"team": "blue"}))
        await until(lambda: caches(controller).owners.cache.get(KEY).generation == 2)  # type: ignore[union-attr]
        written = len(server.writes)
        async with leading(controller):
            queue = at_work(controller).queue
            await until(lambda: queue.running and not len(queue))
            await asyncio.sleep(0.2)

    assert server.writes[written:] == []


# --- D8, D9 -------------------------------------------------------------------------------------


def dated(thing: Widget, _: object) -> Iterable[Raw]:
    """A Pod with a field that the API server sets, so that nobody owns it."""
    for pod in widgets.pod(thing):
        pod["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
        yield pod


@pytest.mark.parametrize("update", [Update.APPLY, kr.RECREATE], ids=str)
async def test_d8_a_field_that_the_api_server_does_not_keep_is_not_sent_again_and_again(
    server: ApiServer, update: Update
) -> None:
    controller = owning(dated, POD, update=update, unready=lambda _: "")
    async with reconciled(server, widget(), controller, settings=kr.Settings(resync_period=0.05)):
        writes = len(server.writes)
        await widgets.resynced(server)
        assert server.writes[writes:] == []

        def alter(raw: Raw) -> None:
            raw["spec"]["containers"][0]["env"][0]["value"] = "altered"

        server.edit(POD, CLAIM, alter)  # which is told nevertheless
        await until(lambda: "hello" in str(server.get(POD, CLAIM)))


async def test_d8_a_field_that_was_not_kept_hides_no_later_change(server: ApiServer) -> None:
    def dated_before(thing: Widget, _: object) -> Iterable[Raw]:
        """First a field that the API server sets, later one that somebody takes away."""
        for child in widgets.config_map(thing):
            if thing.spec.text == "dated":
                child["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
            else:
                child["data"]["more"] = "kept"
            yield child

    def more() -> Any:
        return stored(server, CONFIG_MAP, CLAIM)["data"].get("more")

    async with reconciled(server, widget(text="dated"), widgets.controller(dated_before)):
        server.edit(WIDGET, KEY, edit("hello"))
        await until(lambda: more() == "kept" and readiness(server)["observedGeneration"] == 2)

        server.edit(CONFIG_MAP, CLAIM, lambda raw: raw["data"].pop("more"))
        await until(lambda: more() == "kept")


async def test_b1_an_empty_text_that_somebody_takes_away_comes_back(server: ApiServer) -> None:
    def with_empty(thing: Widget, _: object) -> Iterable[Raw]:
        for child in widgets.config_map(thing):
            child["data"]["more"] = ""
            yield child

    async with reconciled(server, widget(), widgets.controller(with_empty)):
        refused = server.refuse("PATCH", "/w-one$", FORBIDDEN, times=float("inf"))  # of a dry run
        server.edit(CONFIG_MAP, CLAIM, lambda raw: raw["data"].pop("more"))
        await until(lambda: refused)
        await asyncio.sleep(0.2)
        assert is_ready(server)  # what cannot be tried is not known
        server.answers.clear()
        server.refuse("PATCH", "/w-one$", RefusedError(429, "TooManyRequests"))
        server.edit(CONFIG_MAP, CLAIM, lambda raw: raw["metadata"].update(finalizers=[]))
        await until(lambda: stored(server, CONFIG_MAP, CLAIM)["data"].get("more") == "")


async def test_b1_what_admission_takes_from_an_item_stays_away_though_others_add_to_it(
    server: ApiServer,
) -> None:
    def with_command(thing: Widget, _: object) -> Iterable[Raw]:
        (pod,) = widgets.pod(thing)
        pod["spec"]["containers"][0]["command"] = ["sh"]
        yield pod

    def admit(kind: kr.Kind, raw: Raw) -> None:
        if kind == POD:
            raw["spec"]["containers"][0].pop("command", None)

    server.admission = admit
    async with reconciled(server, widget(), replaced(with_command)):
        pass
    server.edit(POD, CLAIM, lambda raw: raw["spec"].update(tolerations=[{"key": "spot"}]))
    before = len(server.writes)
    async with operating(
        server, replaced(with_command), settings=kr.Settings(resync_period=0.1)
    ) as operator:
        await until(lambda: operator.synced)
        await widgets.resynced(server)
    assert server.writes[before:] == []


async def test_d9_a_random_password_that_was_lost_is_made_again(server: ApiServer) -> None:
    def random(*_: Any) -> Iterable[Raw]:
        yield named(SECRET, "w-one", stringData={"password": secrets.token_hex()})

    controller = owning(random, SECRET, update=kr.CREATE, prune=True)
    async with reconciled(server, widget(), controller, settings=kr.Settings(resync_period=0.05)):
        drawn, asked = stored(server, SECRET, CLAIM), len(server.requests)
        server.edit(SECRET, CLAIM, lambda raw: raw["data"].update(more=""))
        await widgets.resynced(server)
        assert stored(server, SECRET, CLAIM)["data"] == {**drawn["data"], "more": ""}
        assert not [one for one in server.requests[asked:] if "/secrets/" in one.path]

        server.remove(SECRET, CLAIM)
        await until(lambda: server.get(SECRET, CLAIM), seconds=10)
        assert stored(server, SECRET, CLAIM)["data"] != drawn["data"]
        await until(lambda: is_ready(server))


# --- D6 -----------------------------------------------------------------------------------------


def monitored(thing: Widget, _: object = None) -> Iterable[Raw]:
    """A ConfigMap for each, and a ServiceMonitor where the text asks for it."""
    yield from widgets.config_map(thing)
    if thing.spec.text == "monitored":
        yield named(MONITOR, f"w-{thing.metadata.name}")


def optional() -> Controller:
    controller = widgets.controller(monitored)
    controller.owns(MONITOR, prune=True)
    return controller


NOT_FOUND = RefusedError(404, "NotFound", "the server could not find the requested resource")
FORBIDDEN = RefusedError(403, "Forbidden", "you may not")
BROKEN = RefusedError(500, "InternalError", "the conversion webhook failed")


@pytest.mark.parametrize("error", [NOT_FOUND, FORBIDDEN, BROKEN], ids=lambda e: str(e.code))
async def test_d6_a_missing_kind_stops_only_what_needs_it(
    server: ApiServer, error: RefusedError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(availability, "PATIENCE", 0.3)
    server.refuse("GET", "/servicemonitors$", error, times=float("inf"))
    server.put(WIDGET, widget("plain"))
    async with working_on(server, widget(text="monitored"), controller := optional()):
        await until(lambda: readiness(server).get("reason") == "KindNotServed")
        await until(lambda: readiness(server, ("ns", "plain")).get("status") == "True")

        assert readiness(server)["status"] == "False"
        assert readiness(server)["message"].startswith("servicemonitors cannot be served: ")
        assert server.get(CONFIG_MAP, CLAIM)
        assert caches(controller).unserved()[1] == 1  # so the operator is ready
        server.answers.clear()
        await until(lambda: is_ready(server))
    assert server.get(MONITOR, CLAIM)


async def test_d6_a_missing_kind_keeps_no_object_from_its_end(server: ApiServer) -> None:
    cleaned: list[str] = []
    controller = optional()

    @controller.finalize()
    async def clean(thing: Widget, *_: Any) -> None:
        cleaned.append(thing.metadata.name)

    server.refuse("GET", "/servicemonitors$", NOT_FOUND, times=float("inf"))
    async with working_on(server, widget(text="monitored"), controller):
        await until(lambda: readiness(server).get("reason") == "KindNotServed")
        server.delete(WIDGET, KEY)

        await until(lambda: server.get(WIDGET, KEY) is None)
    assert cleaned == ["one"]


async def test_d6_a_cleanup_that_looks_at_children_ends_once_their_kind_is_gone(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(availability, "PATIENCE", 0.2)
    monkeypatch.setattr("kopf_runtime.declaring.context.UNSEEN", 0.5)
    cleaned: list[list[str]] = []
    controller = optional()

    @controller.finalize()
    async def clean(_: Widget, context: kr.CallContext[Any]) -> None:
        cleaned.append([child.key[1] for child in context.children])

    server.refuse("GET", "/servicemonitors$", FORBIDDEN, times=float("inf"))
    async with working_on(server, widget(text="monitored"), controller):
        await until(lambda: server.get(CONFIG_MAP, CLAIM))
        server.delete(WIDGET, KEY)
        await until(
            lambda: "To give up, remove its finalizer" in readiness(server).get("message", "")
        )
        assert not cleaned  # there may be some

        server.answers.clear()
        server.refuse("GET", "/servicemonitors$", NOT_FOUND, times=float("inf"))
        await until(lambda: server.get(WIDGET, KEY) is None, 15.0)
    assert cleaned == [["w-one"]]


async def test_t10_a_surplus_child_waits_while_another_kind_cannot_be_served(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the plan wants none of that kind any more: those that are there cannot be seen."""
    monkeypatch.setattr(availability, "PATIENCE", 0.2)

    def desired(thing: Widget, _: object) -> Iterable[Raw]:
        if thing.spec.text == "all":
            yield named(MONITOR, "w-one")
            yield named(PVC, "w-one")

    async with working_on(server, widget(text="all"), owning(desired, MONITOR, PVC, prune=True)):
        await until(lambda: server.get(PVC, CLAIM) and is_ready(server))
    server.refuse("GET", "/servicemonitors$", FORBIDDEN, times=float("inf"))
    async with operating(server, owning(desired, MONITOR, PVC, prune=True)):
        server.edit(WIDGET, KEY, edit("none"))
        await until(lambda: readiness(server).get("reason") == "KindNotServed")
        assert deletions(server) == []

        server.answers.clear()
        await until(lambda: server.get(PVC, CLAIM) is None and server.get(MONITOR, CLAIM) is None)


# --- what a stepwise plan does not see ----------------------------------------------------------


def members(seen: list[int] | None = None, *, optional: bool = False) -> Controller:
    """One more monitor for each that is there, up to three, each with a claim."""
    controller = Controller(WIDGET, Widget, None)
    controller.owns(MONITOR, optional=optional, prune=True)
    controller.owns(PVC, prune=True)

    @controller.desired(stepwise=True)
    def desired(_: Widget, context: kr.StepContext[Any]) -> Iterable[Raw]:
        there = len(context.children_of(MONITOR))
        if seen is not None:
            seen.append(there)
        for number in range(min(3, there + 1)):
            yield named(MONITOR, f"m-{number}")
            yield named(PVC, f"data-{number}")

    return controller


@pytest.mark.parametrize("error", [NOT_FOUND, FORBIDDEN, BROKEN], ids=lambda e: str(e.code))
async def test_members_whose_kind_cannot_be_listed_after_a_restart_keep_their_claims(
    server: ApiServer, error: RefusedError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(availability, "PATIENCE", 0.2)
    async with working_on(server, widget(), members()):
        await until(lambda: server.get(PVC, ("ns", "data-2")))
    server.refuse("GET", "/servicemonitors$", error, times=float("inf"))
    async with operating(server, members()):
        await until(lambda: readiness(server).get("reason") == "KindNotServed")
        server.answers.clear()
        await until(lambda: is_ready(server))
    assert deletions(server) == []


@pytest.mark.parametrize("optional", [False, True])
async def test_one_answer_that_the_kind_of_members_is_unknown_deletes_no_claim(
    server: ApiServer, optional: bool
) -> None:
    server.put(WIDGET, widget())
    often = kr.Settings(resync_period=0.3)
    async with operating(server, members(optional=optional), settings=often):
        await until(lambda: server.get(PVC, ("ns", "data-2")) and is_ready(server))
        refused = server.refuse("GET", "/servicemonitors$", NOT_FOUND)
        await until(lambda: refused)
        await widgets.resynced(server, MONITOR)
        assert is_ready(server)
    assert deletions(server) == []


async def test_a_new_leader_with_a_late_watch_deletes_no_claim(server: ApiServer) -> None:
    late = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse | None:
        if not (request.path.endswith("/servicemonitors") and "watch" in request.query):
            return None
        if standby.synced and not leads:
            response = web.StreamResponse()
            await response.prepare(request)
            await late.wait()
            return response
        return None

    seen, leads = list[int](), list[str]()
    controller = members(seen)
    async with operating(server, controller, working=False) as standby:
        server.answers.append(answer)
        await until(lambda: standby.synced)
        await asyncio.sleep(0.2)  # until its watches are open
        leads.append("another replica")
        async with working_on(server, widget(), members()):
            await until(lambda: server.get(PVC, ("ns", "data-2")) and is_ready(server))
        await until(lambda: len(caches(controller).children[PVC].cache) == 3)
        assert len(caches(controller).children[MONITOR].cache) == 0
        async with leading(controller):
            await until(lambda: len(caches(controller).children[MONITOR].cache) == 3)
            await until(lambda: not len(at_work(controller).queue))
            await asyncio.sleep(0.2)
        late.set()
    assert deletions(server) == []
    assert set(seen) == {3}  # it has listed all again before it plans


async def test_a_status_that_no_watch_has_brought_keeps_a_claim(server: ApiServer) -> None:
    controller, asked = Controller(WIDGET, Widget, None), list[web.Request]()
    controller.owns(PVC, prune=True)

    @controller.desired(stepwise=True)
    def desired(thing: Widget, context: kr.StepContext[Any]) -> Iterable[Raw]:
        if thing.spec.text == "first" or "kept" in context.stored:
            yield named(PVC, "data")

    async def record(request: web.Request) -> None:
        if request.method == "GET" and request.path.endswith("/widgets/one") and not asked:
            asked.append(request)
            server.mute = True
            server.edit(WIDGET, KEY, lambda raw: raw["status"].update(kept=1), subresource="status")
            server.mute = False

    async with reconciled(server, widget(text="first"), controller):
        server.answers.append(record)
        server.edit(WIDGET, KEY, edit("next"))
        await until(lambda: readiness(server).get("observedGeneration") == 2)
    assert (len(asked), deletions(server)) == (1, [])


async def test_unseen_grandchildren_keep_the_claims_made_for_them(server: ApiServer) -> None:
    def joined() -> Controller:
        controller = Controller(WIDGET, Widget, None)
        controller.owns(PVC, prune=True)
        controller.descendants(POD, transform=lambda _: None)

        @controller.desired(stepwise=True)
        def desired(_: Widget, context: kr.StepContext[Any]) -> Iterable[Raw]:
            yield from (named(PVC, pod.key[1]) for pod in context.descendants[POD])

        return controller

    server.put(WIDGET, widget())
    member(server, "p")
    async with operating(server, joined()):
        await until(lambda: server.get(PVC, ("ns", "p")))
    server.refuse("GET", "/pods$", FORBIDDEN, times=float("inf"))
    async with operating(server, joined()):
        await until(lambda: readiness(server).get("reason") == "KindNotServed")
    assert deletions(server) == []


async def test_a_claim_stays_while_what_takes_its_place_cannot_be_made(server: ApiServer) -> None:
    def desired(thing: Widget, *_: Any) -> Iterable[Raw]:
        return [named(MONITOR if thing.spec.text == "moved" else PVC, "data")]

    controller = claims(desired)
    controller.owns(MONITOR, prune=True)
    server.refuse("GET", "/servicemonitors$", FORBIDDEN, times=float("inf"))
    async with reconciled(server, widget(), controller):
        server.edit(WIDGET, KEY, edit("moved"))
        await until(lambda: readiness(server).get("reason") == "KindNotServed")
        assert deletions(server) == []
        server.answers.clear()
        await until(lambda: server.get(MONITOR, ("ns", "data")))
        await until(lambda: server.get(PVC, ("ns", "data")) is None)


# --- D10, D11 -----------------------------------------------------------------------------------


async def test_d10_children_are_seen_while_sync_fails_after_a_restart(server: ApiServer) -> None:
    def booked(error: Exception | None) -> Controller:
        controller = widgets.controller(lambda thing, *_: widgets.config_map(thing))

        @controller.sync()
        async def sync(*_: Any) -> None:
            if error is not None:
                raise error

        @controller.status
        def status(_: Any, seen: kr.Observed) -> kr.Status:
            count = {"children": len(seen.children)}
            return dataclasses.replace(kr.default_status(seen), fields=count)

        return controller

    async with reconciled(server, widget(), booked(None)):
        pass
    async with operating(server, booked(ConnectionError("the outside is away"))):
        await until(lambda: readiness(server).get("reason") == "SyncFailed")

    assert stored(server, WIDGET, KEY)["status"]["children"] == 1


def by_status(thing: Widget, _: object) -> Iterable[Raw]:
    """A child that would be another one once the status is written."""
    for child in widgets.config_map(thing):
        yield {**child, "data": {"conditions": str(len(thing.status.get("conditions", ())))}}


async def test_d11_a_plan_sees_no_status_so_a_lost_child_comes_back(server: ApiServer) -> None:
    async with reconciled(server, widget(), widgets.controller(by_status)):
        server.edit(CONFIG_MAP, CLAIM, lambda raw: raw["metadata"].update(labels={"app": "other"}))
        await until(lambda: (server.get(CONFIG_MAP, CLAIM) or {})["metadata"]["labels"].get(UID))
        server.remove(CONFIG_MAP, CLAIM)

        await until(lambda: server.get(CONFIG_MAP, CLAIM) or readiness(server)["status"] == "False")
        await until(lambda: is_ready(server))


# --- D12, R4 ------------------------------------------------------------------------------------


async def test_d12_a_status_that_is_refused_is_told_once_also_with_a_new_trouble(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    def refusals() -> list[Raw]:
        return [sent for sent in server.events if sent["reason"] == "StatusRefused"]

    invalid = RefusedError(422, "Invalid", "status.phase: may not be new")
    refused = server.refuse("PATCH", "/widgets/one/status$", invalid, times=float("inf"))
    async with working_on(server, widget(), replaced(widgets.pod)) as operator:
        await until(lambda: refused and server.get(POD, CLAIM) and refusals())
        away = RefusedError(503, "ServiceUnavailable", "it is away")
        server.refuse("POST", "/pods$", away, times=float("inf"))
        server.remove(POD, CLAIM)
        tried = len(refused) + 3
        await until(lambda: len(refused) >= tried, seconds=20)
        assert operator.metric("status_writes_refused_total", resource="widgets") >= tried - 1
        server.answers.clear()
        await until(lambda: is_ready(server), seconds=20)

    (event,) = refusals()
    assert (event["type"], event["count"]) == ("Warning", 1)
    assert "status.phase: may not be new" in event["message"]
    assert len([line for line in caplog.messages if "status cannot be written" in line]) == 1


async def test_r4_children_that_admission_renames_come_slower_and_slower(server: ApiServer) -> None:
    def rename(kind: kr.Kind, raw: Raw) -> None:
        if kind == POD:
            raw["metadata"]["name"] = "renamed"

    server.admission = rename
    async with working_on(server, widget(), replaced(widgets.pod)):
        await until(lambda: readiness(server).get("reason") == "BackOff")

    assert "admission renamed it" in readiness(server)["message"]
    assert len([write for write in server.writes if write.startswith("POST")]) <= 8
    assert server.all(POD) == []


# --- what becomes of children that are no longer wanted, if an author forgets to say it -----------


CHILD = ("ns", "w")
HOLDING = (PVC, SECRET, OTHERS)


def unless_empty(thing: Widget, _: object) -> Iterable[Raw]:
    """Forget that nothing to return is not the same as nothing to change."""
    if thing.spec.text != "empty":
        yield from (named(kind, "w") for kind in (CONFIG_MAP, *HOLDING))


def kept(server: ApiServer) -> Raw:
    return condition((server.get(WIDGET, KEY) or {}).get("status") or {}, "ChildrenKept")


def test_nothing_of_kubernetes_own_groups_but_a_few_kinds_may_hold_data() -> None:
    claim = kr.Kind("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
    request = kr.Kind("certificates.k8s.io", "v1", "certificatesigningrequests", "Request")
    assert [kind for kind in (claim, request, *HOLDING) if may_hold_data(kind)] == [*HOLDING]


async def test_a_plan_that_is_empty_deletes_nothing_that_may_hold_data(server: ApiServer) -> None:
    async with reconciled(server, widget(), owning(unless_empty, CONFIG_MAP, *HOLDING)):
        server.edit(WIDGET, KEY, edit("empty"))
        await until(lambda: server.get(CONFIG_MAP, CHILD) is None and kept(server))
        assert kept(server)["status"] == "True"
        said = "PersistentVolumeClaim w, Secret w, Database w. It stays because it may hold data"
        assert said in kept(server)["message"]
        assert all(server.get(kind, CHILD) for kind in HOLDING)

        for kind in HOLDING:
            server.remove(kind, CHILD)
        await until(lambda: kept(server)["status"] == "False")


async def test_what_may_hold_data_goes_if_its_author_says_so(server: ApiServer) -> None:
    """And a deletion whose answer is lost is an Event, too."""

    async def lose(request: web.Request) -> web.StreamResponse | None:
        if request.method != "DELETE" or "/configmaps/" not in request.path:
            return None
        server.answers.clear()
        answer = await server._serve(request)
        assert request.transport is not None
        request.transport.close()
        return answer

    one = owning(unless_empty, CONFIG_MAP, *HOLDING, prune=True)
    server.answers.append(lose)
    async with reconciled(server, widget(), one):
        server.edit(WIDGET, KEY, edit("empty"))
        await until(lambda: not any(server.get(kind, CHILD) for kind in HOLDING))
        lost = "Asked without an answer to delete ConfigMap w: the Widget does not want it any more"
        await until(lambda: any(lost in event["message"] for event in server.events))
    assert not kept(server)


def hashed(thing: Widget, _: object) -> Iterable[Raw]:
    """A ConfigMap whose name changes with its content, and what mounts it."""
    name = f"pages-{thing.spec.text}"
    yield named(CONFIG_MAP, name)
    yield named(DEPLOYMENT, "w", spec={"replicas": 3, "pages": name})


async def test_a3_a_config_map_stays_until_its_rollout_has_ended(server: ApiServer) -> None:
    def rolls(**status: Any) -> None:
        server.edit(DEPLOYMENT, CHILD, lambda raw: raw.update(status=status), subresource="status")

    def mounts(name: str) -> Callable[[], bool]:
        return lambda: name in str(server.get(DEPLOYMENT, CHILD))

    def pages() -> list[str]:
        return sorted(raw["metadata"]["name"] for raw in server.all(CONFIG_MAP))

    async with working_on(server, widget(text="a"), owning(hashed, CONFIG_MAP, DEPLOYMENT)):
        await until(lambda: server.get(DEPLOYMENT, CHILD))
        rolls(**DEPLOYED)
        await until(lambda: ready(server.get(WIDGET, KEY)).get("status") == "True")
        for text in "bc":  # two edits, whose rollouts are stuck
            server.edit(WIDGET, KEY, edit(text))
            await until(mounts(f"pages-{text}"))
            generation = (server.get(DEPLOYMENT, CHILD) or {})["metadata"].get("generation", 1)
            rolls(**{**DEPLOYED, "observedGeneration": generation, "updatedReplicas": 1})
            await until(lambda: "1 of 3" in ready(server.get(WIDGET, KEY)).get("message", ""))
        assert pages() == ["pages-a", "pages-b", "pages-c"]

        rolls(**{**DEPLOYED, "observedGeneration": generation})
        await until(lambda: pages() == ["pages-c"])
