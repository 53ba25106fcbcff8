import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

import kopf_runtime as kr
from kopf_runtime.cluster.client import APPLY_PATCH, Client
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.kinds import CONFIG_MAP
from kopf_runtime.declaring.settings import Settings
from kopf_runtime.process import lease as leases
from kopf_runtime.process.lease import Election
from kopf_runtime.reporting.events import Deps, Recorder
from runtime.support.api_server import EVENT, LEASE, ApiServer, RefusedError
from runtime.support.running import connected, operating
from runtime.support.waiting import beside, until
from runtime.widgets import WIDGET, controller, edit, widget

KEY = ("ns", "message-operator")
QUICK = Settings(
    lease_namespace="ns",
    lease_name="message-operator",
    lease_duration=1.0,
    lease_renew_deadline=0.5,
    lease_retry_period=0.02,
)
LEADING = replace(QUICK, leader_elect=True, identity="one")


class Candidate:
    """A replica: tells whether it works at this moment."""

    def __init__(self, client: Client, name: str, settings: Settings = QUICK) -> None:
        self.works, self.begun = False, 0
        self.metrics = Metrics("tester")
        self.election = Election(client, replace(settings, identity=name), self.metrics)

    async def _work(self) -> None:
        self.works = True
        self.begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.works = False

    def running(self) -> AbstractAsyncContextManager[asyncio.Task[None]]:
        return beside(self.election.lead(self._work))

    def metric(self, name: str) -> float:
        return self.metrics.registry.get_sample_value(f"tester_{name}") or 0.0


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[Client]:
    async with connected(server) as one:
        yield one


def held(by: str, seconds: int = 3600) -> dict[str, Any]:
    return {
        "metadata": {"namespace": KEY[0], "name": KEY[1]},
        "spec": {"holderIdentity": by, "leaseDurationSeconds": seconds},
    }


def spec(server: ApiServer) -> Any:
    return (server.get(LEASE, KEY) or {"spec": {}})["spec"]


def deps(client: Client, manager: kr.Manager[Settings]) -> Deps:
    metrics = manager.metrics
    return Deps(client, metrics, Recorder(client, "one", metrics), Settings())


@asynccontextmanager
async def at_work(
    manager: kr.Manager[Settings], client: Client, settings: Settings, *served: Controller
) -> AsyncIterator[None]:
    manager.client, manager._deps = client, deps(client, manager)
    manager.controllers = [*served]
    if served:
        manager._build(manager._deps)
    async with beside(manager._run(settings)) as manager._task:
        yield


async def test_a_replica_writes_only_while_it_leads(server: ApiServer, client: Client) -> None:
    server.put(LEASE, held("another"))
    async with at_work(kr.Manager("tester", Settings), client, LEADING):
        await until(lambda: not client.may_write(), seconds=10)
        server.edit(LEASE, KEY, lambda lease: lease["spec"].update(holderIdentity=""))
        await until(lambda: client.may_write())


