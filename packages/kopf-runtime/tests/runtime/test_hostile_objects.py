"""C1: what anybody may write into an object stops nobody but that object."""

import asyncio
import itertools
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kopf_runtime as kr
from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring import objects
from kopf_runtime.declaring.kinds import CONFIG_MAP, POD, Kind
from kopf_runtime.reporting import troubles
from runtime import widgets
from runtime.support.api_server import ApiServer, RefusedError
from runtime.support.running import build, caches, leading, operating
from runtime.support.waiting import until
from runtime.test_data import CLAIM, KEY, PVC, claim, claims, stored
from runtime.test_owns import owning
from runtime.widgets import (
    WIDGET,
    Raw,
    Widget,
    edit,
    is_ready,
    readiness,
    reconciled,
    retry_after,
    widget,
    working_on,
)

CHILD = ("ns", "w-one")
LABELS = {"app.kubernetes.io/managed-by": "message-operator", widgets.UID: "uid-of-nobody"}
DEEP = b'{"a":' * 9000 + b"1" + b"}" * 9000
POISON: dict[str, dict[str, Any]] = {
    "a number of 5,000 digits": {"annotations": {widgets.GENERATION: "9" * 5000}},
    "other digits": {"annotations": {widgets.GENERATION: "٣", widgets.REPLACED: "²"}},
    "no template": {"annotations": {widgets.TEMPLATE: "\u0000" * 4096}},
    "an owner without a kind": {"ownerReferences": [{"uid": "u", "controller": True}]},
    "an owner of nothing": {"ownerReferences": [{}]},
    "fields that are no fields": {
        "managedFields": [{"manager": "message-operator", "fieldsV1": {"f:metadata": {"k:x": {}}}}]
    },
    "fields of a null": {"managedFields": [{"manager": "message-operator", "fieldsV1": None}]},
    "a wrong type": {"labels": {**LABELS, "a": 1}},
    "a time that is none": {"creationTimestamp": "yesterday", "deletionTimestamp": "9" * 400},
}


def poisoned(kind: Kind, meta: dict[str, Any], **rest: Any) -> bytes:
    metadata = {
        "namespace": "ns",
        "name": "bad",
        "uid": "uid-bad",
        "resourceVersion": "VERSION",
        "labels": LABELS,
        **meta,
    }
    return json.dumps({"kind": kind.kind, "metadata": metadata, **rest}).encode()


@pytest.mark.parametrize("moment", ["before the start", "while watched"])
@pytest.mark.parametrize("kind", [CONFIG_MAP, WIDGET], ids=str)
@pytest.mark.parametrize("poison", [*POISON, "nesting", "nesting in what is read"])
async def test_a_poisoned_object_holds_up_no_other(
    server: ApiServer, poison: str, kind: Kind, moment: str
) -> None:
    if poison == "nesting":
        text = poisoned(kind, {}).removesuffix(b"}") + b',"extra":' + DEEP + b"}"
    elif poison == "nesting in what is read":
        text = poisoned(kind, {}).removesuffix(b"}") + b',"status":' + DEEP + b"}"
    else:
        text = poisoned(kind, POISON[poison])
    if moment == "before the start":
        server.put_text(kind, ("ns", "bad"), text, LABELS)

    async with operating(server, widgets.controller()) as operator:
        await until(lambda: operator.synced)
        server.put_text(kind, ("ns", "bad"), text, LABELS)
        server.put(WIDGET, widget())
        await until(lambda: server.get(CONFIG_MAP, CHILD))
        server.edit(WIDGET, ("ns", "one"), widgets.edit("edited"))
        await until(lambda: (server.get(CONFIG_MAP, CHILD) or {})["data"]["text"] == "edited")


async def test_a_poisoned_object_is_told_until_it_is_mended(server: ApiServer) -> None:
    text = poisoned(WIDGET, {"generation": 3}, spec={"text": {"not": "a text"}})
    server.put_text(WIDGET, ("ns", "bad"), text, {})

    async with operating(server, widgets.controller()) as operator:
        await until(lambda: operator.metric("unreadable_objects", resource="widgets") == 1)
        await until(lambda: widgets.ready(server.get(WIDGET, ("ns", "bad"))))
        told = widgets.ready(server.get(WIDGET, ("ns", "bad")))

        server.put(WIDGET, widget("bad"))
        await until(lambda: server.get(CONFIG_MAP, ("ns", "w-bad")))
        await until(lambda: operator.metric("unreadable_objects", resource="widgets") == 0)
        server.put_text(WIDGET, ("ns", "worse"), text.replace(b"bad", b"worse"), {})
        await until(lambda: operator.metric("unreadable_objects", resource="widgets") == 1)
        server.remove(WIDGET, ("ns", "worse"))
        await until(lambda: operator.metric("unreadable_objects", resource="widgets") == 0)

    assert (told["status"], told["reason"]) == ("False", "Unreadable")
    assert "spec.text" in told["message"]


