"""What an author of more than a Deployment relies on: steps, waiting, intent, and looks outside."""

import asyncio
import itertools
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgspec
import pytest
from aiohttp import web

import kopf_runtime as kr
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.kinds import CONFIG_MAP
from kopf_runtime.reporting import troubles
from runtime import widgets
from runtime.support.api_server import ApiServer, RefusedError
from runtime.support.running import at_work, caches, leading, operating
from runtime.support.waiting import until
from runtime.widgets import (
    WIDGET,
    Raw,
    Widget,
    edit,
    manifest,
    ready,
    reconciled,
    retry_after,
    text,
    widget,
    working_on,
)

KEY, CHILD = ("ns", "one"), ("ns", "w-one")


class ConfigMap(kr.Object):
    data: dict[str, str] = msgspec.field(default_factory=dict)


class Progress(kr.Fields, frozen=True):
    """The fields of the status."""

    begun: str = ""
    member_count: int = 0


def config_map(name: str, text: str = "") -> Raw:
    return manifest(CONFIG_MAP, name, data={"text": text})


def counted(number: int, raw: Raw) -> None:
    raw["data"]["number"] = str(number)


def reported(server: ApiServer) -> tuple[Any, Any]:
    condition = ready(server.get(WIDGET, KEY))
    return condition.get("reason"), condition.get("message")


def stored(server: ApiServer, name: str = "one") -> Raw:
    return dict((server.get(WIDGET, ("ns", name)) or {}).get("status") or {})


# --- what an author tells -------------------------------------------------------------------------


async def test_a_step_that_sync_takes_is_told_as_an_event(server: ApiServer) -> None:
    one = widgets.controller()

    @one.sync(every=3600)
    async def sync(thing: Widget, context: kr.CallContext[Any]) -> None:
        context.event("MemberAdded", "Added member m-3.")
        context.event("DiskSlow", "The disk of m-1 is slow.", warning=True)
        if thing.spec.text == "bad":
            context.event("member added", "")

    async with working_on(server, widget(), one):
        await until(lambda: len(server.events) == 3)  # the child's is the third
        server.edit(WIDGET, KEY, edit("bad"))
        await until(lambda: reported(server)[0] == "SyncFailed")

    events = {event["reason"]: event for event in server.events}
    assert events["MemberAdded"]["involvedObject"]["name"] == "one"
    said = [(events[name]["type"], events[name]["message"]) for name in ("MemberAdded", "DiskSlow")]
    assert said == [("Normal", "Added member m-3."), ("Warning", "The disk of m-1 is slow.")]
    assert reported(server)[1] == (
        "ValueError: 'member added' is not a reason of an Event; use one CamelCase word"
    )


# --- planning at each reconcile -------------------------------------------------------------------


async def test_a_stepwise_plan_goes_on_after_its_own_status(server: ApiServer) -> None:
    one = widgets.otherwise(widgets.controller())

    @one.desired(stepwise=True)
    def desired(thing: Widget, context: kr.StepContext[Any]) -> Iterable[Raw]:
        members = context.last(Progress).member_count
        for number in range(min(int(thing.spec.text), members + 1)):
            yield config_map(f"member-{number}")

    @one.status
    def status(_: Any, seen: kr.Observed) -> kr.Status:
        return kr.Status(True, "Formed", "So many.", Progress(member_count=len(seen.children)))

    async with working_on(server, widget(text="3"), one):
        await until(lambda: server.get(CONFIG_MAP, ("ns", "member-2")))
        server.edit(WIDGET, KEY, edit("1"))
        await until(lambda: len(caches(one).children[CONFIG_MAP].cache) == 1)
    assert server.get(CONFIG_MAP, ("ns", "member-0"))


