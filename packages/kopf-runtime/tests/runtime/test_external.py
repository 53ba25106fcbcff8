"""What is outside the cluster is called before the plan, and cleaned up before the end."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import aiohttp
import pytest

import kopf_runtime as kr
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.kinds import CONFIG_MAP, Kind
from runtime import tickets, widgets
from runtime.support.api_server import ApiServer, RefusedError
from runtime.support.running import at_work, caches, leading, operating
from runtime.support.waiting import connecting_slowly, until
from runtime.tickets import BookingService, Mood, hang, refuse, well
from runtime.widgets import WIDGET, Raw, Widget, edit, ready, text, widget, working_on

TICKET = tickets.controller.kind
KEY, FINALIZER = ("ns", "one"), "example.dev/message-operator"
KINDS = (TICKET, WIDGET)


@pytest.fixture
async def service(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[BookingService]:
    monkeypatch.setattr("kopf_runtime.working.external.MIN_PAUSE_SECONDS", 0.05)
    async with BookingService().running() as one:
        yield one


def controller(timeout: float = 5.0, every: float = 60.0) -> Controller:
    """Return the Tickets' controller, with other times."""
    one = Controller(TICKET, tickets.Ticket, lambda _: None)
    one.sync(every=every, timeout=timeout)(tickets.book)
    one.finalize(timeout=timeout)(tickets.cancel)
    one.status(tickets.status)
    return one


async def test_the_limits_of_the_author_hold_for_a_call_that_fails(server: ApiServer) -> None:
    controller, calls = widgets.controller(), []
    controller.limits(backoff=(0.01, 0.02))

    @controller.sync()
    async def sync(thing: Widget, _: kr.CallContext[Any]) -> None:
        calls.append(thing.metadata.name)
        raise ConnectionError("it is away")

    async with working_on(server, widget(), controller):
        await until(lambda: len(calls) == 8)  # which would take a minute


def settings(service: BookingService) -> tickets.Settings:
    return tickets.Settings(booking_url=service.url)


def ticket(name: str = "one", route: str = "ICN-CJU", **meta: Any) -> Raw:
    return {"metadata": {"namespace": "ns", "name": name, **meta}, "spec": {"route": route}}


def readiness(server: ApiServer, name: str = "one") -> Any:
    return ready(server.get(TICKET, ("ns", name)))


def is_booked(server: ApiServer, name: str = "one") -> bool:
    return bool(readiness(server, name).get("reason") == "Booked")


def finalizers(server: ApiServer) -> Any:
    return (server.get(TICKET, KEY) or {"metadata": {}})["metadata"].get("finalizers") or []


def poke(server: ApiServer, text: str) -> None:
    server.edit(TICKET, KEY, lambda raw: raw["metadata"].update(annotations={"poked": text}))


def reroute(server: ApiServer) -> None:
    server.edit(TICKET, KEY, lambda raw: raw["spec"].update(route="ICN-PUS"))


def generation(server: ApiServer, kind: Kind) -> Any:
    return (server.get(kind, KEY) or {})["status"]["observedGeneration"]


def only_for(name: str, mood: Mood, server: ApiServer) -> Mood:
    async def answer(request: Any) -> Any:
        uid = (server.get(TICKET, ("ns", name)) or {})["metadata"]["uid"]
        return await mood(request) if request.path.endswith(f"/{uid}") else None

    return answer


# --- sync ---------------------------------------------------------------------------------------


async def test_the_outside_is_made_once_and_told(
    server: ApiServer, service: BookingService
) -> None:
    server.put(TICKET, ticket())
    async with operating(server, controller(), settings=settings(service)):
        await until(lambda: is_booked(server))
        writes = list(server.writes)
        await asyncio.sleep(0.3)
        assert service.calls == ["PUT"]
    async with operating(server, controller(), settings=settings(service)):  # a restart
        await until(lambda: len(service.calls) == 2)
        await asyncio.sleep(0.3)

    assert server.writes == writes
    assert len(service.bookings) == 1
    assert (server.get(TICKET, KEY) or {})["status"]["booking"] == "B1"


