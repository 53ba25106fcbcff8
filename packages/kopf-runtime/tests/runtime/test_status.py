"""A status is what its author's function says of an object now, and is written once."""

import asyncio
import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from aiohttp import web

import kopf_runtime as kr
from kopf_runtime.declaring import conditions
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.kinds import CONFIG_MAP, SECRET, SERVICE
from kopf_runtime.reporting.status_writer import Repeats
from runtime import widgets
from runtime.support.api_server import ApiServer, RefusedError
from runtime.support.running import operating
from runtime.support.waiting import until
from runtime.widgets import WIDGET, Widget, edit, ready, reconciled, resynced, widget, working_on

KEY, KINDS = ("ns", "one"), (WIDGET, SECRET, SERVICE)


class Node(msgspec.Struct):
    """A part of a status."""

    name: str
    zone: str | None = None
    load: float = 0.0


def telling(*fields: Any) -> Any:
    """Return a controller whose status has these fields, the next ones after each edit."""
    one = widgets.controller()

    @one.status
    def status(thing: Any, seen: kr.Observed) -> kr.Status:
        told = fields[min(thing.metadata.generation, len(fields)) - 1]
        return kr.Status(True, "Fine", "Fine.", fields=told)

    return one


async def status_of(server: ApiServer, generation: int) -> Any:
    """Return the status of this generation, without what the runtime adds to it."""

    def status() -> Any:
        return (server.get(WIDGET, KEY) or {}).get("status") or {}

    await until(lambda: status().get("observedGeneration") == generation)
    added = ("observedGeneration", "conditions")
    return {name: value for name, value in status().items() if name not in added}


@pytest.mark.parametrize(
    "status",
    [
        lambda _: kr.Status(True, "Fine", "Fine.", {"seen": 1}),
        lambda _, seen: kr.Status(seen.sync_result.ready, "Fine", "Fine."),
    ],
    ids=["forgets the trouble", "fails because of it"],
)
async def test_a_status_cannot_say_ready_over_a_refusal(server: ApiServer, status: Any) -> None:
    one = widgets.controller()
    one.status(status)
    server.refuse("PATCH", "/configmaps/w-one$", RefusedError(403, "Forbidden", "quota"), 1000)
    async with working_on(server, widget(), one):
        await until(lambda: ready(server.get(WIDGET, KEY)).get("reason") == "Forbidden")
    assert ready(server.get(WIDGET, KEY))["status"] == "False"


@pytest.mark.parametrize(
    ("fields", "stored"),
    [
        ({"nodes": {"a": None, "b": {"zone": None}}}, {"nodes": {"b": {}}}),
        (
            {"nodes": [Node("a"), Node("b", "z")]},
            {"nodes": [{"name": "a", "load": 0}, {"name": "b", "zone": "z", "load": 0}]},
        ),
        ({"nodes": (1, None)}, {"nodes": [1, None]}),
        ({"nodes": {"b", "a"}}, {"nodes": ["a", "b"]}),
        ({"nodes": {1: "one"}}, {"nodes": {"1": "one"}}),
        ({"nodes": {"a": Node("a", load=float("nan"))}}, {"nodes": {"a": {"name": "a"}}}),
    ],
    ids=["None", "classes", "a tuple", "a set", "keys that are numbers", "NaN"],
)
async def test_any_status_is_written_once(server: ApiServer, fields: Any, stored: Any) -> None:
    server.put(WIDGET, widget())
    settings = kr.Settings(resync_period=0.1)
    async with operating(server, telling(fields), settings=settings):
        assert await status_of(server, 1) == stored
        await resynced(server)

    assert len([write for write in server.writes if write.endswith("/status")]) == 1


async def test_a_key_that_a_map_in_the_status_has_no_more_goes(server: ApiServer) -> None:
    first = {"nodes": {"a": {"zone": "z", "name": "a"}, "b": {"zone": "z"}}, "count": 2}
    second = {"nodes": {"a": {"name": "a"}, "c": {}}, "count": None}
    async with working_on(server, widget(), telling(first, second)):
        assert await status_of(server, 1) == first
        server.edit(WIDGET, KEY, edit("edited"))

        assert await status_of(server, 2) == {"nodes": {"a": {"name": "a"}, "c": {}}}


async def test_fields_of_others_in_the_status_stay(server: ApiServer) -> None:
    server.put(WIDGET, {**widget(), "status": {"others": {"a": 1}}})
    async with operating(server, telling({"count": 2})):
        assert await status_of(server, 1) == {"others": {"a": 1}, "count": 2}


