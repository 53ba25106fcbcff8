"""What is made, replaced, changed in place, left alone and deleted; and what is told of it."""

import asyncio
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web

import kopf_runtime as kr
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.kinds import CONFIG_MAP, POD
from kopf_runtime.declaring.records import Update
from runtime import widgets
from runtime.support.api_server import ApiServer, RefusedError
from runtime.support.running import NAME, at_work, caches, leading, operating
from runtime.support.waiting import until
from runtime.widgets import (
    REPLACED,
    UID,
    WIDGET,
    Raw,
    Widget,
    edit,
    manifest,
    otherwise,
    owning,
    readiness,
    ready,
    reconciled,
    reference,
    resynced,
    widget,
    working_on,
)

KEY, CHILD = ("ns", "one"), ("ns", "w-one")
MANAGED = "app.kubernetes.io/managed-by"
LABELS = (MANAGED, UID, "app")
#: The metadata of a child whose object of the same name is gone.
OF_A_FORMER_OBJECT: dict[str, Any] = {
    "labels": {MANAGED: "message-operator", UID: "former"},
    "ownerReferences": [reference("former")],
}


def child(server: ApiServer) -> Any:
    return server.get(CONFIG_MAP, CHILD) or server.get(POD, CHILD) or {}


def text(server: ApiServer) -> Any:
    one = child(server)
    if "spec" in one:
        return one["spec"]["containers"][0]["env"][0]["value"]
    return (one.get("data") or {}).get("text")


def events(server: ApiServer) -> list[tuple[str, str]]:
    return [(event["reason"], event["message"]) for event in server.events]


async def quiet(server: ApiServer) -> None:
    """Wait until nothing is written any more."""
    async with asyncio.timeout(60):
        while True:
            before = len(server.writes)
            await asyncio.sleep(0.25)
            if len(server.writes) == before:
                return


@pytest.fixture
async def made(server: ApiServer, how: Any) -> Any:
    """A Widget with its child, and the operator that made it."""
    async with working_on(server, widget(), widgets.controller(how)) as operator:
        await until(lambda: text(server) == "hello" and readiness(server).get("status") == "True")
        yield operator


both = pytest.mark.parametrize("how", [widgets.config_map, widgets.pod], ids=["apply", "replace"])
applied = pytest.mark.parametrize("how", [widgets.config_map], ids=["apply"])
replaced = pytest.mark.parametrize("how", [widgets.pod], ids=["replace"])


@both
@pytest.mark.usefixtures("made")
async def test_a_child_is_made_with_its_owner_and_told_once(server: ApiServer) -> None:
    await quiet(server)
    owner = server.get(WIDGET, KEY) or {}

    # Nothing more: blockOwnerDeletion would require the right to finalize the owner.
    uid = owner["metadata"]["uid"]
    assert child(server)["metadata"]["ownerReferences"] == [reference(uid)]
    assert owner["status"]["observedGeneration"] == 1
    assert len(server.writes) == 2  # the child and the status
    await until(lambda: events(server))
    assert [reason for reason, _ in events(server)] == ["Created"]


@both
@pytest.mark.usefixtures("made")
async def test_an_edit_ends_in_the_child(server: ApiServer) -> None:
    before, asked = child(server)["metadata"]["uid"], len(server.requests)
    for last in ("2", "3", "edited"):
        server.edit(WIDGET, KEY, edit(last))

    await until(lambda: text(server) == "edited")
    await until(lambda: (server.get(WIDGET, KEY) or {})["status"]["observedGeneration"] == 4)
    await quiet(server)
    in_place = child(server)["metadata"]["uid"] == before
    assert in_place == (server.get(CONFIG_MAP, CHILD) is not None)
    await until(lambda: any(reason == "Replaced" for reason, _ in events(server)))
    assert events(server)[-1][1].startswith(("Replaced ", "Changed "))
    assert events(server)[-1][1].endswith("the Widget was edited.")
    assert {*server.policies} <= {"Background"}
    # The child says for which generation it was made: the object need not be read before it goes.
    path = WIDGET.at(KEY)
    assert not [r for r in server.requests[asked:] if (r.method, r.path) == ("GET", path)]


@both
@pytest.mark.usefixtures("made")
async def test_an_owner_in_another_namespace_has_no_child(server: ApiServer, how: Any) -> None:
    kind, copy = POD if how is widgets.pod else CONFIG_MAP, ("elsewhere", "copied")
    metadata = {**child(server)["metadata"], "namespace": copy[0], "name": copy[1]}
    server.put(kind, {**child(server), "metadata": metadata})
    server.edit(WIDGET, KEY, edit("edited"))

    await until(lambda: text(server) == "edited" and readiness(server).get("status") == "True")
    await quiet(server)
    assert server.get(kind, copy)


