"""Two replicas, and what may happen to the one that leads."""

import asyncio
import itertools
import time
from datetime import UTC, datetime
from signal import Signals

import pytest

from kopf_kit.testing import calls
from kopf_kit.testing.calls import Answer, Call, Forward, Match, Proxy, Write
from kopf_kit.testing.process import Operator
from kopf_kit.testing.requests import Raw
from kopf_kit.testing.world import ELECT, World

DURATION = 3.0  # seconds; ELECT's


async def two(
    here: World, *flags: str, elect: tuple[str, ...] = ELECT
) -> tuple[Operator, Operator]:
    """Start a leader, with these flags, and a standby; return them once both are ready."""
    if not here.subject.lease:
        pytest.fail(f"the operator of {here.subject} elects no leader", pytrace=False)
    leader = await here.start(*elect, *flags)
    await holds(here, here.proxies[0])
    standby = await here.start(*elect)
    return leader, standby


async def lease(here: World) -> Raw:
    current = await here.cluster.find(
        f"/apis/coordination.k8s.io/v1/namespaces/{here.namespace}/leases/{here.subject.lease}"
    )
    return current or {"spec": {}}


async def holds(here: World, leader: Proxy) -> None:
    """Wait until the replica behind this proxy leads: it has written the Lease last, as its own."""
    async with here.within(60, f"{leader.who} leads"):
        while True:
            holder = (await lease(here))["spec"].get("holderIdentity")
            if holder and holder in leader.identities:
                return
            await asyncio.sleep(0.05)


def writes_of(here: World, who: Proxy, since: float) -> list[Write]:
    return [write for write in here.relevant() if write.who == who.who and write.at > since]


async def test_the_standby_is_ready_and_writes_nothing(here: World) -> None:
    _, standby = await two(here)
    await here.create("하나")
    await here.converges({"hello": "하나"})

    assert (await standby.probe("/readyz"))[0] == 200
    assert writes_of(here, here.proxies[1], 0) == []


@pytest.mark.parametrize("how", [Signals.SIGTERM, Signals.SIGKILL])
async def test_the_leader_ends_and_the_other_goes_on(here: World, how: Signals) -> None:
    leader, _ = await two(here)
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)

    await leader.stop(how)
    holder = (await lease(here))["spec"]["holderIdentity"]
    await here.edit("둘")

    await here.converges({"hello": "둘"})
    # Who is told to end releases the Lease: the other one need not wait until it has run out.
    assert (holder in here.proxies[0].identities - {""}) is (how is Signals.SIGKILL)


@pytest.mark.parametrize(
    "number", [*(1, 3), *(pytest.param(more, marks=pytest.mark.long) for more in (2, 4, 5, 6))]
)
async def test_the_leader_is_killed_after_a_write_and_the_other_takes_over(
    here: World, number: int
) -> None:
    leader, _ = await two(here)
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)
    leader.supervised = False

    async def crash(_: Call, forward: Forward) -> None:
        await forward()
        leader.send(Signals.SIGKILL)

    # The Lease's writes count as well: one of them comes every third of a second.
    here.proxy.arm(_nth(number), crash)
    await here.edit("둘")

    await here.converges({"hello": "둘"})


def _nth(number: int) -> calls.Match:
    seen = 0

    def match(call: Call) -> bool:
        nonlocal seen
        seen += call.writes
        return call.writes and seen == number

    return match


async def test_the_leader_is_frozen_and_thawed(here: World) -> None:
    """SIGSTOP for longer than the Lease lasts; it wakes with work in hand, and changes nothing.

    A request that was already on its way when it froze is sent later, and must be refused.
    """
    leader, _ = await two(here)
    names = [f"m{number}" for number in range(8)]
    for name in names:
        await here.create("하나", name)
    await here.converges(dict.fromkeys(names, "하나"), quiet=0.1)

    for name in names:
        await here.edit("둘", name)
    leader.send(Signals.SIGSTOP)
    here.frozen.add(leader)
    await holds(here, here.proxies[1])
    for name in names:
        await here.edit("셋", name)
    await here.converges(dict.fromkeys(names, "셋"), quiet=0.1)
    thawed = time.monotonic()
    leader.send(Signals.SIGCONT)
    here.frozen.clear()

    await here.converges(dict.fromkeys(names, "셋"))
    late = writes_of(here, here.proxies[0], thawed)
    assert [write for write in late if write.status < 400 and "/events" not in write.path] == []


async def test_a_thawed_leader_sends_nothing_more(here: World) -> None:
    """It wakes to an answer, and its worker goes on to the next write: before the election does.

    Only the fence before each write stops that: also of one that was waiting for a connection.
    """
    leader, _ = await two(here, "--workers=1")
    names = [f"m{number:02}" for number in range(20)]

    async def freeze(_: Call, forward: Forward) -> Answer:
        answer = await forward()
        leader.send(Signals.SIGSTOP)
        return answer

    here.proxy.arm(nth_child(here, 10), freeze)
    here.frozen.add(leader)
    await asyncio.gather(*(here.create("하나", name) for name in names))
    await holds(here, here.proxies[1])
    await here.converges(dict.fromkeys(names, "하나"), quiet=0.1)
    thawed = time.monotonic()
    leader.send(Signals.SIGCONT)
    here.frozen.clear()

    await here.converges(dict.fromkeys(names, "하나"))
    late = writes_of(here, here.proxies[0], thawed)
    assert late == []


