"""Servers, disks and tokens that fail; findings M4 and the minor ones about the Lease."""

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from signal import Signals

import pytest

from kopf_kit.testing import calls
from kopf_kit.testing.requests import Cluster, RefusedError, connected
from kopf_kit.testing.under_test import prepare
from kopf_kit.testing.world import ELECT, World, world
from kopf_runtime.declaring.kinds import POD, Kind
from tests.faults.subjects import MESSAGE
from tests.support import control_plane
from tests.support.control_plane import OPERATOR


@pytest.mark.long
async def test_m4_a_token_that_stays_refused_makes_no_hot_loop(here: World) -> None:
    await here.start()
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)
    here.proxy.drop_connections()
    here.proxy.arm(lambda _: True, calls.refuse(401, "Unauthorized"), float("inf"))
    before = len(here.proxy.calls)
    await asyncio.sleep(5)
    asked = len(here.proxy.calls) - before

    here.proxy.disarm()
    await here.edit("둘")

    await here.converges({"hello": "둘"})
    assert asked < 40  # it was 150: thirty a second
    assert here.operator.exits == []


async def test_a_log_that_cannot_be_written_stops_nothing(here: World) -> None:
    await here.start(log_to=Path("/dev/full"))
    await here.create("하나")
    await here.converges({"hello": "하나"})
    assert here.operator.exits == []


@pytest.mark.long
async def test_etcd_that_forgets_each_second_is_no_trouble() -> None:
    # With its cache of events, the API server would remember in etcd's place.
    flags = ("--etcd-compaction-interval=1s", "--watch-cache=false")
    with control_plane.running(*flags) as plane:
        async with connected(plane) as cluster:
            await prepare(cluster, MESSAGE)
            plane.start_controllers(*control_plane.CONTROLLERS)
            async with world(cluster, MESSAGE) as here:
                await here.start()
                wanted = {f"m{number:02}": "하나" for number in range(8)}
                async with _watches_cut_until_forgotten(here):
                    for name, text in wanted.items():
                        await here.create(text, name)
                await here.converges(wanted)  # there is no resync meanwhile

                async with _watches_cut_until_forgotten(here):
                    await here.edit("둘", "m00")
                    await here.delete("m01")
                    await here.cluster.remove(here.child("m02"), grace=0)
                    await here.create("둘", "new")
                del wanted["m01"]
                await here.converges({**wanted, "m00": "둘", "new": "둘"})
                assert here.operator.exits == []


@asynccontextmanager
async def _watches_cut_until_forgotten(here: World) -> AsyncIterator[None]:
    """Cut the watches, and let them go on once etcd has forgotten what happened in the block.

    Then the API server must answer 410 to each of them.
    """
    before, forgotten = int(await _version(here)), asyncio.Event()
    answers: dict[str, bytes] = {}

    async def held(call: calls.Call, forward: calls.Forward) -> calls.Answer:
        await forgotten.wait()
        answer = await forward()
        answers[call.plural] = answer.body
        return answer

    def former(kind: Kind) -> calls.Match:
        return lambda call: (
            call.watch
            and call.plural == kind.plural
            and int(call.query["resourceVersion"]) <= before
        )

    for kind in (MESSAGE.kind, POD):
        here.proxy.arm(former(kind), held)
    here.proxy.drop_connections()
    yield
    await _until_forgotten(here, await _version(here))
    forgotten.set()
    async with here.within(60, "its watches are answered"):
        while len(answers) < 2:
            await asyncio.sleep(0.05)
    assert all(b'"code":410' in answer for answer in answers.values()), answers


async def _version(here: World) -> str:
    """Return the API server's current resource version."""
    found = await here.cluster.ask("GET", here.objects)
    return str(found["metadata"]["resourceVersion"])


async def _until_forgotten(here: World, version: str) -> None:
    """Wait until etcd has compacted its history up to a version, and can list it no more."""
    async with here.within(60, f"version {version} is compacted"):
        while await _has(here, version):
            await asyncio.sleep(0.1)


async def _has(here: World, version: str) -> bool:
    query = f"resourceVersion={version}&resourceVersionMatch=Exact"
    try:
        await here.cluster.ask("GET", f"{here.objects}?{query}")
    except RefusedError as error:
        if error.status != 410:
            raise
        return False
    return True


@pytest.mark.long
async def test_a_server_that_sheds_load_is_neither_pressed_nor_given_up(here: World) -> None:
    await here.start()
    turn = 0

    def every_third(call: calls.Call) -> bool:
        nonlocal turn
        turn += not call.lease
        return turn % 3 == 0 and not call.lease

    armed = here.proxy.arm(every_third, calls.refuse(429, "TooManyRequests", 1), 60)
    wanted = {f"m{number:02}": "하나" for number in range(20)}
    for name, text in wanted.items():
        await here.create(text, name)

    await here.converges(wanted)
    assert armed.hits > 10
    assert here.operator.exits == []


