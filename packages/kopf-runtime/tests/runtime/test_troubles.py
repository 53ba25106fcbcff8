"""What goes wrong is told by a condition and an Event in the API server's words, and made good."""

import asyncio
import itertools
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

import kopf_runtime as kr
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.errors import ApiError
from kopf_runtime.declaring.kinds import CONFIG_MAP, POD
from kopf_runtime.declaring.objects import UnreadableError
from kopf_runtime.declaring.records import Plan, Step, Wanted
from kopf_runtime.reporting import events, troubles
from kopf_runtime.reporting.events import Recorder
from kopf_runtime.reporting.troubles import DONE
from kopf_runtime.watching.references import NotReadableError
from runtime import widgets
from runtime.support.api_server import EVENT, ApiServer, RefusedError
from runtime.support.running import caches, connected, operating
from runtime.support.waiting import beside, until
from runtime.widgets import (
    TEMPLATE,
    UID,
    WIDGET,
    Raw,
    edit,
    readiness,
    reconciled,
    resynced,
    retry_after,
    widget,
    working_on,
)

KEY, CHILD = ("ns", "one"), ("ns", "w-one")
WANTED = Wanted(POD, ("ns", "a"), "", "")
FOREVER = float("inf")


def warnings(server: ApiServer) -> list[tuple[str, str]]:
    return [(e["reason"], e["message"]) for e in server.events if e["type"] == "Warning"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (400, "BadRequest"),
        (403, "Forbidden"),
        (413, "RequestEntityTooLarge"),
        (422, "Invalid"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
        (504, "Timeout"),
    ],
)
async def test_l1_l11_whatever_refuses_a_child_is_told_once_and_made_good(
    server: ApiServer, code: int, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    said = f"admission webhook says no ({code})"
    server.refuse("POST", "/pods$", RefusedError(code, reason, said), FOREVER)
    async with working_on(server, widget(), widgets.controller(widgets.pod)):
        await until(lambda: readiness(server).get("reason") == reason)
        assert (readiness(server)["status"], readiness(server)["message"]) == ("False", said)
        await until(lambda: warnings(server))
        await asyncio.sleep(0.3)
        assert [message for _, message in warnings(server)] == [said]
        logged = [record.levelno for record in caplog.records if said in record.message]
        assert logged == [logging.WARNING]

        server.answers.clear()  # and all is well without a touch
        server.edit(WIDGET, KEY, edit("again"))
        await until(lambda: readiness(server).get("status") == "True")
    assert server.get(POD, CHILD)


@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_l1_a_slow_server_is_told_while_it_is_slow(server: ApiServer, method: str) -> None:
    answer = asyncio.Event()

    async def hang(request: web.Request) -> None:
        if request.method == method and "/pods" in request.path:
            await answer.wait()

    server.answers.append(hang)
    async with working_on(server, widget(), widgets.controller(widgets.pod)) as operator:
        operator.client._timeout = 0.2
        if method == "DELETE":
            await until(lambda: readiness(server).get("status") == "True")
            server.edit(WIDGET, KEY, edit("edited"))
        await until(lambda: readiness(server).get("reason") == "Timeout")
        assert readiness(server)["status"] == "False"
        assert method == "DELETE" or server.get(POD, CHILD) is None

        answer.set()
        await until(lambda: readiness(server).get("status") == "True")


@pytest.mark.parametrize(
    ("method", "code", "reason"), [("DELETE", 404, "NotFound"), ("POST", 409, "AlreadyExists")]
)
async def test_a_webhook_that_lies_about_what_exists_is_told(
    server: ApiServer, method: str, code: int, reason: str
) -> None:
    async with reconciled(server, widget(), widgets.controller(widgets.pod)):
        server.refuse(method, "/pods(/w-one)?$", RefusedError(code, reason), FOREVER)
        server.edit(WIDGET, KEY, edit("edited"))
        await until(
            lambda: (
                (readiness(server).get("status"), readiness(server)["reason"]) == ("False", reason)
            )
        )
        assert "Pod w-one" in readiness(server)["message"]

        server.answers.clear()
        await until(lambda: readiness(server).get("status") == "True")


def odd(number: int) -> RefusedError:
    letters = "".join("abcdefghij"[int(digit)] for digit in str(number))
    return RefusedError(500, f"Odd{letters}")


REFUSALS = {
    "in other words": lambda n: RefusedError(500, "InternalError", f"read tcp 10.0.0.1:{n}: reset"),
    "for one of two reasons": lambda n: RefusedError(500 + n % 2, "AB"[n % 2] * 5),
    "for a new reason": odd,
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
async def test_what_is_refused_differently_each_time_is_told_and_makes_no_hot_loop(
    server: ApiServer, refusal: Any
) -> None:
    numbers = itertools.count()

    async def refuse(request: web.Request) -> web.Response | None:
        if request.method == "POST" and request.path.endswith("/pods"):
            return refusal(next(numbers)).response()  # type: ignore[no-any-return]
        return None

    async with reconciled(server, widget(), widgets.controller(widgets.pod)):
        server.answers.append(refuse)
        server.remove(POD, CHILD)
        await until(lambda: readiness(server).get("status") == "False", seconds=20)
        before = next(numbers)
        await asyncio.sleep(1.5)

    assert next(numbers) - before <= 20  # without a back-off, hundreds


# --- L6 -----------------------------------------------------------------------------------------

MARKS = {
    "app.kubernetes.io/managed-by": "the label app.kubernetes.io/managed-by",
    UID: f"the label {UID}",
    TEMPLATE: "the annotation template-hash",
    "ownerReferences": "the owner reference",
}


def stripping(kind: kr.Kind, lost: str) -> Any:
    """Return a webhook that removes one of our marks; a policy takes all annotations."""

    def strip(one: kr.Kind, raw: Raw) -> None:
        meta = raw["metadata"]
        if one == kind and lost == TEMPLATE:
            meta.pop("annotations", None)
        elif one == kind:
            (meta if lost == "ownerReferences" else meta["labels"]).pop(lost)

    return strip


@pytest.mark.parametrize("lost", MARKS)
async def test_l6_a_webhook_that_takes_our_marks_away_is_told_and_the_child_lives(
    server: ApiServer, lost: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    server.admission = stripping(POD, lost)
    server.put(WIDGET, widget())
    settings = kr.Settings(resync_period=0.1)
    async with operating(server, widgets.controller(widgets.pod), settings=settings):
        await until(lambda: readiness(server).get("reason") == "AdmissionChanged")
        uid = (server.get(POD, CHILD) or {})["metadata"]["uid"]
        await resynced(server)

        assert (server.get(POD, CHILD) or {})["metadata"]["uid"] == uid
    assert f"dmission removed or changed {MARKS[lost]}" in readiness(server)["message"]
    assert len(warnings(server)) == 1
    assert caplog.text.count("dmission removed or changed") == 1  # not at each resync


@pytest.mark.parametrize("lost", MARKS)
@pytest.mark.parametrize("how", [widgets.config_map, widgets.pod], ids=["apply", "replace"])
async def test_l6_what_a_webhook_took_comes_back_once_it_is_exempt(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch, how: Any, lost: str
) -> None:
    retry_after(monkeypatch, 0.05, troubles.CONFLICT)
    kind = POD if how is widgets.pod else CONFIG_MAP
    server.admission = stripping(kind, lost)
    async with working_on(server, widget(), widgets.controller(how)):
        await until(lambda: readiness(server).get("reason") == "AdmissionChanged")
        await until(lambda: len(server.events) == 2)
        assert [event["type"] for event in server.events] == ["Normal", "Warning"]
        server.admission = lambda *_: None
        if kind == POD:
            assert "then delete that Pod" in readiness(server)["message"]
            server.edit(WIDGET, KEY, edit("edited"))  # makes another one, too

        await until(lambda: readiness(server).get("status") == "True")


#: The marks whose loss a child shows itself, because the template's hash is still there.
LABELS = [mark for mark, text in MARKS.items() if "label" in text]


@pytest.mark.parametrize("lost", LABELS)
async def test_l6_a_restart_keeps_a_child_without_our_labels(server: ApiServer, lost: str) -> None:
    server.admission = stripping(POD, lost)
    async with working_on(server, widget(), widgets.controller(widgets.pod)):
        await until(lambda: readiness(server).get("reason") == "AdmissionChanged")
    uid, before = (server.get(POD, CHILD) or {})["metadata"]["uid"], len(server.requests)

    settings = kr.Settings(resync_period=0.1)
    async with operating(server, widgets.controller(widgets.pod), settings=settings):
        await until(lambda: f"GET {POD.at(CHILD)}" in map(str, server.requests[before:]))
        await resynced(server)

    assert (server.get(POD, CHILD) or {})["metadata"]["uid"] == uid
    assert readiness(server)["reason"] == "AdmissionChanged"


def labels(child: Raw | None) -> Raw:
    found: Raw = (child or {"metadata": {}})["metadata"].get("labels") or {}
    return found


# --- L7, L8 -------------------------------------------------------------------------------------


async def test_l7_a_conflict_is_looked_at_less_and_less_often(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    retry_after(monkeypatch, 0.05, troubles.CONFLICT)
    server.put(POD, {"metadata": {"namespace": "ns", "name": "w-one"}, "spec": {}})
    async with working_on(server, widget(), widgets.controller(widgets.pod)):
        await until(lambda: readiness(server).get("reason") == "Conflict")
        await asyncio.sleep(1.5)
        looks = [r for r in server.requests if "/pods" in r.path and "/pods/w-one" in r.path]
        posts = [r for r in server.requests if r.method == "POST" and "/pods" in r.path]

        assert len(looks) + len(posts) <= 24  # without a back-off, thirty each


async def test_l8_a_status_that_cannot_be_written_makes_nobody_forget_the_object(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.refuse("PATCH", "/status$", RefusedError(404, "NotFound"), FOREVER)
    async with working_on(server, widget(), widgets.controller(widgets.pod)):
        await until(lambda: server.get(POD, CHILD))
        await until(lambda: "has no status subresource" in caplog.text)
        server.remove(POD, CHILD)

        await until(lambda: server.get(POD, CHILD))


async def test_l8_what_waits_is_told_once_its_status_can_be_written(server: ApiServer) -> None:
    def desired(*_: object) -> Any:
        raise kr.Wait("Busy", "It is busy.", after=3600)

    refused = server.refuse("PATCH", "/status$", RefusedError(500, "InternalError"), 8)
    async with working_on(server, widget(), widgets.controller(desired)):
        await until(lambda: refused)
        began = time.monotonic()
        await until(lambda: readiness(server).get("reason") == "Busy")
    assert time.monotonic() - began > 0.5  # each pause is twice as long as the one before


async def test_l8_an_object_that_is_gone_is_forgotten_when_its_status_is_refused(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with reconciled(server, widget(), one := widgets.controller(widgets.pod)):
        server.mute = True
        server.remove(WIDGET, KEY)
        server.mute = False
        server.refuse("POST", "/pods$", RefusedError(403, "Forbidden"), FOREVER)
        server.remove(POD, CHILD)

        await until(lambda: caches(one).owners.cache.get(KEY) is None)
    assert "status subresource" not in caplog.text


async def test_a_status_is_written_to_the_version_that_it_is_about_alone(server: ApiServer) -> None:
    before: list[Any] = []

    async def edit_meanwhile(request: Any) -> None:
        if request.method == "PATCH" and request.path.endswith("/status"):
            before.append((server.get(WIDGET, KEY) or {}).get("status"))
            if len(before) == 1:
                server.edit(WIDGET, KEY, edit("edited"))

    server.answers.append(edit_meanwhile)
    async with working_on(server, widget(), widgets.controller(widgets.pod)):
        await until(lambda: readiness(server).get("observedGeneration") == 2)
        server.refuse("PATCH", "/status$", RefusedError(409, "Conflict"), 3)
        server.edit(WIDGET, KEY, edit("once more"))
        await until(lambda: readiness(server).get("observedGeneration") == 3)

    assert not any(before[:2])


# --- L10, L11 -----------------------------------------------------------------------------------


async def test_l10_conditions_of_others_are_kept_if_there_is_room(server: ApiServer) -> None:
    def condition(number: int) -> Raw:
        return {
            "type": f"Other{number}",
            "status": "True",
            "reason": "R",
            "message": "",
            "lastTransitionTime": f"2026-01-{number + 1:02}T00:00:00Z",
        }

    server.put(WIDGET, {**widget(), "status": {"conditions": [condition(n) for n in range(16)]}})
    async with operating(server, widgets.controller(widgets.pod)):
        await until(lambda: readiness(server).get("status") == "True")

    conditions = (server.get(WIDGET, KEY) or {})["status"]["conditions"]
    assert len(conditions) == 16
    assert {f"Other{n}" for n in range(1, 16)} < {kept["type"] for kept in conditions}


# --- an author's code ---------------------------------------------------------------------------


def test_of_several_outcomes_the_foremost_says_what_all_of_them_need() -> None:
    """A child that waits for minutes delays no other, and each Retry-After is kept."""
    waits = troubles.back_off(WANTED, Plan(Step.DELETE), 300)
    refused, busy, late = (
        troubles.of(ApiError("POST", "/x", status, reason, "", after))
        for status, reason, after in (
            (403, "Forbidden", 0),
            (429, "TooManyRequests", 9),
            (504, "Timeout", 0),
        )
    )
    error = troubles.changed("it changed meanwhile")
    assert str(error) == "it changed meanwhile"
    outdated = error.outcome

    foremost = troubles.foremost([DONE, waits, refused, busy, late])

    assert foremost.trouble == refused.trouble
    assert (foremost.again, foremost.not_before) == (0, 9)
    assert (foremost.timed_out, foremost.fails) == (True, True)
    assert troubles.foremost([waits]) == waits
    assert troubles.foremost([waits, troubles.author_waits("Soon", "x", 400)]) == waits
    assert troubles.foremost([DONE, DONE]) == DONE
    assert troubles.foremost([waits, refused, outdated]) == outdated


async def test_steps_end_once_what_is_known_is_out_of_date() -> None:
    taken = list[int]()

    async def step(number: int) -> troubles.Outcome:
        taken.append(number)
        if number == 1:
            raise troubles.changed("the Widget changed meanwhile")
        return troubles.invalid_plan("no")

    outcome = await troubles.attempt_each(step(number) for number in range(3))

    assert outcome.outdated
    assert taken == [0, 1]


UNREADABLE = troubles.of(UnreadableError(None, "x"))
FORBIDDEN = troubles.of(ApiError("POST", "/x", 403, "Forbidden", ""))
BROKEN = troubles.of(ApiError("POST", "/x", 500, "", ""))
ADMISSION = troubles.changed_by_admission(WANTED, ["a label"])
INVALID = troubles.not_readable(NotReadableError("InvalidPlan", "x"))
CONTRIBUTED = troubles.contribution_conflict("Service", "x")
LEFT = troubles.left_to("green/message", 9)
FAILED = troubles.outside_failed("SyncFailed", "x", 2)


@pytest.mark.parametrize(
    ("outcome", "reason", "again", "fails", "event"),
    [
        (INVALID, "InvalidPlan", 60, True, "InvalidPlan"),
        (troubles.holds_lost("Widget", "host"), "HoldsLost", 60, True, "HoldsLost"),
        (troubles.taken("Widget", "host", "a"), "HostTaken", 60, False, ""),
        (troubles.waiting(WANTED, WANTED, "x"), "Waiting", 60, False, ""),
        (troubles.conflict(WANTED, "Widget"), "Conflict", 5, True, "Conflict"),
        (ADMISSION, "AdmissionChanged", 5, True, "AdmissionChanged"),
        (troubles.missing(POD, "x"), "KindNotServed", 5, True, ""),
        (troubles.unserved(POD, "a", "ns", "x"), "NamespaceNotServed", 5, True, ""),
        (troubles.terminating(POD, "x", 1), "PodTerminating", 1, True, ""),
        (troubles.contradicted("NotFound", "x"), "NotFound", 0, True, ""),
        (troubles.contradicted("AlreadyExists", "x"), "AlreadyExists", 0, True, ""),
        (CONTRIBUTED, "ContributionConflict", 5, True, "ContributionConflict"),
        (LEFT, "AnotherInstallation", 9, False, ""),
        (troubles.back_off(WANTED, Plan(Step.APPLY), 8), "BackOff", 8, False, ""),
        (troubles.author_waits("Soon", "x", 0.1), "Soon", 1, False, ""),
        (troubles.not_readable(NotReadableError("Lost", "x")), "Lost", 600, False, ""),
        (troubles.not_readable(NotReadableError("Lost", "x", after=7)), "Lost", 7, False, ""),
        (FAILED, "SyncFailed", 2, False, "SyncFailed"),
        (UNREADABLE, "Unreadable", 5, True, "Unreadable"),
        (FORBIDDEN, "Forbidden", 0, True, "Refused"),
        (BROKEN, "Refused", 0, True, "Delayed"),
    ],
)
def test_each_trouble_is_tried_again_by_its_rule(
    outcome: troubles.Outcome, reason: str, again: float, fails: bool, event: str
) -> None:
    assert outcome.trouble is not None
    assert outcome.trouble.reason == reason
    assert outcome.trouble.final is (event not in ("", "Delayed", "SyncFailed"))
    assert (outcome.again, outcome.fails, outcome.event) == (again, fails, event)
    assert (outcome.not_before, outcome.timed_out) == (0, False)
    assert outcome.waits is (reason in ("Soon", "Lost"))
    assert outcome.reported is (outcome is LEFT)


def test_an_apply_that_would_empty_a_map_is_told_with_a_way_out() -> None:
    """The API server says no more than that a null, which nobody has written, is no object."""
    said = 'spec.data in body must be of type object: "null"'
    outcome = troubles.of(ApiError("PATCH", "/x", 422, "Invalid", said))

    assert outcome.trouble is not None
    assert "kubernetes/kubernetes#135841): remove that field by hand" in outcome.trouble.message


def test_what_a_replica_that_leads_no_more_is_refused_is_not_reported() -> None:
    outcome = troubles.of(ApiError("POST", "/x", 0, "Fenced", "no longer the leader"))

    assert (outcome.outdated, outcome.trouble, outcome.again) == (True, None, 0)


# --- Events ---------------------------------------------------------------------------------------

ABOUT = {
    "apiVersion": "example.dev/v1",
    "kind": "Widget",
    "namespace": "ns",
    "name": "one",
    "uid": "uid-1",
    "resourceVersion": "7",
}


@asynccontextmanager
async def posting(server: ApiServer) -> AsyncIterator[Recorder]:
    async with connected(server) as client:
        recorder = Recorder(client, "replica-1", Metrics("tester"))
        async with beside(recorder.run()):
            yield recorder


def counted(server: ApiServer) -> list[Any]:
    return [(event["reason"], event["count"]) for event in server.events]


async def test_an_event_names_its_object_and_counts_up(server: ApiServer) -> None:
    async with posting(server) as recorder:
        for _ in range(3):
            recorder.warning(ABOUT, "Conflict", "taken")
        recorder.normal(ABOUT, "Created", "one")
        await recorder.flush()
        assert counted(server) == [("Conflict", 3), ("Created", 1)]
        warning, event = server.events
        assert (warning["type"], event["type"]) == ("Warning", "Normal")
        assert event["involvedObject"]["uid"] == ABOUT["uid"]
        assert event["reportingInstance"] == "replica-1"
        assert event["metadata"]["namespace"] == "ns"

        server.remove(EVENT, ("ns", event["metadata"]["name"]))  # somebody deletes it
        recorder.normal(ABOUT, "Created", "one")
        await recorder.flush()

    assert counted(server) == [("Conflict", 3), ("Created", 1)]


async def test_a_text_that_cannot_be_posted_holds_up_no_other(server: ApiServer) -> None:
    """As of an API outside the cluster, whose JSON may hold half a character."""
    async with posting(server) as recorder:
        recorder.warning(ABOUT, "SyncFailed", "half a character: \ud800")
        recorder.normal(ABOUT, "Created", "Created Pod w-one.")
        await recorder.flush()

    assert counted(server) == [("Created", 1)]


async def test_a_refused_event_is_dropped_and_the_next_one_posted(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.refuse("POST", "/events", RefusedError(403, "Forbidden"), times=2)
    server.refuse("POST", "/events", RefusedError(429, "TooManyRequests"))

    async with posting(server) as recorder:
        for number in range(3):
            recorder.normal(ABOUT, "Created", f"{number}")
        recorder.normal(ABOUT, "Replaced", "two")
        await recorder.flush()

    assert counted(server) == [("Replaced", 1)]
    dropped = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(dropped) == 2, "one warning for each HTTP status"
    assert "Forbidden" in dropped[0]
    assert "TooManyRequests" in dropped[1]


async def test_one_object_cannot_flood(server: ApiServer, caplog: pytest.LogCaptureFixture) -> None:
    async with posting(server) as recorder:
        for number in range(200):
            recorder.normal(ABOUT, "Healed", f"again {number}")
            recorder.normal({**ABOUT, "uid": "words"}, f"No{number}", "one")
        recorder.warning(ABOUT, "MemberLost", "routine does not use up what failures need")
        recorder.normal({**ABOUT, "uid": "another"}, "Created", "one")
        await recorder.flush()

    assert counted(server).count(("Healed", 1)) == events.BURST
    assert len(server.events) == 2 * events.BURST + events.REASONS + 2
    assert {("MemberLost", 1), ("Created", 1)} <= {*counted(server)}
    dropped = [record.message for record in caplog.records if "some are dropped" in record.message]
    assert len(dropped) == 2, "one line for each budget"
    assert "Healed" in dropped[0]


async def test_a_failure_that_goes_on_is_never_silent_for_long(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An Event that is refused takes nothing from the budget, which refills meanwhile."""
    clock, metrics = itertools.count(step=5.0), Metrics("tester")
    monkeypatch.setattr(events, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    async with connected(server) as client:
        recorder = Recorder(client, "replica-1", metrics)  # and nobody posts
        for number in range(2000):
            recorder.warning(ABOUT, "MemberLost", f"{number} times")

    dropped = metrics.registry.get_sample_value("tester_events_dropped_total")
    assert 2000 - (dropped or 0) == pytest.approx(events.BURST + 2000 * 5 / events.REFILL, abs=2)


async def test_recording_never_waits_however_much_is_recorded(server: ApiServer) -> None:
    async with connected(server) as client:
        metrics = Metrics("tester")
        recorder = Recorder(client, "replica-1", metrics)  # and nobody posts

        for number in range(events.PENDING * 2):
            recorder.normal({**ABOUT, "uid": str(number)}, "Created", "one")

    dropped = metrics.registry.get_sample_value("tester_events_dropped_total")
    assert dropped == events.PENDING


@pytest.mark.parametrize("each", [1, 50], ids=["many namespaces", "many Events of one"])
async def test_namespaces_with_hanging_events_delay_no_other(server: ApiServer, each: int) -> None:
    free, _ = hanging(server)
    many = 1 if each > 1 else events.POSTING // 2
    async with posting(server) as recorder:
        delayed(recorder, many, each)
        recorder.normal(ABOUT, "Created", "one")
        await until(lambda: counted(server) == [("Created", 1)])

        free.set()
        await recorder.flush()

    in_order = [event["message"] for event in server.events if event["reason"] == "Delayed"]
    assert len(in_order) == 2 * each * many  # none was given up
    assert many > 1 or in_order == [text for _ in range(each) for text in ("one", "two")]


def hanging(server: ApiServer) -> tuple[asyncio.Event, list[str]]:
    """Let the Events of the namespaces `slow-…` hang; return what frees them, and their paths."""
    free, met = asyncio.Event(), list[str]()

    async def hang(request: web.Request) -> None:
        if request.method == "POST" and "/namespaces/slow-" in request.path:
            met.append(request.path)
            await free.wait()

    server.answers.append(hang)
    return free, met


def delayed(recorder: Recorder, namespaces: int, objects: int = 1) -> None:
    """Record two Events of each object in each of the namespaces `slow-…`."""
    for number in range(namespaces * objects):
        slow = {**ABOUT, "namespace": f"slow-{number // objects}", "uid": str(number)}
        recorder.normal(slow, "Delayed", "one")
        recorder.normal(slow, "Delayed", "two")


async def test_the_requests_that_hang_at_once_are_bounded(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "POSTING", 11)
    free, met = hanging(server)

    async with posting(server) as recorder:
        delayed(recorder, 22)
        await until(lambda: len(met) >= 11)
        await asyncio.sleep(0.2)
        assert len(met) == 11

        free.set()
        await recorder.flush()

    assert len(met) == 44


async def test_a_namespace_with_too_many_events_costs_the_others_none(server: ApiServer) -> None:
    async with connected(server) as client:
        recorder = Recorder(client, "replica-1", Metrics("tester"))  # and nobody posts yet
        for number in range(events.PENDING * 2):
            recorder.normal({**ABOUT, "namespace": "busy", "uid": str(number)}, "Many", "one")
        recorder.normal(ABOUT, "Created", "one")

        async with beside(recorder.run()):
            await recorder.flush()

    assert counted(server).count(("Created", 1)) == 1
    assert counted(server).count(("Many", 1)) == events.PENDING - 1


@pytest.mark.parametrize("name", ["a" * 150, "a" * 229 + "..b"])
async def test_long_names_still_make_names_of_events(server: ApiServer, name: str) -> None:
    async with posting(server) as recorder:
        recorder.normal({**ABOUT, "name": name}, "Created", "one")
        await recorder.flush()

    (event,) = server.events
    assert len(event["metadata"]["name"]) <= 253
    assert ".." not in event["metadata"]["name"]