@pytest.mark.parametrize("what", ["status", "plan"])
async def test_a_stepwise_object_that_differs_each_time_is_written_once_a_second(
    server: ApiServer, what: str
) -> None:
    one, calls = widgets.otherwise(widgets.controller()), itertools.count()
    if what == "status":
        one.desired(stepwise=True)(lambda *_: [config_map("first")])
        one.status(lambda *_: kr.Status(True, "Fine", "Fine.", {"calls": next(calls)}))
    else:
        one.desired(stepwise=True)(lambda _, context: [config_map("first", str(context.now))])

    async with working_on(server, widget(), one):
        reason = "Fine" if what == "status" else "BackOff"
        await until(lambda: reported(server)[0] == reason)
        before = len(server.writes)
        await asyncio.sleep(1.5)
    assert 0 < len(server.writes) - before < 8


async def test_a_time_that_cannot_be_meant_is_told(server: ApiServer) -> None:
    one = widgets.controller()
    one.sync(every=lambda *_: 0)(_no_call)
    async with working_on(server, widget(), one):
        why = "ValueError: the time between two calls of sync must be above 0 seconds"
        why = why.replace("sync", _no_call.__name__)
        await until(
            lambda: reported(server)[0] == "SyncFailed" and reported(server)[1].startswith(why)
        )


# --- Wait -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["desired", "sync"])
async def test_children_stay_while_an_author_waits(server: ApiServer, where: str) -> None:
    calls = list[str]()

    def wait(thing: Widget) -> None:
        calls.append(thing.spec.text)
        if thing.spec.text == "wait":
            raise kr.Wait("HostnameTaken", "Another has it.")

    def desired(thing: Widget, _: object) -> Iterable[Raw]:
        if where == "desired":
            wait(thing)
        return widgets.config_map(thing)

    one = widgets.controller(desired)
    if where == "sync":

        @one.sync()
        async def sync(thing: Widget, _: object) -> None:
            wait(thing)

    async with working_on(server, widget(), one):
        await until(lambda: text(server) == "hello")

        server.edit(WIDGET, KEY, edit("wait"))
        await until(lambda: reported(server) == ("HostnameTaken", "Another has it."))
        before = list(calls)
        server.edit(WIDGET, KEY, lambda raw: raw["metadata"].update(finalizers=["a.b/c"]))
        await asyncio.sleep(0.3)
        assert text(server) == "hello"
        assert where == "desired" or calls == before

        server.edit(WIDGET, KEY, edit("bye"))
        await until(lambda: text(server) == "bye")
        await until(lambda: ready(server.get(WIDGET, KEY)).get("status") == "True")