@pytest.mark.parametrize(("code", "final"), [(500, 0), (403, 3)])
async def test_a_poisoned_object_keeps_the_conditions_of_others(
    server: ApiServer, code: int, final: int
) -> None:
    other = {"type": "Other", "status": "True"}
    often = kr.Settings(resync_period=0.1)
    server.put(WIDGET, widget() | {"spec": {"text": 7}, "status": {"conditions": [other]}})
    error = RefusedError(code, "Refused")
    refused = server.refuse("PATCH", "/widgets/one/status$", error, times=3)
    async with operating(server, widgets.controller(), settings=often) as operator:
        await until(lambda: widgets.ready(server.get(WIDGET, ("ns", "one"))))
        assert len(refused) == 3
        assert operator.metric("status_writes_refused_total", resource="widgets") == final
        await widgets.resynced(server)
        assert len(server.writes) == 4
        assert [*map(str, server.requests)].count(f"GET {WIDGET.at(('ns', 'one'))}") < 6
        server.edit(WIDGET, ("ns", "one"), lambda raw: raw.update(spec={"text": [7]}))
        await until(lambda: len(server.writes) == 5)
    async with operating(server, widgets.controller(), settings=often):  # a restart
        await widgets.resynced(server)

    assert other in (server.get(WIDGET, ("ns", "one")) or {})["status"]["conditions"]
    assert len(server.writes) == 5


async def test_a_kept_status_outlives_a_spec_that_cannot_be_read(server: ApiServer) -> None:
    """As the number of a booking: `sync` would make another one without it."""
    controller = widgets.controller()
    controller.status(lambda *_: kr.Status(True, "Booked", "Booked.", {"booking": "B-1"}))
    async with working_on(server, widget(), controller):
        await until(lambda: widgets.ready(server.get(WIDGET, ("ns", "one"))))
        server.edit(WIDGET, ("ns", "one"), lambda raw: raw.update(spec={"text": 7}))
        await until(
            lambda: widgets.ready(server.get(WIDGET, ("ns", "one")))["reason"] == "Unreadable"
        )
    told = (server.get(WIDGET, ("ns", "one")) or {})["status"]

    assert widgets.ready({"status": told})["status"] == "False"
    assert told["booking"] == "B-1"


async def test_a_poisoned_object_is_told_as_soon_as_a_replica_leads(server: ApiServer) -> None:
    server.put(WIDGET, widget() | {"spec": {"text": 7}})
    one = widgets.controller()
    async with operating(server, one, working=False) as operator:
        await until(lambda: operator.synced)
        assert not server.writes
        async with leading(one):
            await until(lambda: widgets.ready(server.get(WIDGET, ("ns", "one"))))


async def test_an_object_that_was_mended_is_not_told_as_unreadable(server: ApiServer) -> None:
    """A leader may begin before the watch has brought it the mended one."""
    server.put(WIDGET, widget() | {"spec": {"text": 7}})
    one = widgets.controller()
    async with operating(server, one, working=False) as operator:
        await until(lambda: operator.synced)
        server.mute = True
        server.put(WIDGET, widget())
        server.mute = False
        async with leading(one):
            asked = f"GET {WIDGET.at(('ns', 'one'))}"
            await until(lambda: asked in map(str, server.requests))
            await asyncio.sleep(0.2)

    assert server.writes == []


