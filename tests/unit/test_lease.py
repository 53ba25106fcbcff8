import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from message_operator import metrics
from message_operator.lease import Election
from message_operator.settings import Settings
from tests.unit.fake_api import FakeApi

LEASE = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/message-operator"
QUICK = Settings(
    lease_namespace="ns", lease_duration=0.6, lease_renew_deadline=0.3, lease_retry_period=0.02
)


class Candidate:
    """A replica: tells whether it works at this moment."""

    def __init__(self, api: FakeApi, name: str, settings: Settings = QUICK) -> None:
        self.works = False
        self._election = Election(api, replace(settings, identity=name))

    async def _work(self) -> None:
        self.works = True
        try:
            await asyncio.Event().wait()
        finally:
            self.works = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        task = asyncio.create_task(self._election.lead(self._work))
        try:
            yield task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def leads(self) -> None:
        async with asyncio.timeout(10):
            while not self.works:
                await asyncio.sleep(0.005)

    async def stops(self) -> None:
        async with asyncio.timeout(10):
            while self.works:
                await asyncio.sleep(0.005)


def holder(api: FakeApi) -> Any:
    return api.objects[LEASE]["spec"].get("holderIdentity")


async def test_a_silent_leader_is_replaced_as_soon_as_its_lease_runs_out() -> None:
    api = FakeApi()
    loop = asyncio.get_running_loop()
    api.put(LEASE, {"spec": {"holderIdentity": "dead", "leaseDurationSeconds": 1}})
    one = Candidate(api, "one", replace(QUICK, lease_retry_period=0.6, lease_renew_deadline=0.8))
    began = loop.time()

    async with one.running():
        await one.leads()

    assert 1.0 < loop.time() - began < 1.15  # and not at the second try's time, 1.2


async def test_a_single_replica_leads() -> None:
    api = FakeApi()
    one = Candidate(api, "one")

    async with one.running():
        await one.leads()

        assert holder(api) == "one"


async def test_of_two_replicas_one_works() -> None:
    api = FakeApi()
    one, two = Candidate(api, "one"), Candidate(api, "two")

    async with one.running():
        await one.leads()
        async with two.running():
            await asyncio.sleep(QUICK.lease_duration * 2)

            assert (one.works, two.works) == (True, False)


async def test_a_leader_that_stops_hands_over_at_once() -> None:
    api = FakeApi()
    one, two = Candidate(api, "one"), Candidate(api, "two")

    async with two.running() as _:
        await two.leads()
        async with one.running():
            await asyncio.sleep(0.05)
            _.cancel()
            await one.leads()

            assert holder(api) == "one"
    assert not two.works


async def test_a_silent_leader_is_replaced() -> None:
    api = FakeApi()
    api.put(LEASE, {"metadata": {"name": "message-operator"},
                    "spec": {"holderIdentity": "dead", "leaseDurationSeconds": 1}})  # fmt: skip
    one = Candidate(api, "one")

    async with one.running():
        await one.leads()

    assert api.objects[LEASE]["spec"]["leaseTransitions"] == 1


async def test_a_leader_that_cannot_renew_stops_before_another_may_begin() -> None:
    api = FakeApi()
    one = Candidate(api, "one")

    async with one.running():
        await one.leads()
        for _ in range(10_000):
            api.refuse("PUT", 500, "InternalError")
        loop = asyncio.get_running_loop()
        began = loop.time()
        await one.stops()

        assert loop.time() - began < QUICK.lease_duration


async def test_a_leader_whose_lease_was_taken_stops() -> None:
    api = FakeApi()
    one = Candidate(api, "one")

    async with one.running():
        await one.leads()
        raw = api.objects[LEASE]
        raw["spec"] = {"holderIdentity": "thief", "leaseDurationSeconds": 3600}
        api.put(LEASE, raw)
        await one.stops()
        await asyncio.sleep(0.1)

        assert (one.works, holder(api)) == (False, "thief")


async def test_a_deleted_lease_is_made_again() -> None:
    api = FakeApi()
    one = Candidate(api, "one")

    async with one.running():
        await one.leads()
        del api.objects[LEASE]
        async with asyncio.timeout(10):
            while LEASE not in api.objects or holder(api) != "one":
                await asyncio.sleep(0.005)
        await one.leads()


async def test_the_lease_is_empty_once_everybody_has_left() -> None:
    api = FakeApi()
    one = Candidate(api, "one")

    async with one.running():
        await one.leads()

    assert holder(api) == ""


async def test_a_leader_that_slept_may_not_write_before_it_has_looked_again(
    monkeypatch: Any,
) -> None:
    api = FakeApi()
    election = Election(api, replace(QUICK, identity="one"))
    assert not election.leads()
    task = asyncio.create_task(election.lead(asyncio.Event().wait))  # type: ignore[arg-type]
    async with asyncio.timeout(10):
        while not election.leads():
            await asyncio.sleep(0.005)

    later = time.monotonic() + QUICK.lease_renew_deadline
    monkeypatch.setattr("time.monotonic", lambda: later)  # and no task has run since

    assert not election.leads()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_renewals_and_failures_can_be_watched() -> None:
    def failures() -> float:
        return metrics.REGISTRY.get_sample_value("message_operator_lease_failures_total") or 0.0

    api = FakeApi()
    one = Candidate(api, "one")
    before, began = failures(), time.time()

    async with one.running():
        await one.leads()
        renewed = metrics.REGISTRY.get_sample_value(
            "message_operator_lease_renewed_timestamp_seconds"
        )
        assert failures() == before
        api.refuse("PUT", 500, "InternalError")
        async with asyncio.timeout(10):
            while failures() == before:
                await asyncio.sleep(0.005)

    assert renewed is not None
    assert began <= renewed <= time.time()
    assert failures() == before + 1