def alter(raw: Raw) -> None:
    if "spec" in raw:
        raw["spec"]["containers"][0]["env"][0]["value"] = "altered"
    else:
        raw["data"]["text"] = "altered"


@both
@pytest.mark.parametrize(
    ("harm", "event"),
    [
        (None, "was gone"),
        (alter, "altered by kubectl-edit"),
        *((lambda raw, label=label: raw["metadata"]["labels"].pop(label), "") for label in LABELS),
        (lambda raw: raw["metadata"].pop("ownerReferences"), ""),
    ],
    ids=["lost", "altered", *LABELS, "owner reference"],
)
@pytest.mark.usefixtures("made")
async def test_m1_what_somebody_else_did_to_a_child_is_put_right(
    server: ApiServer, how: Any, harm: Any, event: str
) -> None:
    def whole() -> bool:
        meta = child(server).get("metadata", {})
        marks = {*LABELS} <= meta.get("labels", {}).keys() and meta.get("ownerReferences")
        return bool(marks and text(server) == "hello")

    kind = POD if how is widgets.pod else CONFIG_MAP
    if harm is None:
        server.remove(kind, CHILD)
    else:
        server.edit(kind, CHILD, harm)

    await until(whole)
    if event:
        await until(lambda: event in events(server)[-1][1])
    if harm is alter:
        assert events(server)[-1][0] == "Healed"
    await quiet(server)
    assert whole()


@replaced
@pytest.mark.usefixtures("made")
async def test_a_child_that_is_gone_unseen_is_made_again(server: ApiServer) -> None:
    server.mute = True
    server.remove(POD, CHILD)
    server.mute = False
    server.edit(WIDGET, KEY, edit("edited"))

    await until(lambda: text(server) == "edited")


@both
@pytest.mark.usefixtures("made")
async def test_m1_what_others_add_stays(server: ApiServer, how: Any) -> None:
    kind = POD if how is widgets.pod else CONFIG_MAP
    before = child(server)["metadata"]["uid"]
    writes = len(server.writes)

    def add(raw: Raw) -> None:
        raw["metadata"]["labels"]["team"] = "blue"
        raw["metadata"]["annotations"]["seen"] = "yes"

    server.edit(kind, CHILD, add)
    await quiet(server)

    assert child(server)["metadata"]["labels"]["team"] == "blue"
    assert child(server)["metadata"]["uid"] == before
    assert len(server.writes) == writes


@both
@pytest.mark.parametrize("label", LABELS)
async def test_l6_what_was_altered_while_no_operator_ran_is_put_right_however_slow_lists_are(
    server: ApiServer, how: Any, label: str
) -> None:
    kind = POD if how is widgets.pod else CONFIG_MAP
    async with reconciled(server, widget(), widgets.controller(how)):
        pass
    server.edit(kind, CHILD, lambda raw: raw["metadata"]["labels"].pop(label))

    async def slow(request: Any) -> None:
        if request.path.endswith("/widgets"):
            await asyncio.sleep(0.2)

    server.answers.append(slow)
    async with operating(server, widgets.controller(how)):
        await until(lambda: label in child(server).get("metadata", {}).get("labels", {}))
        await until(lambda: readiness(server).get("status") == "True")
    looks = [asked for asked in server.requests if str(asked) == f"GET {kind.at(CHILD)}"]
    # Before it was made, what was altered, and whose it is without its mark.
    assert len(looks) <= 2 + (label != "app")


async def test_m2_a_child_that_admission_gives_away_comes_back_slower(server: ApiServer) -> None:
    """Its owner does not exist, so the garbage collector deletes it at once."""

    def give_away(kind: kr.Kind, raw: Raw) -> None:
        if kind == POD:
            raw["metadata"]["ownerReferences"][0]["uid"] = "somebody-else-s"

    async def collect(request: web.Request) -> web.Response | None:
        if server.get(POD, CHILD):
            server.remove(POD, CHILD)
        return None

    server.admission = give_away
    server.answers.append(collect)
    async with working_on(server, widget(), widgets.controller(widgets.pod)):
        await until(lambda: readiness(server).get("reason") == "BackOff")

    assert len([write for write in server.writes if write.startswith("POST")]) <= 8
    assert "replaced too often" in readiness(server)["message"]


