"""Whose an object is: nothing is deleted unless every mark says so, and the operator set them."""

import asyncio

import pytest

import kopf_runtime as kr
from kopf_runtime.declaring.kinds import POD
from kopf_runtime.reporting import troubles
from runtime import widgets
from runtime.support.api_server import ApiServer, RefusedError
from runtime.support.running import caches, operating
from runtime.support.waiting import until
from runtime.test_data import (
    CLAIM,
    KEY,
    PVC,
    claim,
    claims,
    is_ready,
    named,
    so_many,
    stored,
    told,
)
from runtime.test_owns import INVALID, owning
from runtime.widgets import (
    GENERATION,
    TEMPLATE,
    WIDGET,
    Raw,
    Widget,
    edit,
    retry_after,
    widget,
)

OTHER = ("ns", "other")
KINDS = (WIDGET, PVC)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look sooner at what no watch tells of."""
    retry_after(monkeypatch, 0.2, troubles.CONFLICT)


def events(server: ApiServer, reason: str) -> list[str]:
    return [event["message"] for event in server.events if event["reason"] == reason]


def of_other(server: ApiServer) -> Raw:
    """Return a reference to the other Widget."""
    uid = stored(server, WIDGET, OTHER)["metadata"]["uid"]
    return {
        "apiVersion": WIDGET.api_version,
        "kind": WIDGET.kind,
        "name": "other",
        "uid": uid,
        "controller": True,
    }


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
        await until(lambda: told(server, OTHER).get("status") == "True")
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


async def test_t10_each_surplus_child_that_is_deleted_is_an_event(server: ApiServer) -> None:
    server.put(WIDGET, widget(text="3"))
    async with operating(server, claims(so_many)):
        await until(lambda: is_ready(server))
        server.edit(WIDGET, KEY, edit("1"))
        await until(lambda: len(server.all(PVC)) == 1 and len(events(server, "Deleted")) == 2)
    gone = "Deleted PersistentVolumeClaim {}: the Widget does not want it any more."
    assert sorted(events(server, "Deleted")) == [gone.format("w-1"), gone.format("w-2")]


async def test_a_name_that_one_object_gives_up_goes_to_the_next(server: ApiServer) -> None:
    """What certainly was its own is deleted, also while another object waits for the name."""

    def desired(thing: Widget, _: object) -> list[Raw]:
        return [named(PVC, thing.spec.text)]

    server.put(WIDGET, widget(text="data"))
    async with operating(server, claims(desired)):
        await until(lambda: is_ready(server))
        server.put(WIDGET, widget("other", text="data"))
        await until(lambda: told(server, OTHER).get("reason") == "Conflict")
        server.edit(WIDGET, KEY, edit("moved"))
        await until(lambda: told(server, OTHER).get("status") == "True", 20)


# --- handed over ----------------------------------------------------------------------------------


async def test_t5_what_is_replaced_is_not_to_be_handed_over(server: ApiServer) -> None:
    """It would be deleted."""
    server.put(POD, {"metadata": {"namespace": "ns", "name": "w-one"}, "spec": {}})
    server.put(WIDGET, widget())
    async with operating(server, widgets.controller(widgets.pod)):
        await until(lambda: told(server).get("reason") == "Conflict")
    assert told(server)["message"] == (
        "Pod w-one exists and does not belong to this Widget. It is left alone. Find out who needs "
        "that Pod, or give the Widget another name."
    )


# --- what is looked at first ----------------------------------------------------------------------


async def test_c10_a_conflict_about_a_quota_is_none_about_the_child(server: ApiServer) -> None:
    why = "Operation cannot be fulfilled on resourcequotas: the object has been modified"
    busy = RefusedError(409, "Conflict", why, kind="resourcequotas", name="quota")
    server.refuse("PATCH", "/persistentvolumeclaims/", busy, times=float("inf"))
    server.put(WIDGET, widget(text="1Gi"))
    async with operating(server, claims()):
        await until(lambda: told(server).get("message"))
        assert told(server)["message"] == why
        server.answers.clear()
        await until(lambda: is_ready(server), 20)


async def test_c11_no_retained_child_is_made_for_an_owner_that_is_gone(server: ApiServer) -> None:
    one = owning(claim, claims={"deletion_policy": kr.RETAIN})
    widgets.otherwise(one).desired(stepwise=True)(claim)  # so its manifest is known already
    server.put(WIDGET, widget(text="1Gi"))
    async with operating(server, one):
        await until(lambda: is_ready(server))
        server.mute = True  # the watch of the Widgets is late
        server.remove(WIDGET, KEY)
        server.mute = False
        looked = len(server.requests)
        server.remove(PVC, CLAIM)
        await until(lambda: f"GET {WIDGET.at(KEY)}" in map(str, server.requests[looked:]))
        await until(lambda: caches(one).owners.cache.get(KEY) is None)
        await asyncio.sleep(0.2)  # what it would wrongly write
    assert server.all(PVC) == []


async def test_s2_what_cannot_be_changed_in_place_stays_unless_declared(server: ApiServer) -> None:
    """The API server would accept it as a new object."""
    server.put(WIDGET, widget(text="1Gi"))
    async with operating(server, claims()):
        await until(lambda: is_ready(server))
        before = stored(server, PVC, CLAIM)
        server.refuse("PATCH", "claims/w-one$", INVALID, times=float("inf"))
        server.edit(WIDGET, KEY, edit("2Gi"))
        await until(lambda: told(server).get("reason") == "Invalid")
    assert stored(server, PVC, CLAIM) == before


async def test_s10_a_child_without_a_generation_is_no_edit(server: ApiServer) -> None:
    """An edit needs no look at the object itself, and is free of pauses."""

    def harm(raw: Raw) -> None:
        notes = raw["metadata"]["annotations"]
        del notes[GENERATION]
        notes[TEMPLATE] = "somebody's"

    server.put(WIDGET, widget(text="1Gi"))
    async with operating(server, claims()):
        await until(lambda: is_ready(server))
        server.edit(PVC, CLAIM, harm)
        await until(lambda: events(server, "Replaced"))
    why = "its PersistentVolumeClaim's template changed"
    assert events(server, "Replaced") == [f"Changed PersistentVolumeClaim w-one: {why}."]
