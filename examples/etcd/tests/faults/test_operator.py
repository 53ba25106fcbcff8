"""An EtcdCluster grows and shrinks under load, though the operator is killed all the time.

The clients write all the time, and each acknowledged write must be found in the end. The operator
is killed after its writes to the API server, and after its calls of etcd before it gets the answer.
"""

from signal import Signals
from typing import Any

import pytest
from kopf_kit.rig import versions
from kopf_kit.testing.calls import Call, Forward
from kopf_kit.testing.requests import Raw
from kopf_kit.testing.under_test import Subject
from kopf_kit.testing.world import World
from kopf_runtime import kinds

from etcd_operator import clusters, operator
from tests.faults.conftest import Cluster

VERSION = versions.ETCD.removeprefix("v")
#: Seconds that an election takes at most, with the pauses between two writes.
ELECTION = 3.0


class EtcdClusters(Subject):
    """The operator."""

    program = ("-m", "etcd_operator")
    manager = operator.manager
    creates = kinds.POD
    ready_reason = "Healthy"

    @property
    def controller(self) -> Any:
        return clusters.controller

    def spec(self, text: str) -> Raw:
        return {"size": int(text), "version": VERSION}


SUBJECTS = (EtcdClusters(),)


def kill_after_each_write(here: World, cluster: Cluster, each: int) -> None:
    """Kill the operator after so many writes to the API server and calls of etcd, and again."""
    count = 0

    def due() -> bool:
        nonlocal count
        count += 1
        return count % each == 0

    async def crash(_: Call, forward: Forward) -> None:
        await forward()
        here.operator.send(Signals.SIGKILL)

    async def after_call(_: str) -> None:
        if due():
            here.operator.send(Signals.SIGKILL)

    def match(call: Call) -> bool:
        return call.writes and not call.lease and "/events" not in call.path and due()

    here.proxy.arm(match, crash, float("inf"))
    cluster.nodes.after_call = after_call


@pytest.mark.parametrize(
    ("each", "sizes"),
    [
        (3, (1, 3, 1)),
        pytest.param(1, (1, 3, 5, 3, 1), marks=pytest.mark.long),
        pytest.param(5, (1, 7, 4, 2), marks=pytest.mark.long),
    ],
)
async def test_it_grows_and_shrinks_though_the_operator_is_killed_all_the_time(
    here: World, cluster: Cluster, each: int, sizes: tuple[int, ...]
) -> None:
    await here.start()
    kill_after_each_write(here, cluster, each)
    await cluster.create(sizes[0])
    first = await cluster.settles(sizes[0])

    for size in sizes[1:]:
        await cluster.edit(size=size)
        status = await cluster.settles(size, patience=600)

    assert status["clusterId"] == first["clusterId"]
    assert len(here.operator.exits) > 5
    assert cluster.clients.acknowledged > 100
    await cluster.check()


async def test_growth_deletes_no_pod_and_interrupts_nothing(here: World, cluster: Cluster) -> None:
    """A new member's Pod is to serve as it is: without one of two, there is no quorum."""
    await here.start()
    await cluster.create(1)
    await cluster.settles(1)
    serves, writes = await cluster.condition("Available"), len(here.writes)
    cluster.clients.longest, pauses = 0.0, {}
    for size in (2, 3):
        await cluster.edit(size=size)
        await cluster.settles(size)
        pauses[size], cluster.clients.longest = cluster.clients.longest, 0.0

    deleted = [write.path for write in here.writes[writes:] if write.method == "DELETE"]
    print(f"longest pauses of writes by size: {pauses}; deleted: {deleted}")
    assert deleted == []
    assert max(pauses.values()) < ELECTION, pauses
    now = await cluster.condition("Available")
    assert now["lastTransitionTime"] == serves["lastTransitionTime"]
    assert all(container.restarts == 0 for container in cluster.nodes.containers.values())
    await cluster.check()
