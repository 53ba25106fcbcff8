"""Servers, disks and tokens that fail; findings M4 and the minor ones about the Lease."""

import asyncio
import os

from tests.support.faults import control_plane, proxy
from tests.support.faults.cluster import connected
from tests.support.faults.world import ELECT, World, world


async def test_m4_a_token_that_stays_refused_makes_no_hot_loop(here: World) -> None:
    await here.start()
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)
    here.proxy.drop_connections()
    here.proxy.arm(lambda _: True, proxy.refuse(401, "Unauthorized"), float("inf"))
    before = len(here.proxy.calls)
    await asyncio.sleep(5)
    asked = len(here.proxy.calls) - before

    here.proxy.disarm()
    await here.edit("둘")

    await here.converges({"hello": "둘"})
    assert asked < 40  # it was 150: thirty a second
    assert here.operator.exits == []


async def test_a_log_that_cannot_be_written_stops_nothing(here: World) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        await here.start(log_to=full)
        await here.create("하나")
        await here.converges({"hello": "하나"})
    finally:
        os.close(full)
    assert here.operator.exits == []


async def test_etcd_that_forgets_each_second_is_no_trouble() -> None:
    flags = ("--etcd-compaction-interval=1s",)
    with control_plane.running(*flags) as plane:
        async with connected(plane) as cluster:
            await cluster.install()
            plane.start_controllers(*control_plane.CONTROLLERS)
            async with world(cluster) as here:
                await here.start("--sweep-period=1")
                wanted = {f"m{number:02}": "하나" for number in range(30)}
                for name, text in wanted.items():
                    await here.create(text, name)
                    here.proxy.drop_connections()
                    await asyncio.sleep(0.1)
                await here.converges(wanted)
                assert here.operator.exits == []


async def test_a_server_that_sheds_load_is_neither_pressed_nor_given_up(here: World) -> None:
    await here.start()
    turn = 0

    def every_third(call: proxy.Call) -> bool:
        nonlocal turn
        turn += not call.lease
        return turn % 3 == 0 and not call.lease

    armed = here.proxy.arm(every_third, proxy.refuse(429, "TooManyRequests", 1), 60)
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
    # The server grants the renewal, and the leader ends before it hears of it.
    armed = here.proxy.arm(lambda call: call.lease and call.method == "PUT", proxy.late(1.0), 1)
    await here.met(armed)
    here.frozen.add(first)
    await first.stop()

    lease = await here.cluster.ask(
        "GET",
        f"/apis/coordination.k8s.io/v1/namespaces/{here.namespace}/leases/demo-message-operator",
    )
    assert lease["spec"]["holderIdentity"] == ""


async def test_rights_that_flap_leave_nothing_wrong(here: World) -> None:
    await here.start()
    roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{here.namespace}/roles"
    role = await here.cluster.ask("GET", f"{roles}/demo-message-operator")
    wanted = {}
    for turn in range(6):
        rules = role["rules"] if turn % 2 else []
        await here.cluster.patch(f"{roles}/demo-message-operator", {"rules": rules})
        wanted[f"m{turn}"] = "하나"
        await here.create("하나", f"m{turn}")
        await asyncio.sleep(0.3)

    await here.converges(wanted)
    assert here.operator.exits == []