# --- any JSON -----------------------------------------------------------------------------------

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda part: st.lists(part, max_size=4) | st.dictionaries(st.text(), part, max_size=4),
    max_leaves=12,
)
FIELDS = st.recursive(
    st.just({}) | JSON,
    lambda part: st.dictionaries(
        st.sampled_from(["f:metadata", "f:labels", "f:app", "f:data", "f:text", ".", "v:1", "k:{"])
        | st.text(),
        part,
        max_size=4,
    ),
    max_leaves=12,
)
TEXTS = st.text() | st.integers(min_value=0).map(str) | st.just("9" * 5000)
META = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.dictionaries(st.sampled_from([*LABELS, "app"]) | st.text(), TEXTS) | JSON,
        "annotations": st.dictionaries(
            st.sampled_from([widgets.TEMPLATE, widgets.GENERATION, widgets.REPLACED]) | st.text(),
            TEXTS,
        )
        | JSON,
        "ownerReferences": JSON
        | st.lists(
            st.fixed_dictionaries(
                {"uid": st.text() | st.just("uid-w")},
                optional={
                    "controller": st.booleans(),
                    "name": st.text() | st.just("one"),
                    "kind": st.text() | st.just("Widget"),
                    "apiVersion": st.text() | st.just("example.dev/v1"),
                },
            )
        ),
        "managedFields": JSON
        | st.lists(
            st.fixed_dictionaries(
                {"manager": st.text() | st.just("message-operator"), "fieldsV1": FIELDS}
            )
        ),
        "finalizers": JSON,
        "generation": st.integers(0, 2**62),
        "deletionTimestamp": JSON | st.text(),
        "creationTimestamp": JSON | st.text(),
    },
)


class Sources:
    """The sources of a controller that is not connected to anything."""

    def __init__(self) -> None:
        metrics = Metrics("message-operator")
        client = Client("message-operator", "1", 1.0, metrics)
        self.controller = widgets.controller()
        build(client, metrics, kr.Settings(), self.controller)
        self.take(WIDGET, {**widget(), "status": {}}, 1, "one", "uid-w")

    def take(self, kind: Kind, raw: Any, version: int, name: str, uid: str) -> Any:
        raw = {
            **raw,
            "metadata": {
                **raw.get("metadata", {}),
                "namespace": "ns",
                "name": name,
                "uid": uid,
                "resourceVersion": str(version),
            },
        }
        source = next(s for s in caches(self.controller).sources if s.kind == kind)
        return source.take(msgspec.Raw(json.dumps(raw).encode()))


SOURCES, VERSIONS = Sources(), itertools.count(2)


def test_m3_what_is_kept_of_finalizers_and_owners_is_bounded() -> None:
    """An API server bounds neither their number nor the length of an owner's name and uid."""
    many = [f"example.com/hold-{number}" for number in range(4000)]
    owner = {
        "apiVersion": "example.dev/v1",
        "kind": "Widget",
        "name": "n" * 500_000,
        "uid": "u" * 500_000,
        "controller": True,
    }
    meta = {"finalizers": [*many, "example.dev/message-operator"], "ownerReferences": [owner]}
    for kind, name in ((WIDGET, "large"), (CONFIG_MAP, "w-large")):
        SOURCES.take(kind, {"metadata": meta}, next(VERSIONS), name, "uid-large")

    owners, children = caches(SOURCES.controller).sources
    record: Any = owners.cache.get(("ns", "large"))
    child: Any = children.cache.get(("ns", "w-large"))
    assert "example.dev/message-operator" in record.finalizers
    assert sum(map(len, record.finalizers)) < 1000
    assert sum(map(len, (*child.finalizers, child.controller_uid, child.parent))) < 1500


@settings(max_examples=300, deadline=None)
@given(
    kind=st.sampled_from([WIDGET, CONFIG_MAP]),
    meta=META,
    spec=JSON,
    status=JSON,
    name=st.sampled_from(["one", "w-one", "other"]),
)
def test_any_json_that_an_api_server_accepts_is_taken_in_or_left_out(
    kind: Kind, meta: Any, spec: Any, status: Any, name: str
) -> None:
    version = next(VERSIONS)
    raw = {"metadata": meta, "spec": spec, "status": status, "data": spec}

    taken = SOURCES.take(kind, raw, version, name, "uid-w")

    assert taken is not None
    assert taken[:2] == (("ns", name), version)


def test_c16_texts_of_statuses_are_shared_but_not_kept() -> None:
    """An interned text stays for good in Python 3.12, and each message may be another."""
    first, second = ({"reason": "".join(["Recon", "ciled"])} for _ in range(2))
    assert objects.shared(first)["reason"] is objects.shared(second)["reason"]

    for number in range(10_000):
        objects.shared({"message": f"It failed for the {number}th time."})
    assert objects._shared.cache_info().currsize <= 4096


# --- whose an object is: nothing is deleted unless every mark says so, and the operator set them