async def test_minor_6_a_leader_that_ends_while_it_renews_releases_the_lease(
    here: World,
) -> None:
    first = await here.start(*ELECT)
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)
    granted = asyncio.Event()

    async def grant_unheard(_: calls.Call, forward: calls.Forward) -> calls.Answer:
        """Have the server grant the renewal, and the leader end before it hears of it."""
        answer = await forward()
        granted.set()
        await asyncio.sleep(1)
        return answer

    here.proxy.arm(lambda call: call.lease and call.method == "PUT", grant_unheard)
    async with here.within(60, "the renewal is granted"):
        await granted.wait()
    here.frozen.add(first)
    await first.stop()

    lease = await here.cluster.ask(
        "GET",
        f"/apis/coordination.k8s.io/v1/namespaces/{here.namespace}/leases/demo-message-operator",
    )
    assert lease["spec"]["holderIdentity"] == ""


async def a_login_page(_: calls.Call, __: calls.Forward) -> calls.Answer:
    """Answer as a captive portal or a broken load balancer does."""
    return calls.Answer(200, b"<html>Log in first</html>", {"Content-Type": "text/html"})


async def test_a_login_page_in_place_of_the_api_server_is_no_news(here: World) -> None:
    await here.start("--resync-period=1")
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)
    uid = (await here.cluster.ask("GET", here.child()))["metadata"]["uid"]

    page = here.proxy.arm(lambda _: True, a_login_page, float("inf"))
    here.proxy.drop_connections()
    async with here.within(60, "it meets the page"):
        while page.hits < 5:
            await asyncio.sleep(0.05)
    here.proxy.disarm()
    await here.create("둘", "other")

    await here.converges({"hello": "하나", "other": "둘"})
    assert (await here.cluster.ask("GET", here.child()))["metadata"]["uid"] == uid
    assert here.operator.exits == []


@pytest.mark.long
async def test_a_process_that_stutters_finishes_its_work(here: World) -> None:
    """As under a tight CPU limit: it stands still again and again, in the middle of anything."""
    await here.start()
    wanted = {f"m{number:02}": "하나" for number in range(20)}
    for name, text in wanted.items():
        await here.create(text, name)
        here.operator.send(Signals.SIGSTOP)
        await asyncio.sleep(0.05)
        here.operator.send(Signals.SIGCONT)

    await here.converges(wanted)
    assert here.children_made() == len(wanted)
    assert here.operator.exits == []


@pytest.mark.long
async def test_out_of_memory_it_loses_nothing(here: World) -> None:
    """It gets no more memory than it has, in the middle of its work, as at a container's limit."""
    await here.start()
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)
    limited, room, wanted = here.operator.pid, 2**18, {"hello": "하나"}

    async with here.within(120, "it has no memory left"):
        while not (here.operator.exits or b"MemoryError" in here.operator.log.read_bytes()):
            # Less room each time: how much it takes depends on how many Messages come at once.
            with suppress(OSError, AssertionError):  # it has just ended, and is seen to next time
                most = here.operator.memory("VmSize") + room
                resource.prlimit(limited, resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
            room //= 2
            names = [f"m{number:03}" for number in range(len(wanted), len(wanted) + 40)]
            more = {name: name + "x" * 32000 for name in names}
            await asyncio.gather(*(here.create(text, name) for name, text in more.items()))
            wanted |= more
            await asyncio.sleep(1)
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    with suppress(ProcessLookupError):  # it ended
        resource.prlimit(limited, resource.RLIMIT_AS, unlimited)

    await here.converges(wanted)


@pytest.mark.long  # a control plane of its own
async def test_the_api_server_s_own_fairness_gives_it_one_request_at_a_time() -> None:
    flags = (
        "--enable-priority-and-fairness=true",
        "--max-requests-inflight=20",
        "--max-mutating-requests-inflight=20",
    )
    with control_plane.running(*flags) as plane:
        async with connected(plane) as cluster:
            await prepare(cluster, MESSAGE)
            plane.start_controllers(*control_plane.CONTROLLERS)
            await _squeeze(cluster)
            async with world(cluster, MESSAGE) as here:
                await here.start()
                wanted = {f"m{number:02}": "하나" for number in range(50)}
                await asyncio.gather(*(here.create(text, name) for name, text in wanted.items()))
                # Each refusal costs seconds, and how many there are is chance.
                await here.converges(wanted, patience=300)
                refused = [w for w in here.writes if w.status == 429]
                assert refused, "the API server never shed load"
                assert here.operator.exits == []


async def _squeeze(cluster: Cluster) -> None:
    """Have the API server give the operator one seat and no queue."""
    root = "/apis/flowcontrol.apiserver.k8s.io/v1"
    little = {
        "nominalConcurrencyShares": 1,
        "limitResponse": {"type": "Reject"},
        "lendablePercent": 0,
        "borrowingLimitPercent": 0,
    }
    await cluster.ask(
        "POST",
        f"{root}/prioritylevelconfigurations",
        {
            "metadata": {"name": "squeezed"},
            "spec": {"type": "Limited", "limited": little},
        },
    )
    everything = {
        "subjects": [{"kind": "User", "user": {"name": OPERATOR}}],
        "resourceRules": [
            {
                "verbs": ["*"],
                "apiGroups": ["*"],
                "resources": ["*"],
                "namespaces": ["*"],
                "clusterScope": True,
            },
        ],
    }
    await cluster.ask(
        "POST",
        f"{root}/flowschemas",
        {
            "metadata": {"name": "squeezed"},
            "spec": {
                "priorityLevelConfiguration": {"name": "squeezed"},
                "matchingPrecedence": 2,
                "rules": [everything],
            },
        },
    )