async def test_a_mark_that_a_child_lost_replaces_no_similar_child(server: ApiServer) -> None:
    """A comparison is remembered for all of them, so one's own count must be no part of it."""
    go_on = asyncio.Event()

    async def late(request: web.Request) -> None:
        if request.method == "GET" and request.path.endswith("/w-two"):
            await go_on.wait()

    async def lose() -> None:
        await quiet(server)
        marks = child(server)["metadata"]["annotations"]
        if marks.pop(REPLACED, None):
            server.edit(POD, CHILD, lambda raw: raw["metadata"].update(annotations=marks))
            await quiet(server)

    for name in ("one", "two"):
        server.put(WIDGET, widget(name))
    standby = widgets.controller(widgets.pod)
    async with operating(server, standby, working=False):
        async with operating(server, widgets.controller(widgets.pod)):
            await until(lambda: len(server.all(POD)) == 2)
            server.remove(POD, CHILD)
            await until(lambda: len(server.all(POD)) == 2)
            await lose()
        server.answers.append(late)
        before = server.all(POD)
        async with leading(standby):
            await lose()
            go_on.set()
            await quiet(server)
    assert [pod["metadata"]["name"] for pod in before if pod not in server.all(POD)] == []


@both
async def test_steady_state_writes_nothing(server: ApiServer, how: Any) -> None:
    server.put(WIDGET, widget())
    settings = kr.Settings(resync_period=0.05)
    async with operating(server, widgets.controller(how), settings=settings):
        await until(lambda: readiness(server).get("status") == "True")
        await quiet(server)
        writes, asked = list(server.writes), len(server.requests)
        await resynced(server)
        assert not [one for one in server.requests[asked:] if one.path.endswith("/w-one")]

    async with operating(server, widgets.controller(how), settings=settings):
        await resynced(server)
        assert server.writes == writes


@applied
@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("template", [None, "another"])
async def test_a_fast_competitor_is_fought_with_pauses(
    server: ApiServer, template: str | None
) -> None:
    def change(raw: Raw) -> None:
        raw["data"]["text"] = "altered"
        if template:  # as an operator of another version writes it
            raw["metadata"]["annotations"][widgets.TEMPLATE] = template

    async def compete() -> None:
        while True:
            if text(server) == "hello":
                server.edit(CONFIG_MAP, CHILD, change)
            await asyncio.sleep(0.005)

    await quiet(server)
    written, competing = len(server.writes), asyncio.create_task(compete())
    await until(lambda: readiness(server).get("reason") == "BackOff")
    competing.cancel()

    assert "put right too often" in readiness(server)["message"]
    assert len([write for write in server.writes[written:] if "/configmaps/" in write]) <= 7
    await until(lambda: text(server) == "hello")


@applied
@pytest.mark.usefixtures("made")
async def test_what_is_refused_does_not_count_as_put_right(server: ApiServer) -> None:
    await quiet(server)
    forbidden = RefusedError(403, "Forbidden", "not allowed")
    server.refuse("PATCH", "/configmaps/w-one$", forbidden, float("inf"))
    server.edit(CONFIG_MAP, CHILD, lambda raw: raw["data"].update(text="altered"))

    seen = set()
    for _ in range(100):
        seen.add(readiness(server).get("reason"))
        await asyncio.sleep(0.02)

    assert "Forbidden" in seen
    assert "BackOff" not in seen


# --- somebody else's ----------------------------------------------------------------------------


def theirs(how: Any, **meta: Any) -> tuple[kr.Kind, Raw]:
    kind = POD if how is widgets.pod else CONFIG_MAP
    return kind, {"metadata": {"namespace": "ns", "name": "w-one", **meta}, "data": {"text": "x"}}


CONTROLLED = [
    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
]


@both
@pytest.mark.parametrize(
    "meta",
    [
        {},
        {"ownerReferences": CONTROLLED},
        {"labels": {MANAGED: "message-operator"}},
        {"labels": {UID: "nobody"}},  # no watch tells when it goes
    ],
)
async def test_what_is_not_ours_is_left_and_told_once(
    server: ApiServer, how: Any, meta: Raw, caplog: pytest.LogCaptureFixture
) -> None:
    kind, foreign = theirs(how, **meta)
    server.put(kind, foreign)
    async with working_on(server, widget(), widgets.controller(how)):
        await until(lambda: readiness(server).get("reason") == "Conflict")
        await until(lambda: events(server))
        assert child(server)["data"] == {"text": "x"}
        assert [reason for reason, _ in events(server)] == ["Conflict"]
        assert [write for write in server.writes if write.startswith("DELETE")] == []
        assert "AlreadyExists" not in caplog.text  # that it exists is no trouble of its own

        server.remove(kind, CHILD)  # and a conflict ends by itself
        server.edit(WIDGET, KEY, edit("mine"))
        await until(lambda: text(server) == "mine")