OTHER = ("ns", "other")
KINDS = (WIDGET, PVC)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look sooner at what no watch tells of."""
    retry_after(monkeypatch, 0.2, troubles.CONFLICT)


def events(server: ApiServer, reason: str) -> list[str]:
    return [event["message"] for event in server.events if event["reason"] == reason]


def copy(server: ApiServer) -> None:
    """Do what `kubectl get -o yaml | sed | kubectl create -f -` does."""
    meta = stored(server, PVC, ("ns", "w-other"))["metadata"]
    kept = ("namespace", "labels", "annotations", "ownerReferences")
    marks = {name: meta[name] for name in kept if name in meta}
    server.put(PVC, {"metadata": {**marks, "name": "backup"}, "spec": {"backup": True}})


@pytest.mark.parametrize("surplus", [True, False, None], ids=["deleted", "kept", "unsaid"])
async def test_t1_a_copy_is_told_once_at_no_cost(server: ApiServer, surplus: bool | None) -> None:
    server.put(WIDGET, widget("other", text="1Gi"))
    often = kr.Settings(resync_period=0.05)
    async with operating(server, claims(surplus=surplus), settings=often):
        await until(lambda: readiness(server, OTHER).get("status") == "True")
        copy(server)
        await until(lambda: events(server, "LeftAlone"))
        written = len(server.writes)
        await widgets.resynced(server)

    assert server.writes[written:] == []
    (event,) = [event for event in server.events if event["reason"] == "LeftAlone"]
    assert (event["type"], event["count"]) == ("Warning", 1)
    assert event["message"] == (
        "PersistentVolumeClaim backup has marks of this Widget, but not all of them, or somebody "
        "else set them, as on a copy. It is left alone. The garbage collector deletes it with this "
        "Widget, unless you remove its metadata.ownerReferences."
    )


async def test_a_name_that_one_object_gives_up_goes_to_the_next(server: ApiServer) -> None:
    """What certainly was its own is deleted, also while another object waits for the name."""

    def desired(thing: Widget, _: object) -> list[Raw]:
        return [widgets.manifest(PVC, thing.spec.text)]

    async with reconciled(server, widget(text="data"), claims(desired)):
        server.put(WIDGET, widget("other", text="data"))
        await until(lambda: readiness(server, OTHER).get("reason") == "Conflict")
        server.edit(WIDGET, KEY, edit("moved"))
        await until(lambda: readiness(server, OTHER).get("status") == "True", 20)


# --- handed over ----------------------------------------------------------------------------------


async def test_t5_what_is_replaced_is_not_to_be_handed_over(server: ApiServer) -> None:
    """It would be deleted."""
    server.put(POD, {"metadata": {"namespace": "ns", "name": "w-one"}, "spec": {}})
    async with working_on(server, widget(), widgets.controller(widgets.pod)):
        await until(lambda: readiness(server).get("reason") == "Conflict")
    assert readiness(server)["message"] == (
        "Pod w-one exists and does not belong to this Widget. It is left alone. Find out who needs "
        "that Pod, or give the Widget another name."
    )


# --- what is looked at first ----------------------------------------------------------------------


async def test_c10_a_conflict_about_a_quota_is_none_about_the_child(server: ApiServer) -> None:
    why = "Operation cannot be fulfilled on resourcequotas: the object has been modified"
    busy = RefusedError(409, "Conflict", why, kind="resourcequotas", name="quota")
    server.refuse("PATCH", "/persistentvolumeclaims/", busy, times=float("inf"))
    async with working_on(server, widget(text="1Gi"), claims()):
        await until(lambda: readiness(server).get("message"))
        assert readiness(server)["message"] == why
        server.answers.clear()
        await until(lambda: is_ready(server), 20)


async def test_c11_no_retained_child_is_made_for_an_owner_that_is_gone(server: ApiServer) -> None:
    one = owning(claim, claims={"deletion_policy": kr.RETAIN})
    widgets.otherwise(one).desired(stepwise=True)(claim)  # so its manifest is known already
    async with reconciled(server, widget(text="1Gi"), one):
        server.mute = True  # the watch of the Widgets is late
        server.remove(WIDGET, KEY)
        server.mute = False
        looked = len(server.requests)
        server.remove(PVC, CLAIM)
        await until(lambda: f"GET {WIDGET.at(KEY)}" in map(str, server.requests[looked:]))
        await until(lambda: caches(one).owners.cache.get(KEY) is None)
        await asyncio.sleep(0.2)  # what it would wrongly write
    assert server.all(PVC) == []