@pytest.mark.parametrize("running", [True, False], ids=["running", "stopped"])
async def test_what_is_outside_is_looked_at_again_and_given_back_by_a_deletion(
    server: ApiServer, service: BookingService, running: bool
) -> None:
    server.put(TICKET, ticket())
    async with operating(server, controller(every=0.1), settings=settings(service)):
        await until(lambda: is_booked(server))
        service.bookings.clear()  # cancelled by somebody else
        await until(lambda: service.bookings)
        if running:
            server.delete(TICKET, KEY)
            await until(lambda: server.get(TICKET, KEY) is None)
    if not running:
        server.delete(TICKET, KEY)
    async with operating(server, controller(), settings=settings(service)):
        await until(lambda: server.get(TICKET, KEY) is None)
        await asyncio.sleep(0.2)
    assert service.bookings == {}
    assert service.calls.count("DELETE") == 1
    assert service.calls[-1] == "DELETE"


@pytest.mark.parametrize("mood", [refuse(503), hang, refuse(200, "<html>")])
async def test_what_fails_is_told_and_made_good_and_holds_up_no_other(
    server: ApiServer, service: BookingService, mood: Mood
) -> None:
    service.mood = only_for("one", mood, server)
    server.put(TICKET, ticket())
    server.put(TICKET, ticket("two"))
    async with operating(server, controller(timeout=0.2), settings=settings(service)):
        await until(lambda: readiness(server).get("reason") == "SyncFailed")
        await until(lambda: is_booked(server, "two"))
        await until(lambda: any(e["reason"] == "SyncFailed" for e in server.events))
        assert readiness(server)["status"] == "False"
        if mood is hang:
            assert readiness(server)["message"] == "There was no answer within 0.2 s."

        service.mood = well
        await until(lambda: is_booked(server))


async def test_what_goes_on_failing_is_called_less_and_less_often_whatever_wakes_it(
    server: ApiServer, service: BookingService
) -> None:
    service.mood = refuse(500)
    server.put(TICKET, ticket())
    began = time.monotonic()
    async with operating(server, controller(), settings=settings(service)):
        for number in range(100):
            poke(server, str(number))
            await asyncio.sleep(0.01)
        await until(lambda: len(service.calls) >= 2)

        calls, seconds = len(service.calls), time.monotonic() - began
        # The pauses are of 0.05 s, 0.1 s, 0.2 s, … each shortened to its half by chance, at most.
        assert calls <= 1 + math.log2(1 + seconds / 0.025)