def nth_child(here: World, number: int) -> Match:
    """Match the n-th child that is made."""
    numbers = itertools.count(1)
    return lambda call: (
        call.writes and call.plural == here.parent.child.plural and next(numbers) == number
    )


@pytest.mark.long
async def test_the_leader_is_frozen_for_a_minute(here: World) -> None:
    leader, _ = await two(here)
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)

    await here.edit("둘")
    leader.send(Signals.SIGSTOP)
    here.frozen.add(leader)
    await here.wait_until_right("hello", "둘")
    await here.edit("셋")
    await asyncio.sleep(60)
    thawed = time.monotonic()
    leader.send(Signals.SIGCONT)
    here.frozen.clear()

    await here.converges({"hello": "셋"})
    late = writes_of(here, here.proxies[0], thawed)
    assert [write for write in late if write.status < 400 and "/events" not in write.path] == []


async def test_the_leader_is_cut_off_and_stops_before_the_other_begins(here: World) -> None:
    leader, _ = await two(here)
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)

    cut = here.proxy.arm(lambda _: True, calls.drop, float("inf"))
    here.proxy.drop_connections()
    here.frozen.add(leader)
    await holds(here, here.proxies[1])
    await here.edit("둘")
    await here.wait_until_right("hello", "둘")
    cut.times = 0
    here.frozen.clear()

    await here.converges({"hello": "둘"})
    began = min(write.at for write in writes_of(here, here.proxies[1], 0))
    assert all(write.at < began for write in writes_of(here, here.proxies[0], 0))


@pytest.mark.long  # the Lease is outlasted twice
async def test_the_clocks_are_moved_by_an_hour(here: World) -> None:
    """Both at once, apart from each other, and then the other way round."""
    duration = 4 * DURATION  # on a slow machine, too, the leader is to renew it in time
    longer = (f"--lease-duration={duration}", f"--lease-renew-deadline={duration - 1}")
    leader, standby = await two(here, elect=(*ELECT, *longer))
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)
    before = (await lease(here))["spec"]["leaseTransitions"]

    for shift in (3600, -3600):
        leader.shift_clock(shift)
        standby.shift_clock(-shift)
        async with here.within(120, "the leader's clock is another one"):
            while abs(await _ahead(here) - shift) > 60:
                await asyncio.sleep(0.05)
        since = time.monotonic()
        async with here.within(120, "the Lease is renewed for longer than it lasts"):
            while here.proxy.calls[-1].at - since < duration * 1.3:
                await asyncio.sleep(0.05)
    await here.edit("둘")

    await here.converges({"hello": "둘"})
    assert (await lease(here))["spec"]["leaseTransitions"] == before
    assert writes_of(here, here.proxies[1], 0) == []


async def _ahead(here: World) -> float:
    """Return how many seconds the clock that the Lease was renewed by is ahead of ours."""
    renewed = datetime.fromisoformat((await lease(here))["spec"]["renewTime"])
    return (renewed - datetime.now(UTC)).total_seconds()


async def test_the_lease_is_stolen_and_comes_back(here: World) -> None:
    """Somebody writes another name into it: nobody works, until that name has been silent."""
    await two(here)
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)

    path = f"/apis/coordination.k8s.io/v1/namespaces/{here.namespace}/leases/{here.subject.lease}"
    stolen = time.monotonic()
    await here.cluster.patch(path, {"spec": {"holderIdentity": "thief"}})
    await here.edit("둘")
    await here.wait_until_right("hello", "둘")  # perhaps by the leader, before it is refused

    def renewals(status: int, after: float) -> list[Write]:
        """Return writes to the Lease that had this answer, the earliest first."""
        leases = (write for write in here.writes if "/leases" in write.path and write.at > after)
        return sorted(
            (write for write in leases if write.status == status), key=lambda write: write.at
        )

    async with here.within(120, "the thief to be noticed, and then outlasted"):
        while not (refusals := renewals(409, 0)) or not renewals(200, refusals[0].at):
            await asyncio.sleep(0.05)
    await here.converges({"hello": "둘"})
    refused, taken = refusals[0], renewals(200, refusals[0].at)[0].at
    assert taken - stolen > DURATION
    # The refused leader looks who leads, and knows by when it looks again.
    (leader,) = (replica for replica in here.proxies if replica.who == refused.who)
    looks = [call.at for call in leader.calls if call.lease and call.at > refused.at]
    noticed = looks[1]
    writes = [c for replica in here.proxies for c in replica.calls if c.writes and not c.lease]
    assert [f"{c.method} {c.path}" for c in writes if noticed < c.at < taken] == []


async def test_the_lease_is_deleted(here: World) -> None:
    await two(here)
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)

    path = f"/apis/coordination.k8s.io/v1/namespaces/{here.namespace}/leases/{here.subject.lease}"
    await here.cluster.remove(path)
    await here.edit("둘")

    await here.converges({"hello": "둘"})


async def test_two_leaders_at_once_still_make_one_pod_a_message(here: World) -> None:
    """Without an election two operators work side by side: the worst that fencing could let by."""
    await here.start()
    await here.start()
    names = [f"m{number}" for number in range(8)]
    await asyncio.gather(*(here.create("하나", name) for name in names))
    await here.converges(dict.fromkeys(names, "하나"))
    await asyncio.gather(*(here.edit("둘", name) for name in names))
    await here.converges(dict.fromkeys(names, "둘"))