async def test_a_task_runs_again_after_a_failure_and_only_while_this_replica_leads(
    server: ApiServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hold(by: str) -> None:
        server.edit(LEASE, KEY, lambda lease: lease["spec"].update(holderIdentity=by))

    monkeypatch.setattr("kopf_runtime.declaring.errors.MIN_PAUSE_SECONDS", 0.01)
    server.put(LEASE, held("another"))
    manager = kr.Manager("tester", Settings)
    calls: list[str] = []

    @manager.task
    async def task(given: kr.Client, settings: Settings) -> None:
        assert given is client
        calls.append("called")
        if calls.count("called") == 1:
            raise ValueError("once")
        if calls.count("called") == 2:
            waiting: asyncio.Future[None] = asyncio.Future()
            waiting.get_loop().call_later(0.01, waiting.cancel)
            await waiting
        try:
            await asyncio.sleep(60)
        finally:
            calls.append("ended")

    async with at_work(manager, client, LEADING):
        await until(lambda: not client.may_write(), seconds=10)
        assert calls == []
        hold("")
        await until(lambda: calls == ["called"] * 3)
        hold("another")
        await until(lambda: calls == [*["called"] * 3, "ended"])
        hold("")
        await until(lambda: calls[4:] == ["called"])
    assert calls[5:] == ["ended"]


@pytest.mark.parametrize("refused", [False, True])
async def test_a_standby_looks_twice_while_a_leader_waits_to_renew(
    server: ApiServer, client: Client, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it has a released Lease within the period, however the two begin."""
    server.refuse("GET", "/leases/", RefusedError(403, "Forbidden"), times=refused * 10**6)
    sleep, waited = asyncio.sleep, []

    async def at_once(seconds: float) -> None:
        waited.append(seconds)
        await sleep(0.01)

    server.put(LEASE, held("somebody else"))
    two = Candidate(client, "two", replace(QUICK, lease_retry_period=0.25))
    monkeypatch.setattr("kopf_runtime.process.lease.asyncio.sleep", at_once)
    async with two.running(), asyncio.timeout(30):
        while len(waited) < 3:
            await sleep(0.01)

    assert waited[:3] == [0.125] * 3


async def test_minor_5_r7_the_lease_says_no_less_than_the_duration_and_is_empty_at_the_end(
    server: ApiServer, client: Client
) -> None:
    """A count of transitions that cannot grow begins again."""
    meta = {"namespace": "ns", "name": "message-operator"}
    server.put(LEASE, {"metadata": meta, "spec": {"leaseTransitions": 2**31 - 1}})
    one = Candidate(client, "one", replace(QUICK, lease_duration=2.5))

    async with one.running():
        await until(lambda: one.works)
        assert spec(server)["leaseDurationSeconds"] == 3
        assert re.fullmatch("one_[0-9a-f]{8}", spec(server)["holderIdentity"])
        assert spec(server)["leaseTransitions"] == 0
        assert one.metric("leader") == 1

    assert one.metric("leader") == 0
    released = spec(server)["holderIdentity"], spec(server)["leaseDurationSeconds"]
    assert released == ("", 1)  # as client-go's


def test_minor_7_the_clock_goes_on_in_a_suspended_host(monkeypatch: pytest.MonkeyPatch) -> None:
    boottime = 7  # Linux's number; other systems have no such clock
    monkeypatch.setattr(time, "CLOCK_BOOTTIME", boottime, raising=False)
    monkeypatch.setattr(time, "clock_gettime", lambda clock: 900.0 if clock == boottime else 1.0)

    assert leases.clock() == 900.0


async def test_renewals_and_failures_can_be_watched(
    server: ApiServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    one = Candidate(client, "one")
    began = time.time()

    async with one.running():
        await until(lambda: one.works)
        assert [text for text in caplog.messages if text.endswith("leads")]
        assert began <= one.metric("lease_renewed_timestamp_seconds") <= time.time()
        assert one.metric("lease_failures_total") == 0
        server.refuse("PUT", "/leases/", RefusedError(500, "InternalError"))

        await until(lambda: one.metric("lease_failures_total") == 1)


async def test_a_changed_or_deleted_lease_is_no_failure(server: ApiServer, client: Client) -> None:
    server.put(LEASE, held(""))
    server.refuse("PUT", "/leases/", RefusedError(409, "Conflict"), times=2)
    one = Candidate(client, "one")

    async with one.running():
        await until(lambda: one.works)
        server.delete(LEASE, KEY)
        await until(lambda: spec(server).get("holderIdentity"))

    assert one.metric("lease_failures_total") == 0


async def test_a_silent_holder_that_keeps_the_lease_is_told_once_a_minute(
    server: ApiServer, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    server.put(LEASE, held("ghost"))
    one = Candidate(client, "one")

    async def warnings_at(*seconds: float) -> list[str]:
        caplog.clear()
        for second in seconds:
            monkeypatch.setattr(leases, "clock", lambda second=second: 1000.0 + second)
            assert not await one.election._try()
        return list(caplog.messages)

    assert await warnings_at(0, 30, 60) == []
    (warning,) = await warnings_at(61, 90, 120)
    assert "is held by ghost, which has not renewed it for 61 s" in warning
    assert warning.endswith("kubectl -n ns delete lease message-operator")
    assert len(await warnings_at(122)) == 1
    server.put(LEASE, held("another"))  # which has just taken it
    assert await warnings_at(190, 240) == []


@pytest.mark.parametrize("lease", [{"spec": None}, {"spec": {"leaseDurationSeconds": None}}, {}])
async def test_a_lease_that_somebody_emptied_is_taken(
    server: ApiServer, client: Client, lease: dict[str, Any]
) -> None:
    server.put(LEASE, {**lease, "metadata": held("")["metadata"]})
    one = Candidate(client, "one")

    async with one.running():
        await until(lambda: one.works)
        await asyncio.sleep(0.1)  # for some renewals
        assert spec(server)["leaseTransitions"] == 1


@pytest.mark.parametrize("body", ["{}", '{"metadata": {}, "spec": {}}', '{"status": "ok"}'])
@pytest.mark.parametrize("method", ["GET", "PUT"])
async def test_an_answer_that_is_no_lease_ends_nothing(
    server: ApiServer, client: Client, method: str, body: str
) -> None:
    """As of a proxy that answers in the API server's place."""
    lies = 3

    async def lie(request: web.Request) -> web.Response | None:
        nonlocal lies
        if request.method != method or "/leases/" not in request.path or not lies:
            return None
        lies -= 1
        return web.Response(text=body, content_type="application/json")

    server.answers.append(lie)
    one = Candidate(client, "one")
    async with one.running() as task:
        await until(lambda: task.done() or (one.works and not lies))
        assert not task.done()


async def test_c12_what_a_former_leader_has_applied_late_is_put_right(server: ApiServer) -> None:
    """Its only precondition is the uid of the child, so a former leader may still send it."""
    applied: list[web.Request] = []
    bodies: list[bytes] = []

    async def look(request: web.Request) -> None:
        if request.method == "PATCH" and request.path.endswith("/w-one") and len(applied) < 2:
            applied.append(request)
            bodies.append(await request.read())

    def text() -> Any:
        return (server.get(CONFIG_MAP, ("ns", "w-one")) or {"data": {}})["data"].get("text")

    server.answers.append(look)
    server.put(WIDGET, widget(text="made"))
    async with connected(server) as client, operating(client, controller()):
        await until(lambda: text() == "made")
        for wanted in ("former", "new"):
            server.edit(WIDGET, ("ns", "one"), edit(wanted))
            await until(lambda: text() == wanted)  # noqa: B023 (it is called at once)
        late, query = applied[1], applied[1].query_string
        writes = len(server.requests)
        await client.request("PATCH", late.path, bodies[1], content_type=APPLY_PATCH, query=query)
        await until(lambda: text() == "new" and len(server.requests) > writes + 1)

    assert b"former" in bodies[1]


@pytest.mark.parametrize(
    ("method", "status", "reason"),
    [("GET", 403, "Forbidden"), ("PUT", 403, "Forbidden"), ("POST", 404, "NotFound")],
    ids=["may-not-read", "may-not-write", "no-such-namespace"],
)
async def test_j5_a_replica_that_may_not_touch_its_lease_says_so(
    server: ApiServer,
    client: Client,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    status: int,
    reason: str,
) -> None:
    caplog.set_level("WARNING", "kopf_runtime.process.lease")
    monkeypatch.setattr("kopf_runtime.reporting.events.SAME", 0.0)
    refused = server.refuse(method, "/leases", RefusedError(status, reason), times=10**6)
    manager = kr.Manager("tester", Settings)
    pod = replace(LEADING, own_namespace="ns", pod_uid="u")

    def warnings() -> list[Any]:
        events = server.all(EVENT)
        return [event for event in events if event["reason"] == "LeaseRefused"]

    async with at_work(manager, client, pod, controller()):
        # For one duration of the Lease it may be an error.
        await until(lambda: not manager._ready())
        await until(lambda: "the Lease ns/message-operator is refused" in manager._ready())
        assert reason in manager._ready()
        await until(lambda: bool(warnings()))
        (event,) = warnings()
        whose = {"namespace": "ns", "name": "one", "uid": "u"}
        assert event["involvedObject"] == {"apiVersion": "v1", "kind": "Pod", **whose}
        assert reason in event["message"]
        assert manager.metrics.registry.get_sample_value("tester_lease_refused") == 1
        seen = len(refused)
        await until(lambda: len(refused) > seen + 10)  # it goes on asking, and says it no more
        assert len([text for text in caplog.messages if "cannot lead" in text]) == 2

        server.answers.clear()
        await until(lambda: client.may_write())
        assert not manager._ready()
        assert manager.metrics.registry.get_sample_value("tester_lease_refused") == 0


async def test_j7_an_operator_without_its_kind_says_why_it_is_not_ready_again_and_again(
    server: ApiServer,
    client: Client,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level("INFO", "kopf_runtime")
    monkeypatch.setattr("kopf_runtime.reporting.logs.UNSERVED", 0.05)
    monkeypatch.setattr("kopf_runtime.reporting.logs.RARELY", 0.1)
    unknown = server.refuse("GET", WIDGET.path(""), RefusedError(404, "NotFound"), times=10**6)
    manager = kr.Manager("tester", Settings)

    def why() -> list[str]:
        known = "the API server does not know it; install its CRD"
        return [text for text in caplog.messages if text.startswith("Not ready") and known in text]

    async with at_work(manager, client, Settings(), controller()):
        await until(lambda: len(why()) > 2)
        assert "widgets" in manager._ready()
        assert unknown
        server.answers.clear()
        await until(lambda: any(text.startswith("Ready") for text in caplog.messages))
        assert not manager._ready()
        manager.ready(lambda: "it broke later")
        await until(lambda: caplog.messages.count("Not ready: it broke later") > 1)