async def test_r5_a_former_child_that_does_not_end_is_told(server: ApiServer) -> None:
    ended = {"deletionTimestamp": "2020-01-01T00:00:00Z"}
    kind, former = theirs(widgets.pod, **OF_A_FORMER_OBJECT, **ended)
    server.put(kind, former)
    async with working_on(server, widget(), widgets.controller(widgets.pod)):
        await until(lambda: readiness(server).get("reason") == "PodStuckTerminating")
        await until(lambda: events(server))

    assert "does not end: its node" in readiness(server)["message"]
    assert events(server) == [("PodStuckTerminating", readiness(server)["message"])]


# --- several children ---------------------------------------------------------------------------


def one_a_word(thing: Widget, _: object) -> Iterable[Raw]:
    return (manifest(CONFIG_MAP, word, data={"a": word}) for word in thing.spec.text.split())


# --- edited meanwhile ---------------------------------------------------------------------------


@both
async def test_an_edit_during_the_work_is_not_told_as_done(server: ApiServer, how: Any) -> None:
    said: list[tuple[int, Any]] = []
    one = widgets.controller(how)

    def generation() -> int:
        owner = caches(one).owners.cache.get(KEY)
        return owner.generation if owner is not None else 0

    async def edit_meanwhile(request: Any) -> None:
        if request.method in ("POST", "PATCH") and request.path.endswith(("/pods", "/w-one")):
            if generation() == 1:
                server.edit(WIDGET, KEY, edit("edited"))
                await until(lambda: generation() == 2)
        elif request.method == "PATCH" and request.path.endswith("/widgets/one/status"):
            condition = ready(await request.json())
            if condition.get("status") == "True":
                said.append((condition["observedGeneration"], text(server)))

    server.answers.append(edit_meanwhile)
    async with working_on(server, widget(), one):
        await until(lambda: text(server) == "edited" and readiness(server).get("status") == "True")
        await quiet(server)

    assert said == [(2, "edited")]


@replaced
@pytest.mark.usefixtures("made")
async def test_an_edit_whose_deletion_is_not_answered_is_carried_out(server: ApiServer) -> None:
    def write(raw: Raw) -> None:
        raw["metadata"]["annotations"][REPLACED] = "99"
        half_a_minute_ago = datetime.now(UTC) - timedelta(seconds=30)
        raw["metadata"]["creationTimestamp"] = half_a_minute_ago.isoformat()

    async def lose(request: Any) -> Any:
        if request.method == "DELETE":
            server.answers.clear()
            await server._serve(request)
            return RefusedError(504, "Timeout", "the answer was lost").response()
        return None

    server.edit(POD, CHILD, write)
    server.answers.append(lose)
    server.edit(WIDGET, KEY, edit("edited"))

    await until(lambda: text(server) == "edited")
    await until(lambda: any(reason == "Replaced" for reason, _ in events(server)))


# --- what is told of the next one ---------------------------------------------------------------