@pytest.mark.parametrize("what", ["sync", "check"])
@pytest.mark.parametrize("code", [403, 422, 500])
async def test_c9_what_fails_to_record_after_its_call_keeps_its_pause_whatever_wakes_it(
    server: ApiServer, what: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kopf_runtime.working.external.MIN_PAUSE_SECONDS", 300.0)
    one, calls = widgets.controller(), list[str]()

    async def call(_: Widget, context: kr.CallContext[Any]) -> None:
        calls.append("PUT")
        await context.record({"booking": "B1"})

    getattr(one, what)(every=3600, on=[CONFIG_MAP])(call)
    recording = "message-operator-record"

    async def refuse(request: Any) -> Any:
        error = RefusedError(code, "Refused", "a webhook refuses it")
        return error.response() if request.query.get("fieldManager") == recording else None

    server.answers.append(refuse)
    async with working_on(server, widget(), one):
        await until(lambda: ready(server.get(WIDGET, KEY)).get("reason") == "Refused")
        for _ in range(30):
            at_work(one).queue.add(KEY)
            await asyncio.sleep(0.01)
        assert calls == ["PUT"]
        assert ready(server.get(WIDGET, KEY))["message"] == "a webhook refuses it"

        server.answers.clear()
        server.edit(WIDGET, KEY, edit("an edit is another call"))
        await until(lambda: calls == ["PUT", "PUT"])
        await until(lambda: ready(server.get(WIDGET, KEY)).get("status") == "True")


@pytest.mark.parametrize("what", ["sync", "check"])
async def test_s1_an_edit_during_a_call_has_it_made_again(server: ApiServer, what: str) -> None:
    one, seen = widgets.controller(), list[str]()

    async def call(thing: Widget, _: Any) -> str:
        seen.append(thing.spec.text)
        if len(seen) == 1:
            server.edit(WIDGET, KEY, edit("edited"))
            await until(lambda: known_of(one).generation == 2)
        return thing.spec.text

    getattr(one, what)(every=3600)(call)
    async with working_on(server, widget(), one):
        await until(lambda: seen[-1:] == ["edited"])


def known_of(one: Controller) -> Any:
    """Return what an operator knows of the Widget."""
    return caches(one).owners.cache.get(KEY)


async def test_an_edit_keeps_retry_after(server: ApiServer, service: BookingService) -> None:
    service.mood = refuse(429, **{"Retry-After": "600"})
    server.put(TICKET, ticket())
    async with operating(server, controller(), settings=settings(service)):
        await until(lambda: readiness(server).get("message") == "The booking service is busy.")
        reroute(server)
        await until(lambda: generation(server, TICKET) == 2)

    assert service.calls == ["PUT"]


@pytest.mark.parametrize("after", ["Wed, 21 Oct 2026 07:28:00 GMT", "nan", "-1", ""])
async def test_a_retry_after_that_says_no_seconds_is_a_short_pause(
    server: ApiServer, service: BookingService, after: str
) -> None:
    service.mood = refuse(429, **{"Retry-After": after})
    server.put(TICKET, ticket())
    async with operating(server, controller(), settings=settings(service)):
        await until(lambda: readiness(server).get("message") == "The booking service is busy.")
        service.mood = well

        await until(lambda: is_booked(server))


def again(server: ApiServer) -> None:
    server.remove(TICKET, KEY)
    server.put(TICKET, ticket())


@pytest.mark.parametrize(
    ("code", "act"),
    [(500, again), (500, reroute), (429, lambda server: server.delete(TICKET, KEY))],
    ids=["of another object of its name", "of an edit", "of a deletion"],
)
async def test_no_pause_of_a_former_call_delays_that(
    server: ApiServer,
    service: BookingService,
    code: int,
    act: Callable[[ApiServer], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kopf_runtime.working.external.MIN_PAUSE_SECONDS", 300.0)
    service.mood = refuse(code, **{"Retry-After": "600"} if code == 429 else {})
    server.put(TICKET, ticket())
    async with operating(server, controller(), settings=settings(service)):
        await until(lambda: readiness(server).get("reason") == "SyncFailed")
        service.mood = well
        act(server)

        await until(lambda: is_booked(server) or server.get(TICKET, KEY) is None)


async def test_who_leads_again_asks_again_and_waits_for_no_former_pause(
    server: ApiServer, service: BookingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kopf_runtime.working.external.MIN_PAUSE_SECONDS", 300.0)
    service.mood = only_for("two", refuse(500), server)
    server.put(TICKET, ticket())
    server.put(TICKET, ticket("two"))
    one = controller(every=3600)
    async with operating(server, one, settings=settings(service), working=False):
        async with leading(one):
            await until(lambda: is_booked(server))
            await until(lambda: readiness(server, "two").get("reason") == "SyncFailed")
        service.bookings.clear()  # another replica leads, and changes what is outside
        service.mood = well

        async with leading(one):
            await until(lambda: len(service.bookings) == 2)


async def test_an_author_makes_many_calls_at_once(
    server: ApiServer, service: BookingService
) -> None:
    all_there = asyncio.Event()

    async def wait_for_all(_: Any) -> None:
        if len(service.calls) == 150:
            all_there.set()
        await all_there.wait()

    async def book_many(thing: Widget, context: kr.CallContext[Any]) -> None:
        delete = context.session.delete
        await asyncio.gather(*(delete(f"{service.url}/bookings/{n}") for n in range(150)))

    service.mood = wait_for_all
    server.put(WIDGET, widget())
    one = Controller(WIDGET, Widget, None)
    one.sync()(book_many)
    async with operating(server, one):
        await until(lambda: ready(server.get(WIDGET, KEY)).get("status") == "True")


async def test_a_session_that_an_author_has_set_up_is_fenced_too(
    server: ApiServer, service: BookingService
) -> None:
    came: list[str] = []

    async def note(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> Any:
        came.append(request.headers["User-Agent"])
        return await handler(request)

    server.put(TICKET, ticket(finalizers=[FINALIZER]))
    one = controller()
    one.session(lambda _: {"headers": {"User-Agent": "mine"}, "middlewares": [note]})
    async with operating(server, one, settings=settings(service)) as operator:
        operator.client.may_write = lambda: False
        poke(server, "1")
        await until(lambda: came)
        await asyncio.sleep(0.1)
        assert (set(came), service.calls) == ({"mine"}, [])

        operator.client.may_write = lambda: True
        await until(lambda: is_booked(server))


async def test_a_session_that_is_refused_is_made_once_and_leaves_nothing_open(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("kopf_runtime.working.external.MIN_PAUSE_SECONDS", 0.01)
    connectors: list[aiohttp.TCPConnector] = []

    def session(_: Any) -> dict[str, Any]:
        connectors.append(aiohttp.TCPConnector())
        return {"connector": connectors[-1], "keepalive": 60}

    server.put(TICKET, ticket())
    one = controller()
    one.session(session)
    nowhere = tickets.Settings(booking_url="http://nowhere")
    async with operating(server, one, settings=nowhere):
        await until(lambda: [record.message for record in caplog.records].count("SyncFailed") > 2)
        await until(lambda: "arguments of aiohttp" in readiness(server).get("message", ""))

    assert [connector.closed for connector in connectors] == [True]


@pytest.mark.parametrize(
    ("fails", "seconds"), [(True, 0.0), (True, 0.1), (False, 0.1)], ids=["", "late", "only late"]
)
async def test_sync_is_called_in_time_whatever_the_check_does(
    server: ApiServer, fails: bool, seconds: float
) -> None:
    calls: list[int] = []
    one = widgets.controller()

    @one.sync(every=0.05)
    async def sync(*_: Any) -> None:
        calls.append(1)

    @one.check(every=3600)
    async def check(*_: Any) -> None:
        await asyncio.sleep(seconds)
        if fails:
            raise kr.RetryError("It does not answer.", after=60)

    async with working_on(server, widget(), one):
        await until(lambda: len(calls) > 6)


async def test_who_stops_leading_while_it_connects_makes_nothing_outside(
    server: ApiServer, service: BookingService
) -> None:
    server.put(TICKET, ticket(finalizers=[FINALIZER]))
    async with (
        connecting_slowly(service.url) as connection,
        operating(server, controller(), settings=settings(service)) as operator,
    ):
        operator.client.may_write = lambda: not connection.end.is_set()
        await connection.begun.wait()
        connection.end.set()
        await until(lambda: operator.reconciles("requeue", of="tickets"))

        assert service.calls == []


# --- its outcome and the plan -------------------------------------------------------------------


class Weather:
    """What is outside for a Widget: a word that goes into its child."""

    def __init__(self) -> None:
        self.word, self.calls = "sun", 0
        self.down: Exception | None = None

    async def ask(self, _: Widget, __: object) -> str:
        self.calls += 1
        if self.down is not None:
            raise self.down
        return self.word

    def controller(self, every: float = 0.1) -> Controller:
        def desired(thing: Widget, context: kr.Context[Any]) -> Iterable[Raw]:
            (child,) = widgets.config_map(
                replace_text(thing, f"{thing.spec.text} {context.sync_result}")
            )
            yield child

        one = widgets.controller(desired)
        one.sync(every=every)(self.ask)
        return one


def replace_text(thing: Widget, text: str) -> Widget:
    return Widget(thing.metadata, spec=widgets.Spec(text))


async def test_children_are_planned_by_what_is_outside_and_put_right(server: ApiServer) -> None:
    weather = Weather()
    async with working_on(server, widget(), weather.controller()):
        await until(lambda: text(server) == "hello sun")
        weather.word = "rain"
        await until(lambda: text(server) == "hello rain")
        await until(lambda: ready(server.get(WIDGET, KEY)).get("status") == "True")
    server.edit(CONFIG_MAP, ("ns", "w-one"), lambda raw: raw["data"].update(text="altered"))

    async with operating(server, weather.controller(every=3600)):
        await until(lambda: text(server) == "hello rain")
        await until(lambda: ready(server.get(WIDGET, KEY)).get("status") == "True")
        weather.word = "snow"
        server.edit(WIDGET, KEY, lambda raw: raw["metadata"].update(labels={"team": "blue"}))
        await until(lambda: text(server) == "hello snow")


@pytest.mark.parametrize("relabelled", [False, True])
async def test_while_the_outside_is_down_children_stay_and_come_back(
    server: ApiServer, relabelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kopf_runtime.working.external.MIN_PAUSE_SECONDS", 0.05)
    weather = Weather()
    async with working_on(server, widget(), one := weather.controller()):
        await until(lambda: text(server) == "hello sun")
        weather.down = KeyError("weather")
        await until(lambda: ready(server.get(WIDGET, KEY)).get("reason") == "SyncFailed")
        calls = weather.calls
        if relabelled:
            labels = {"team": "blue"}
            raw = server.edit(WIDGET, KEY, lambda raw: raw["metadata"].update(labels=labels))
            version = int(raw["metadata"]["resourceVersion"])
            await until(lambda: (known := known_of(one)) and known.version >= version)

        server.remove(CONFIG_MAP, ("ns", "w-one"))  # lost: it comes back as it was known
        await until(lambda: text(server) == "hello sun" and weather.calls > calls)

        server.edit(WIDGET, KEY, edit("bye"))  # what it should be now is not known: it stays
        await until(lambda: generation(server, WIDGET) == 2)
        assert text(server) == "hello sun"

        weather.down = None
        await until(lambda: text(server) == "bye sun")
        await until(lambda: ready(server.get(WIDGET, KEY)).get("status") == "True")


async def test_children_are_left_as_they_are_while_sync_waits(server: ApiServer) -> None:
    weather = Weather()
    async with working_on(server, widget(), weather.controller()) as operator:
        await until(lambda: text(server) == "hello sun")
        weather.down = kr.Wait("Storm", "It storms.")
        await until(lambda: ready(server.get(WIDGET, KEY)).get("reason") == "Storm")
        server.remove(CONFIG_MAP, ("ns", "w-one"))
        done = operator.reconciles()
        await until(lambda: operator.reconciles() > done + 1)
        assert text(server) is None
        weather.down = None
        await until(lambda: text(server) == "hello sun")


# --- cleanup ------------------------------------------------------------------------------------


async def test_the_finalizer_is_there_before_anything_is_made_outside(
    server: ApiServer, service: BookingService
) -> None:
    held: list[Any] = []
    service.asked = lambda _: held.append(finalizers(server))
    server.put(TICKET, ticket(finalizers=["somebody.else/holds-it"]))
    async with operating(server, controller(), settings=settings(service)):
        await until(lambda: is_booked(server))

    assert held == [["somebody.else/holds-it", FINALIZER]]


def pause(server: ApiServer) -> None:
    paused = {"example.dev/paused": "true"}
    server.edit(WIDGET, KEY, lambda raw: raw["metadata"].update(annotations=paused))


@pytest.mark.parametrize("change", [pause, lambda server: server.remove(WIDGET, KEY)])
async def test_what_is_paused_or_gone_while_its_finalizer_is_put_on_gets_no_child(
    server: ApiServer, change: Any
) -> None:
    one, changes = widgets.controller(), [change]

    @one.finalize()
    async def finalize(*_: object) -> None: ...

    async def answer(request: Any) -> None:
        if changes and (request.method, request.path.endswith("/widgets/one")) == ("GET", True):
            changes.pop()(server)

    server.answers.append(answer)
    async with working_on(server, widget(), one):
        await until(lambda: not changes)
        await asyncio.sleep(0.3)
    assert not any("configmaps" in write for write in server.writes)


async def test_the_finalizers_of_others_stay(server: ApiServer, service: BookingService) -> None:
    server.put(TICKET, ticket(finalizers=["somebody.else/holds-it"]))
    async with operating(server, controller(), settings=settings(service)):
        await until(lambda: is_booked(server))
        server.delete(TICKET, KEY)

        await until(lambda: finalizers(server) == ["somebody.else/holds-it"])
        await until(lambda: readiness(server).get("reason") == "Terminating")
        assert "somebody.else/holds-it" in readiness(server)["message"]
        await asyncio.sleep(0.2)
    assert service.calls == ["PUT", "DELETE"]


async def test_a_cleanup_that_fails_is_told_with_a_way_out_and_holds_up_no_other(
    server: ApiServer, service: BookingService
) -> None:
    endless = refuse(500, "no " * 100_000)
    server.put(TICKET, ticket())
    async with operating(server, controller(), settings=settings(service)):
        await until(lambda: is_booked(server))
        service.mood = only_for("one", endless, server)
        server.delete(TICKET, KEY)
        await until(lambda: readiness(server).get("reason") == "CleanupFailed")
        assert f"remove its finalizer {FINALIZER}" in readiness(server)["message"]
        server.put(TICKET, ticket("two"))
        await until(lambda: is_booked(server, "two"))
        server.delete(TICKET, ("ns", "two"))
        await until(lambda: server.get(TICKET, ("ns", "two")) is None)
        assert finalizers(server) == [FINALIZER]

        service.mood = well
        await until(lambda: server.get(TICKET, KEY) is None)
    assert service.bookings == {}


async def test_a_webhook_that_takes_the_finalizer_away_is_told_and_nothing_is_made(
    server: ApiServer, service: BookingService
) -> None:
    def strip(kind: Kind, raw: Raw) -> None:
        if kind == TICKET:
            raw["metadata"].pop("finalizers", None)
            raw["metadata"].setdefault("annotations", {})["changed"] = str(time.monotonic())

    server.admission = strip
    server.put(TICKET, ticket())
    async with operating(server, controller(), settings=settings(service)):
        await until(lambda: readiness(server).get("reason") == "AdmissionChanged")
        assert FINALIZER in readiness(server)["message"]
        written = len(server.writes)
        await asyncio.sleep(1.5)
        assert len(server.writes) <= written + 20  # without a back-off, hundreds
        assert service.bookings == {}

        server.admission = lambda *_: None
        await until(lambda: is_booked(server))


@pytest.mark.parametrize(("code", "reason"), [(403, "Forbidden"), (409, "Conflict")])
async def test_a_finalizer_that_is_refused_is_told_and_nothing_is_made(
    server: ApiServer, service: BookingService, code: int, reason: str
) -> None:
    """For want of a right, or because others write to the object all the time."""
    server.refuse(
        "PATCH", "/tickets/one$", RefusedError(code, reason, "cannot patch tickets"), math.inf
    )
    server.put(TICKET, ticket())
    server.put(TICKET, ticket("two"))
    async with operating(server, controller(), settings=settings(service)):
        await until(lambda: readiness(server).get("reason") == reason)
        await until(lambda: is_booked(server, "two"))
        assert readiness(server)["message"] == "cannot patch tickets"
        assert len(service.bookings) == 1

        server.answers.clear()
        await until(lambda: is_booked(server), seconds=20)


async def test_a_finalizer_that_somebody_else_races_for_is_set_without_losing_theirs(
    server: ApiServer, service: BookingService
) -> None:
    raced = False

    async def race(request: Any) -> None:
        nonlocal raced
        if request.method == "PATCH" and request.path.endswith("/tickets/one") and not raced:
            raced = True
            server.edit(TICKET, KEY, lambda raw: raw["metadata"].update(finalizers=["theirs/one"]))

    server.answers.append(race)
    server.put(TICKET, ticket())
    async with operating(server, controller(), settings=settings(service)):
        await until(lambda: is_booked(server))

    assert finalizers(server) == ["theirs/one", FINALIZER]


async def test_calls_that_a_start_made_together_do_not_stay_together(
    server: ApiServer, service: BookingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.uniform", lambda _, most: most)
    server.put(TICKET, ticket())
    one = controller(every=60.0)
    async with operating(server, one, settings=settings(service)):
        await until(lambda: is_booked(server))

        assert 0.0 < (at_work(one).external.due(KEY) or 0.0) <= 54.0


async def test_an_object_that_is_enqueued_from_outside_is_synced_again(server: ApiServer) -> None:
    calls: list[str] = []
    one = widgets.controller()

    @one.sync
    async def sync(thing: widgets.Widget, _: kr.CallContext[Any]) -> None:
        calls.append(thing.metadata.name)

    one.enqueue(("ns", "one"))  # before the start, it does nothing
    async with working_on(server, widget(), one):
        await until(lambda: calls == ["one"])
        one.enqueue(("ns", "other"))  # nor for what is not there
        one.enqueue(("ns", "one"))
        await until(lambda: calls == ["one", "one"])