async def test_a_field_of_the_status_that_the_crd_lacks_is_told(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    def prune(kind: kr.Kind, raw: Any) -> None:
        if kind == WIDGET:
            raw["status"].pop("extra", None)

    server.admission = prune
    server.put(WIDGET, widget())
    async with operating(server, telling({"count": 2, "extra": 3}, {"count": 3, "extra": 4})):
        assert await status_of(server, 1) == {"count": 2}
        server.edit(WIDGET, KEY, edit("edited"))
        await status_of(server, 2)

    (told,) = (record.message for record in caplog.records if "install the CRD" in record.message)
    assert "['extra']" in told


def drop(status: Any) -> None:
    status.pop("extra", None)


def drop_and_stamp(status: Any) -> None:
    drop(status)
    status["stamp"] = next(STAMPS)


def change(status: Any) -> None:
    status["count"] = next(STAMPS)


def drop_the_time(status: Any) -> None:
    for condition in status["conditions"]:
        condition.pop("lastTransitionTime", None)


def turn(status: Any) -> None:
    for condition in status["conditions"]:
        condition["status"] = "Unknown"


STAMPS = itertools.count(1000)


@pytest.mark.parametrize("webhook", [drop, drop_and_stamp, change, drop_the_time, turn, None])
async def test_a_status_that_is_not_kept_makes_no_hot_loop(server: ApiServer, webhook: Any) -> None:
    """As by a CRD without the field, or a webhook; without a webhook here: no subresource."""

    def writes() -> int:
        return len([write for write in server.writes if write.endswith("/status")])

    def mutate(kind: kr.Kind, raw: Any) -> None:
        if kind == WIDGET and webhook is not None:
            webhook(raw["status"])

    server.admission = mutate
    if webhook is None:
        server.refuse("PATCH", "/status$", RefusedError(404, "NotFound"), float("inf"))
    server.put(WIDGET, widget())
    async with operating(server, telling({"count": 2, "extra": 3}, {"count": 3, "extra": 4})):
        await until(writes)
        await asyncio.sleep(0.3)  # the child's event brings one reconcile more, and no other
        first = writes()
        assert first <= 2

        server.edit(WIDGET, KEY, edit("edited"))
        await until(lambda: writes() > first)
        await asyncio.sleep(0.3)
        second = writes()
        assert second <= first + 2

        server.edit(WIDGET, KEY, lambda raw: raw.update(status={"by": "a hand"}))
        await until(lambda: writes() > second)


async def test_a_new_transient_state_settles_however_long_the_former_one_took(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time between two states may be that of the work for a thousand other objects."""
    clock = 0.0
    monkeypatch.setattr(
        "kopf_runtime.reporting.status_writer.time", SimpleNamespace(monotonic=lambda: clock)
    )
    one, seen = widgets.controller(), 0

    @one.status
    def status(thing: Any, _: kr.Observed) -> kr.Status:
        nonlocal clock, seen
        if (seen := thing.metadata.generation) == 2 and not clock:
            clock = 100.0  # only now: a resync may look at the first state at any moment
        return kr.Status(False, f"Step{'AB'[seen - 1]}", "It is under way.", transient=True)

    async with working_on(server, widget(), one, settings=kr.Settings(resync_period=0.1)):
        await until(lambda: seen == 1)
        server.edit(WIDGET, KEY, edit("edited"))
        await until(lambda: seen == 2)
        await resynced(server)
        assert not [write for write in server.writes if write.endswith("/status")]

        clock = 101.0
        await status_of(server, 2)
    assert ready(server.get(WIDGET, KEY))["reason"] == "StepB"


def freeze(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Return the clock of the states, which stands still."""
    clock = SimpleNamespace(now=0.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr("kopf_runtime.reporting.status_writer.time", clock)
    return clock


def test_what_was_taken_away_a_thousand_times_is_written_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, repeats = freeze(monkeypatch), Repeats()
    for _ in range(1100):
        repeats.wrote(KEY, 1)
        clock.now += (wait := repeats.remaining(KEY, 1) or 0.0)
        assert repeats.remaining(KEY, 1) is None
    assert wait == Repeats.LONGEST

    clock.now += 2 * Repeats.LONGEST
    repeats.wrote(KEY, 1)
    assert repeats.remaining(KEY, 1) == 2.0


@pytest.mark.parametrize("faster", [False, True], ids=["a computed time", "before the answer"])
async def test_whoever_takes_the_status_away_is_fought_slowly(
    server: ApiServer, *, faster: bool
) -> None:
    one = widgets.controller()

    @one.status
    def status(*_: Any) -> kr.Status:
        again = None if faster else 60.0 + next(STAMPS)
        return kr.Status(True, "Fine", "Fine.", requeue_after=again)

    def clear() -> None:
        server.edit(WIDGET, KEY, lambda raw: raw.update(status={}))

    async def fight(request: web.Request) -> web.StreamResponse | None:
        if not request.path.endswith("/status"):
            return None
        answer = await server._serve(request)
        if faster:
            clear()
            await asyncio.sleep(0.1)  # the watch tells of it first
        else:
            asyncio.get_running_loop().call_later(0.05, clear)
        return answer

    server.answers.append(fight)
    server.put(WIDGET, widget())
    async with operating(server, one):
        await until(lambda: any(write.endswith("/status") for write in server.writes))
        await asyncio.sleep(1.5)
    assert sum(write.endswith("/status") for write in server.writes) < 4


async def test_another_object_of_a_name_is_written_as_a_first_one(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    freeze(monkeypatch)
    one = widgets.controller(lambda *_: ())
    one.status(lambda *_: kr.Status(True, "Fine", "Fine."))
    server.put(WIDGET, widget())
    async with operating(server, one):
        await status_of(server, 1)
        server.mute = True  # the deletion and the creation are seen at once
        server.remove(WIDGET, KEY)
        server.mute = False
        server.put(WIDGET, widget())
        await status_of(server, 1)


async def test_another_object_of_a_name_settles_as_a_first_one(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, seen = freeze(monkeypatch), set[str]()
    one = widgets.controller(lambda *_: ())

    @one.status
    def status(thing: Any, _: kr.Observed) -> kr.Status:
        seen.add(thing.metadata.uid)
        return kr.Status(False, "Step", "It is under way.", transient=True)

    async with working_on(server, widget(), one, settings=kr.Settings(resync_period=0.1)):
        await until(lambda: len(seen) == 1)
        server.mute = True
        server.remove(WIDGET, KEY)
        server.mute = False
        server.put(WIDGET, widget())
        clock.now = 100.0
        await until(lambda: len(seen) == 2)
        await resynced(server)
        assert not (server.get(WIDGET, KEY) or {}).get("status")


async def test_a_status_that_was_not_kept_is_written_by_the_next_resync(server: ApiServer) -> None:
    def prune(kind: kr.Kind, raw: Any) -> None:
        if kind == WIDGET:
            drop(raw["status"])

    server.admission = prune
    server.put(WIDGET, widget())
    settings = kr.Settings(resync_period=0.1)
    async with operating(server, telling({"count": 2, "extra": 3}), settings=settings):
        assert await status_of(server, 1) == {"count": 2}
        server.admission = lambda *_: None  # the CRD has the field by now

        await until(lambda: ((server.get(WIDGET, KEY) or {})["status"]).get("extra") == 3)


@pytest.mark.parametrize("again", [0.0, -1.0, float("nan")])
async def test_a_status_that_changes_at_once_is_no_hot_loop(
    server: ApiServer, again: float
) -> None:
    one = widgets.controller()

    @one.status
    def status(*_: Any) -> kr.Status:
        return kr.Status(True, "Fine", "Fine.", requeue_after=again)

    async with working_on(server, widget(), one) as operator:
        await status_of(server, 1)
        await asyncio.sleep(0.5)

        assert operator.reconciles("requeue_after") < 10


async def test_a_status_sees_the_children_of_one_kind_in_the_order_of_the_plan(
    server: ApiServer,
) -> None:
    one = Controller(WIDGET, Widget, None)
    for kind in (CONFIG_MAP, SECRET, SERVICE):
        one.owns(kind)

    @one.desired
    def desired(_: Widget, __: object) -> list[dict[str, Any]]:
        planned = [(CONFIG_MAP, "z"), (SECRET, "a"), (CONFIG_MAP, "a")]
        return [widgets.manifest(kind, name) for kind, name in planned]

    @one.status
    def status(_: Any, seen: kr.Observed) -> kr.Status:
        def names(kind: kr.Kind) -> list[str]:
            return [child.key[1] for child in seen.children_of(kind)]

        fields = {kind.plural: names(kind) for kind in (CONFIG_MAP, SECRET, SERVICE)}
        kinds = [child.kind.plural for child in seen.children]
        return kr.Status(len(kinds) == 3, "Seen", "They are seen.", {**fields, "kinds": kinds})

    async with reconciled(server, widget(), one):
        assert await status_of(server, 1) == {
            "configmaps": ["z", "a"],
            "secrets": ["a"],
            "services": [],
            "kinds": ["configmaps", "secrets", "configmaps"],
        }


@pytest.mark.parametrize(
    ("say", "why"),
    [
        (lambda: int("one"), "ValueError: invalid literal"),
        (lambda: None, "AttributeError: 'NoneType' object has no attribute"),
        (lambda: kr.Status(True, "Fine", "Fine.", {"nodes": object()}), "TypeError: "),
        (lambda: kr.Status(True, "Fine", "Fine.", {"title": "\ud83d"}), "UnicodeEncodeError"),
    ],
    ids=["raises", "returns nothing", "has a field that JSON has not", "has half a character"],
)
async def test_an_impossible_status_is_told(
    server: ApiServer, say: Callable[[], Any], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    one = widgets.controller()

    @one.status
    def status(thing: Any, seen: kr.Observed) -> kr.Status:
        if thing.metadata.generation == 2:
            return say()  # type: ignore[no-any-return]
        return kr.Status(True, "Fine", "Fine.", {"phase": "Running"})

    async with working_on(server, widget(), one):
        assert await status_of(server, 1) == {"phase": "Running"}
        server.edit(WIDGET, KEY, edit("two"))
        await status_of(server, 2)
        told = ready(server.get(WIDGET, KEY))

        server.edit(WIDGET, KEY, edit("three"))
        await status_of(server, 3)

    assert (told["status"], told["reason"]) == ("False", "InvalidStatus")
    assert told["message"].startswith(f"the status failed: {why}")
    assert ready(server.get(WIDGET, KEY))["status"] == "True"
    caplog.clear()


# --- D16 ----------------------------------------------------------------------------------------


def with_conditions(*own: kr.Condition) -> kr.Status:
    return kr.Status(True, "Fine", "Fine.", conditions=own)


def test_d16_an_author_may_have_conditions_beside_ready() -> None:
    up, unknown = kr.Condition("Available", True, "Up"), kr.Condition("Backup", None, "NotYet")
    former = conditions.build({"conditions": [{"type": "Theirs"}]}, 1, with_conditions(up, unknown))
    for condition in former["conditions"]:
        condition["lastTransitionTime"] = "long ago"

    down = kr.Condition("Available", False, "Down", "It does not answer.")
    now = conditions.build(former, 2, with_conditions(unknown, down))["conditions"]

    assert [
        (condition["type"], condition.get("status"), condition["lastTransitionTime"] == "long ago")
        for condition in now
    ] == [
        ("Theirs", None, True),
        ("Backup", "Unknown", True),
        ("Available", "False", False),
        ("Ready", "True", True),
    ]
    assert now[2]["message"] == "It does not answer."
    assert now[2]["observedGeneration"] == 2


def test_f6_a_condition_that_is_not_returned_stays_as_it_was() -> None:
    up = kr.Condition("Available", True, "Up")
    former = conditions.build({}, 1, with_conditions(up))

    skipped = conditions.build(former, 2, with_conditions())["conditions"]
    unknown = kr.Condition("Available", None, "Unseen")
    told = conditions.build(former, 2, with_conditions(unknown))["conditions"]

    assert skipped[0] == former["conditions"][0]
    assert (told[0]["type"], told[0]["status"]) == ("Available", "Unknown")


@pytest.mark.parametrize("odd", [{"type": ["Ready"]}, {"type": {}}, {}, "Ready", None], ids=str)
def test_d16_a_stored_condition_without_a_type_does_not_count(odd: Any) -> None:
    theirs = {"type": "Theirs"}
    built = conditions.build({"conditions": [odd, theirs]}, 1, with_conditions())["conditions"]

    assert [condition["type"] for condition in built] == ["Theirs", "Ready"]


@pytest.mark.parametrize(
    "status",
    [
        with_conditions(kr.Condition("Ready", True, "Up")),
        with_conditions(kr.Condition("A", True, "Up"), kr.Condition("A", False, "Down")),
        kr.Status(True, "Fine", "", fields={"conditions": []}),
    ],
)
def test_d16_conditions_that_cannot_be_meant_are_an_error(status: kr.Status) -> None:
    with pytest.raises(ValueError, match="each condition needs a type of its own"):
        conditions.build({}, 1, status)


def test_d16_the_text_false_does_not_count_as_true() -> None:
    odd: Any = "False"
    with pytest.raises(TypeError, match="condition Up has a text for its status, not a bool or No"):
        conditions.build({}, 1, with_conditions(kr.Condition("Up", odd, "Down")))
    with pytest.raises(TypeError, match="the condition Ready has a text for its status"):
        conditions.build({}, 1, kr.Status(odd, "Down", "Down."))