@replaced
@pytest.mark.usefixtures("made")
async def test_a_pod_without_a_grace_period_is_replaced_however_late_its_watch_is(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to the deletion has a deletionTimestamp, and yet nothing more will end."""
    spec = {"nodeName": "n", "terminationGracePeriodSeconds": 0}
    server.edit(POD, CHILD, lambda raw: raw["spec"].update(spec))
    await quiet(server)
    tell = server.tell
    monkeypatch.setattr(
        server, "tell", lambda t, kind, *a: None if kind == POD else tell(t, kind, *a)
    )
    server.edit(WIDGET, KEY, edit("edited"))

    await until(lambda: text(server) == "edited")


async def test_a_child_that_is_wanted_again_is_told_as_created(server: ApiServer) -> None:
    def is_there(name: str) -> bool:
        return server.get(CONFIG_MAP, ("ns", name)) is not None

    def counts() -> dict[str, int]:
        return {event["message"]: event["count"] for event in server.events}

    async with working_on(server, widget(text="a b"), widgets.controller(one_a_word)):
        await until(lambda: is_there("b"))
        server.edit(WIDGET, KEY, edit("a"))
        await until(lambda: not is_there("b"))
        await quiet(server)
        server.edit(WIDGET, KEY, edit("a b"))
        await until(lambda: is_there("b"))
        await until(lambda: {"Created ConfigMap b.": 2}.items() <= counts().items())

    gone = "Deleted ConfigMap b: the Widget does not want it any more."
    assert set(counts()) == {"Created ConfigMap a.", "Created ConfigMap b.", gone}


async def test_m2_an_applied_child_that_ends_backs_off_across_a_restart(server: ApiServer) -> None:
    def job() -> Controller:
        phases: Raw = {"transform": lambda pod: pod.status.phase, "finished": lambda phase: phase}
        return owning(widgets.pod, POD, type_=widgets.Pod, update=Update.APPLY, **phases)

    def fail(kind: kr.Kind, raw: Raw) -> None:
        if kind == POD:
            raw["status"] = {"phase": "Failed"}

    def deletions() -> int:
        return len([write for write in server.writes if write.startswith("DELETE")])

    server.admission = fail
    async with working_on(server, widget(), job()):
        await until(lambda: readiness(server).get("reason") == "BackOff")
    server.edit(  # so that the pause outlasts the test, however slow the machine is
        POD, CHILD, lambda raw: raw["metadata"]["annotations"].update({REPLACED: "50"}), NAME
    )
    before = deletions()
    assert before <= 8

    async with operating(server, job()):
        await quiet(server)
        assert deletions() == before


async def test_a_change_in_place_keeps_the_count_of_replacements(server: ApiServer) -> None:
    async with reconciled(server, widget(), widgets.controller()):
        server.remove(CONFIG_MAP, CHILD)
        await until(lambda: text(server) == "hello")
        server.edit(WIDGET, KEY, edit("edited"))
        await until(lambda: text(server) == "edited")

        assert child(server)["metadata"]["annotations"][REPLACED] == "1"


@both
@pytest.mark.usefixtures("made")
async def test_an_object_is_not_ready_while_its_child_ends(server: ApiServer, how: Any) -> None:
    kind = POD if how is widgets.pod else CONFIG_MAP
    server.edit(kind, CHILD, lambda raw: raw["metadata"].update(finalizers=["example.com/hold"]))
    server.delete(kind, CHILD)

    await until(lambda: readiness(server).get("status") == "False")
    assert readiness(server)["reason"] == "NotReady"
    assert "w-one: it is being deleted; example.com/hold holds it." in readiness(server)["message"]

    server.remove(kind, CHILD)
    await until(lambda: readiness(server).get("status") == "True")


async def test_a_reconcile_of_many_children_is_not_stuck(server: ApiServer) -> None:
    """A liveness probe must not kill the operator because of one large object."""
    posts: list[float] = []
    go_on = [asyncio.Event() for _ in range(2)]

    async def hang(request: web.Request) -> None:
        if request.method == "PATCH" and "/configmaps/" in request.path:
            posts.append(time.monotonic())
            await go_on[len(posts) - 1].wait()

    server.answers.append(hang)
    async with working_on(server, widget(text="a b"), one := widgets.controller(one_a_word)):
        await until(lambda: len(posts) == 1)
        await asyncio.sleep(0.3)
        go_on[0].set()
        await until(lambda: len(posts) == 2)

        assert at_work(one).queue.longest_running() <= time.monotonic() - posts[0] - 0.25
        go_on[1].set()


@pytest.mark.parametrize(
    ("finalizer", "held"),
    [
        ("foregroundDeletion", "the garbage collector, which deletes what it owns first, holds it"),
        ("orphan", "the garbage collector, which sets free what it owns first, holds it"),
        ("example.com/hold", "example.com/hold holds it"),
    ],
)
async def test_l9_who_holds_an_object_is_told(server: ApiServer, finalizer: str, held: str) -> None:
    """The finalizers of the garbage collector have no owner that a user could ask."""
    async with reconciled(server, widget(finalizers=[finalizer]), widgets.controller()):
        server.delete(WIDGET, KEY)
        await until(lambda: readiness(server).get("reason") == "Terminating")
    assert readiness(server)["message"] == f"The Widget is being deleted; {held}."


@pytest.mark.parametrize("stepwise", [False, True])
async def test_children_that_are_larger_together_than_what_is_kept_are_all_made(
    server: ApiServer, stepwise: bool
) -> None:
    def desired(*_: object) -> Iterable[Raw]:
        return (manifest(CONFIG_MAP, name, data={"text": "x" * 900_000}) for name in names)

    names = [f"c-{number}" for number in range(6)]
    one = otherwise(widgets.controller())
    one.desired(stepwise=stepwise)(desired)
    async with reconciled(server, widget(), one):
        pass
    assert all(server.get(CONFIG_MAP, ("ns", name)) for name in names)