async def test_a_plan_that_waits_is_made_again_after_its_time_without_any_change(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kopf_runtime.reporting.troubles.SOONEST", 0.1)
    asked, busy = list[float](), [True]

    def desired(thing: Widget, _: object) -> Iterable[Raw]:
        asked.append(asyncio.get_running_loop().time())
        if busy:
            raise kr.Wait("Busy", "It is busy.", after=0.2)
        return widgets.config_map(thing)

    one = widgets.controller(desired)
    async with working_on(server, widget(), one):
        await until(lambda: len(asked) >= 4)
        busy.clear()
        await until(lambda: ready(server.get(WIDGET, KEY)).get("status") == "True")
        assert text(server) == "hello"
        assert next(iter(caches(one).owners)).thing is None
        busy.append(True)
        server.edit(WIDGET, KEY, edit("again"))
        await until(lambda: reported(server)[0] == "Busy")
        server.mute = True
        server.remove(WIDGET, KEY)
        await until(lambda: not list(caches(one).owners))
    assert all(later - earlier >= 0.19 for earlier, later in itertools.pairwise(asked[:4]))


# --- intent ---------------------------------------------------------------------------------------


async def test_the_next_process_knows_a_recorded_intent(server: ApiServer) -> None:
    seen, outside = list[Progress](), list[str]()

    def controller(call: Callable[[], Any]) -> Controller:
        one = widgets.controller()

        @one.sync()
        async def sync(thing: Widget, context: kr.CallContext[Any]) -> str:
            seen.append(last := context.last(Progress))
            if not last.begun:
                await context.record(Progress(begun=f"member of {thing.metadata.name}"))
            return str(await call())

        return one

    async def never() -> None:
        await asyncio.Event().wait()

    async def called() -> str:
        outside.append("called")
        return "fine"

    async with working_on(server, widget(), controller(never)):
        await until(lambda: (server.get(WIDGET, KEY) or {}).get("status"))
    assert not outside

    async with operating(server, controller(called)):
        await until(lambda: text(server) == "hello")
    assert seen == [Progress(), Progress(begun="member of one")]
    assert (server.get(WIDGET, KEY) or {})["status"]["begun"] == "member of one"  # and it stays


async def test_a_recorded_intent_leaves_the_other_fields_of_its_class(server: ApiServer) -> None:
    class Members(kr.Fields, frozen=True):
        joining_now: str | None = None
        booking: str = ""
        count: int = 0
        names: list[str] = msgspec.field(default_factory=list)

    one, seen, failed = widgets.controller(), list[Any](), list[str]()

    @one.sync(every=3600)
    async def sync(_: Widget, context: kr.CallContext[Any]) -> None:
        await context.record(Members(booking="B1", count=3, names=["a"]))
        await context.record(Members(joining_now="m-1"))
        seen.append(dict((server.get(WIDGET, KEY) or {})["status"]))
        await context.record({"joiningNow": None})
        seen.append(dict((server.get(WIDGET, KEY) or {})["status"]))
        try:
            await context.record(Members())
        except ValueError as error:
            failed.append(str(error))

    async with reconciled(server, widget(), one):
        pass
    kept = {"booking": "B1", "count": 3, "names": ["a"]}
    assert seen == [{**kept, "joiningNow": "m-1"}, kept]
    assert failed
    assert failed[0].startswith("each field of this Members has its default")


async def test_a_status_that_overwrites_a_record_is_refused(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    def recording(error: Exception | None = None) -> Controller:
        one = widgets.controller()

        @one.sync()
        async def sync(thing: Widget, context: kr.CallContext[Any]) -> None:
            if error:
                raise error
            if thing.spec.text == "begin":
                await context.record(Progress(begun="now"))

        one.status(lambda _, seen: kr.Status(False, "Begun", "Soon.", Progress(member_count=1)))
        return one

    server.put(WIDGET, widget(text="begin"))
    async with working_on(server, widget("two"), recording()):
        why = "it would overwrite what context.record has stored in begun; return a class without"
        await until(lambda: reported(server)[0] == "InvalidStatus" and why in reported(server)[1])
        server.edit(WIDGET, ("ns", "two"), edit("again"))
        await until(lambda: stored(server, "two").get("observedGeneration") == 2)
        assert ready(server.get(WIDGET, ("ns", "two")))["reason"] == "Begun"
    assert stored(server)["begun"] == "now"

    server.edit(WIDGET, KEY, edit("again"))
    async with operating(server, recording(kr.RetryError("it is not done yet"))):  # a restart
        await until(lambda: stored(server).get("observedGeneration") == 2)
    assert stored(server)["begun"] == "now"
    caplog.clear()


async def test_what_changed_is_read_again_before_a_call_outside(server: ApiServer) -> None:
    one, outside = widgets.controller(), list[str]()

    @one.sync()
    async def sync(_: Widget, context: kr.CallContext[Any]) -> None:
        if not context.stored.get("theirs"):
            server.edit(WIDGET, KEY, lambda raw: raw.update(status={"theirs": "first"}))
        await context.record(Progress(begun="now"))
        outside.append(context.stored["theirs"])

    async with reconciled(server, widget(), one):
        pass
    assert outside == ["first"]
    assert not any(event["reason"] == "SyncFailed" for event in server.events)


async def test_a_call_that_never_records_is_told_and_made_less_often(server: ApiServer) -> None:
    one, calls = widgets.controller(), list[int]()

    @one.sync()
    async def sync(_: Widget, context: kr.CallContext[Any]) -> None:
        calls.append(1)
        server.edit(WIDGET, KEY, lambda raw: raw.setdefault("status", {}).update(of=len(calls)))
        await context.record({"begun": "yes"})

    async with working_on(server, widget(), one):
        reason = "SyncFailed", "it changed before anything was recorded"
        await until(lambda: reported(server) == reason)
        before = len(calls)
        await asyncio.sleep(1)
        assert len(calls) - before <= 2

        external = at_work(one).external
        one.enqueue(KEY)
        server.remove(WIDGET, KEY)
        await until(lambda: not (external._failed or external._news or external._stale))


async def test_an_intent_that_the_api_server_does_not_keep_ends_the_call(server: ApiServer) -> None:
    one, outside = widgets.controller(), list[str]()

    def drop(_: object, raw: Raw) -> None:
        raw.get("status", {}).pop("begun", None)  # as a CRD without the field does

    @one.sync()
    async def sync(_: Widget, context: kr.CallContext[Any]) -> None:
        await context.record(Progress(begun="now"))
        outside.append("called")

    server.admission = drop
    async with working_on(server, widget(), one):
        await until(lambda: reported(server)[0] == "SyncFailed")
    assert "does not keep these fields of the status: ['begun']" in reported(server)[1]
    assert not outside


# --- when sync is called again --------------------------------------------------------------------


async def test_a_change_of_a_child_calls_sync_at_most_once_a_second(server: ApiServer) -> None:
    one, calls = widgets.controller(), list[float]()

    @one.sync(every=3600, on=[CONFIG_MAP])
    async def sync(*_: Any) -> None:
        calls.append(asyncio.get_running_loop().time())

    async with working_on(server, widget(), one):
        await until(lambda: text(server) == "hello")
        for number in range(20):
            server.edit(CONFIG_MAP, CHILD, partial(counted, number))
            await asyncio.sleep(0.02)

        await until(lambda: len(calls) >= 2)
        await asyncio.sleep(0.3)
    assert all(later - earlier >= 0.99 for earlier, later in itertools.pairwise(calls))


@pytest.mark.parametrize("what", ["sync", "check"])
@pytest.mark.parametrize(
    "error",
    [kr.RetryError("down"), kr.Wait("Busy", "busy", after=0.2), kr.ApiError("", "", 503, "X", "")],
    ids=lambda error: type(error).__name__,
)
async def test_a_call_because_of_a_child_that_fails_is_made_again_soon(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch, what: str, error: Exception
) -> None:
    monkeypatch.setattr("kopf_runtime.working.external.MIN_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr("kopf_runtime.working.external.SOONEST", 0.1)
    one, calls, down = widgets.controller(), list[bool](), list[bool]()

    async def call(*_: Any) -> None:
        calls.append(bool(down))
        if down:
            down.pop()
            raise error

    (one.sync if what == "sync" else one.check)(every=3600, on=[CONFIG_MAP])(call)
    async with reconciled(server, widget(), one):
        await asyncio.sleep(0.3)  # our own creation is a change, too
        down.append(True)
        server.edit(CONFIG_MAP, CHILD, partial(counted, 1))
        await until(lambda: calls[-2:] == [True, False])
        await until(lambda: ready(server.get(WIDGET, KEY)).get("status") == "True")


async def test_the_outcome_may_say_how_soon_sync_is_called_again(server: ApiServer) -> None:
    one, calls = widgets.controller(), list[int]()

    def every(_: Widget, context: kr.CallContext[Any]) -> float:
        return 0.1 if context.sync_result < 3 else 3600

    @one.sync(every=every)
    async def sync(*_: Any) -> int:
        calls.append(1)
        return len(calls)

    async with working_on(server, widget(), one):
        await until(lambda: len(calls) == 3)
        await asyncio.sleep(0.3)
    assert len(calls) == 3


@pytest.mark.parametrize("every", [0.05, 1e-6], ids=["", "due before the reconcile ends"])
async def test_an_object_whose_plan_fails_is_synced_in_time_and_planned_with_each_outcome(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch, every: float
) -> None:
    retry_after(monkeypatch, 600.0, troubles.INVALID)
    calls = list[int]()

    def desired(thing: Widget, context: kr.Context[Any]) -> Iterable[Raw]:
        if context.sync_result == "taken":
            raise kr.PlanError("the hostname is taken")
        return widgets.config_map(thing)

    one = widgets.controller(desired)

    @one.sync(every=every)
    async def sync(*_: Any) -> str:
        calls.append(1)
        return "taken" if len(calls) < 15 else "free"  # the delays of retries would have grown

    async with working_on(server, widget(), one):
        await until(lambda: reported(server) == ("InvalidPlan", "the hostname is taken"))
        await until(lambda: text(server) == "hello")


# --- what cannot be seen --------------------------------------------------------------------------


async def test_a_child_that_cannot_be_read_is_not_taken_for_gone(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kopf_runtime.declaring.context.UNSEEN", 0.5)
    seen = list[int]()
    one = widgets.controller(transform=lambda child: child.metadata.annotations["size"])

    @one.sync(every=0.1)
    async def sync(_: Widget, context: kr.CallContext[Any]) -> None:
        seen.append(len(context.children))

    def resize(size: str) -> Callable[[Raw], None]:
        return lambda raw: raw["metadata"]["annotations"].update({size: "1"})

    async with working_on(server, widget(), one):
        await until(
            lambda: "cannot be seen: ns/w-one cannot be read: KeyError" in str(reported(server))
        )
        server.edit(CONFIG_MAP, CHILD, resize("size"))
        await until(lambda: seen[-1:] == [1])
    assert set(seen[1:]) == {1}


async def test_c18_after_a_takeover_sync_sees_the_former_leaders_child(server: ApiServer) -> None:
    seen = list[Any]()
    former, one = widgets.controller(), widgets.controller()

    @one.sync()
    async def sync(_: Widget, context: kr.CallContext[Any]) -> None:
        seen.append(context.child and context.child.key)

    async with working_on(server, widget(), one, working=False) as standby:
        await until(lambda: standby.synced)
        server.mute = True  # its watches fall behind
        async with operating(server, former):
            await until(lambda: server.get(CONFIG_MAP, CHILD))
        async with leading(one):
            await until(lambda: seen)
    assert seen == [CHILD]


async def test_after_a_takeover_an_index_knows_what_others_gave_up(server: ApiServer) -> None:
    def desired(one: Widget, context: kr.Context[Any]) -> Iterable[Raw]:
        (child,) = widgets.config_map(one)
        first = context.by_index(hosts[context.settings.workers], one.spec.text)[0]
        yield child | {"data": {"first": first[1]}}

    former, one = widgets.controller(desired), widgets.controller(desired)
    hosts = {
        number: each.index(lambda widget: [widget.spec.text])
        for number, each in enumerate((former, one), 1)
    }
    for name, second in (("old", 1), ("one", 2)):
        server.put(WIDGET, widget(name, creationTimestamp=f"2026-01-01T00:00:0{second}Z"))
    settings = kr.Settings(workers=2)
    async with operating(server, one, settings=settings, working=False) as standby:
        await until(lambda: standby.synced)
        server.mute = True  # its watches fall behind
        server.edit(WIDGET, ("ns", "old"), edit("another"))
        async with operating(server, former, settings=kr.Settings(workers=1)):
            await until(lambda: server.get(CONFIG_MAP, CHILD))
        made = server.get(CONFIG_MAP, CHILD)
        async with leading(one):  # of both, and again after the lists
            await until(lambda: standby.reconciles("success") >= 4, 20.0)
    assert server.get(CONFIG_MAP, CHILD) == made


async def _no_call(*_: Any) -> None: ...


async def test_a_replica_that_takes_over_is_ready_while_it_lists(server: ApiServer) -> None:
    one = widgets.controller()
    one.sync()(_no_call)
    async with operating(server, one, working=False) as standby:
        await until(lambda: standby.synced)
        late = asyncio.Event()

        async def answer(request: web.Request) -> None:
            if request.path.endswith("/configmaps"):
                await late.wait()

        server.answers.append(answer)
        async with leading(one):
            await until(lambda: caches(one).why_unserved("ns"))  # so nothing is reconciled
            assert caches(one).unserved() == ([], 1)
            late.set()


# --- check ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("optional", [[], [kr.kinds.JOB]], ids=["", "optional kind is absent"])
async def test_a_check_finds_the_children_in_place_and_the_plan_follows_its_result(
    server: ApiServer, optional: list[kr.Kind], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kopf_runtime.working.external.SOONEST", 0.05)

    def desired(thing: Widget, context: kr.Context[Any]) -> Iterable[Raw]:
        yield config_map("w-one", f"{thing.spec.text} {context.check_result}")

    one, found = widgets.controller(desired), list[tuple[Any, ...]]()
    for kind in optional:
        one.owns(kind, optional=True)

    @one.sync(every=3600)
    async def sync(thing: Widget, _: Any) -> str:
        return thing.spec.text

    @one.check(every=3600)
    async def check(thing: Widget, context: kr.CallContext[Any]) -> str:
        found.append(([child.key[1] for child in context.children], thing.spec.text))
        assert context.sync_result == thing.spec.text  # what sync has just returned
        return "answers"

    @one.status
    def status(_: Any, seen: kr.Observed) -> kr.Status:
        return kr.Status(True, "Checked", str(seen.check_result))

    async with working_on(server, widget(), one):
        await until(lambda: reported(server) == ("Checked", "answers"))
        await until(lambda: text(server) == "hello answers")
        assert found == [(["w-one"], "hello")]
        server.edit(WIDGET, KEY, edit("other"))
        await until(lambda: text(server) == "other answers" and len(found) == 2)
        for _ in range(9):
            at_work(one).queue.add(KEY)
            await asyncio.sleep(0.03)
        assert found[1:] == [(["w-one"], "other")]
        server.remove(CONFIG_MAP, CHILD)  # it has not seen the next one
        await until(lambda: found[1:] == [(["w-one"], "other")] * 2)


async def test_a_check_that_found_half_of_the_children_is_called_again(server: ApiServer) -> None:
    def desired(thing: Widget, context: kr.Context[Any]) -> Iterable[Raw]:
        for name in "w-one", "w-two":
            yield config_map(name, f"{thing.spec.text} {context.check_result}")

    one, found = widgets.controller(desired), list[int]()
    one.owns(kr.kinds.JOB, optional=True)  # is absent, so there may be children from before

    @one.check(every=3600)
    async def check(_: Widget, context: kr.CallContext[Any]) -> int:
        found.append(len(context.children))
        return found[-1]

    error = RefusedError(500, "InternalError")
    refused = server.refuse("PATCH", "/w-(one|two)$", error, times=3)
    async with working_on(server, widget(), one):
        await until(lambda: text(server) == "hello 2")
    assert len(refused) == 3
    assert found[0] == 1  # it is called only once there is a child


async def test_children_stay_while_a_check_fails_or_makes_the_plan_impossible(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kopf_runtime.working.external.MIN_PAUSE_SECONDS", 0.05)
    state = ["down"]

    def desired(thing: Widget, context: kr.Context[Any]) -> Iterable[Raw]:
        if context.check_result == "ill":
            raise kr.PlanError("it is ill")
        return widgets.config_map(thing)

    one = widgets.controller(desired)

    @one.check(every=0.1)
    async def check(*_: Any) -> str:
        if state[0] == "down":
            raise kr.RetryError("It does not answer.")
        return state[0]

    async with working_on(server, widget(), one):
        await until(lambda: reported(server) == ("CheckFailed", "It does not answer."))
        assert text(server) == "hello"
        state[0] = "well"
        await until(lambda: reported(server)[0] == "Reconciled", seconds=20)
        state[0] = "ill"
        await until(lambda: reported(server) == ("InvalidPlan", "it is ill"))
        assert text(server) == "hello"
        state[0] = "well"
        await until(lambda: reported(server)[0] == "Reconciled", seconds=20)


def paused(value: str, raw: Raw) -> None:
    raw["metadata"]["annotations"] = {"example.dev/paused": value}


def if_formed(state: list[str], *, checks: list[int]) -> Controller:
    """A second child for what `check` returns: the first of the state; without one it fails."""

    def desired(thing: Widget, context: kr.Context[Any]) -> Iterable[Raw]:
        yield config_map("w-one", f"{thing.spec.text} {context.check_result}")
        if context.check_result:
            yield config_map("data")

    one = widgets.controller(desired)

    @one.check(every=3600)
    async def check(*_: Any) -> str:
        checks.append(1)
        if not state:
            raise kr.RetryError("It does not answer.")
        return state[0]

    return one


async def test_an_edit_keeps_what_is_there_because_of_the_check(server: ApiServer) -> None:
    checks: list[int] = []
    async with working_on(server, widget(), if_formed(["formed"], checks=checks)):
        await until(lambda: server.get(CONFIG_MAP, ("ns", "data")))
        server.edit(WIDGET, KEY, edit("changed"))
        await until(lambda: text(server) == "changed formed" and len(checks) == 2)
        await asyncio.sleep(0.1)
    assert not any(write.startswith("DELETE") for write in server.writes)


async def test_a_restart_keeps_what_is_there_because_of_the_check_until_it_answers(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kopf_runtime.working.external.MIN_PAUSE_SECONDS", 0.05)
    state = ["formed"]
    async with working_on(server, widget(), if_formed(state, checks=[])):
        await until(lambda: server.get(CONFIG_MAP, ("ns", "data")))
    state.clear()
    server.remove(CONFIG_MAP, CHILD)
    server.edit(WIDGET, KEY, partial(paused, "true"))
    async with operating(server, if_formed(state, checks=[])):
        would = "Would check the Widget; create ConfigMap w-one."
        await until(lambda: would in str(server.get(WIDGET, KEY)))
        server.edit(WIDGET, KEY, partial(paused, "no"))
        await until(lambda: reported(server) == ("CheckFailed", "It does not answer."))
        await until(lambda: text(server) == "hello None")  # what is missing is made
        assert server.get(CONFIG_MAP, ("ns", "data"))
        server.edit(WIDGET, KEY, edit("mended"))  # and an edit may be what mends it
        await until(lambda: text(server) == "mended None")
        assert not any(write.startswith("DELETE") for write in server.writes)
        state.append("")
        await until(lambda: server.get(CONFIG_MAP, ("ns", "data")) is None)


async def test_a_restart_keeps_a_child_of_a_kind_that_is_absent_for_a_while() -> None:
    job = {"template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}}
    state, checks = ["formed"], list[int]()

    def controller() -> Controller:
        def desired(_: Widget, context: kr.Context[Any]) -> Iterable[Raw]:
            if context.check_result:
                yield manifest(kr.kinds.JOB, "data", spec=job)

        one = widgets.otherwise(if_formed(state, checks=checks))
        one.owns(kr.kinds.JOB, optional=True)
        one.desired(desired)
        return one

    async with ApiServer(WIDGET, CONFIG_MAP, kr.kinds.JOB).running() as server:
        async with working_on(server, widget(), controller()):
            await until(lambda: server.get(kr.kinds.JOB, ("ns", "data")))
        state.clear()
        server.refuse("GET", "/jobs$", RefusedError(404, "NotFound"))
        confined = kr.Settings(namespaces=("ns",))
        async with operating(server, controller(), settings=confined) as operator:
            await until(lambda: reported(server)[0] == "CheckFailed")
            await until(lambda: operator.synced)  # by now, the kind is there again
            checks.clear()
            server.edit(WIDGET, KEY, edit("changed"))
            await until(lambda: checks)  # which is only after the plan if it has no children
    assert not any(write.startswith("DELETE") for write in server.writes)


async def test_an_unchecked_object_follows_its_plan(server: ApiServer) -> None:
    one = widgets.otherwise(if_formed([], checks=[]))

    @one.desired(stepwise=True)
    def desired(_: Widget, context: kr.StepContext[Any]) -> Iterable[Raw]:
        yield config_map("w-one", f"{len(context.children)} there")

    async with working_on(server, widget(), one):
        await until(lambda: reported(server)[0] == "CheckFailed")
        await until(lambda: text(server) == "1 there")
