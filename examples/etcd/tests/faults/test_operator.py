"""An EtcdCluster on a real control plane, with a real process of etcd for each of its Pods.

The clients write all the time, and each acknowledged write must be found in the end. The operator
is killed after its writes to the API server and after its calls of etcd.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from signal import Signals
from typing import Any

import pytest
from kopf_kit.rig import tools
from kopf_kit.testing.calls import Call, Forward
from kopf_kit.testing.cluster import Raw
from kopf_kit.testing.kubelet import Trouble
from kopf_kit.testing.subject import Subject
from kopf_kit.testing.world import World
from kopf_runtime import kinds

from etcd_operator import operator
from tests.faults.history import Clients, wrong
from tests.faults.nodes import NAME, Nodes

VERSION = "3.7.3"


class EtcdClusters(Subject):
    """The operator."""

    program = ("-m", "etcd_operator")
    manager = operator.manager
    creates = kinds.POD
    well = "Healthy"

    def spec(self, text: str) -> Raw:
        return {"size": int(text), "version": VERSION}


SUBJECTS = (EtcdClusters(),)


class Cluster:
    """The EtcdCluster of a test, its nodes and its clients."""

    def __init__(self, here: World, nodes: Nodes) -> None:
        self.here, self.nodes = here, nodes
        self.clients = Clients(nodes.session, self._choose)
        self._turn = 0

    def ready(self) -> list[str]:
        return [
            one.name for one in self.nodes.containers.values()
            if one.runs and not one.lost and not one.ending
            and one.status and one.status["containerStatuses"][0]["ready"]
        ]  # fmt: skip

    def url(self, member: str) -> str:
        return f"http://{self.nodes.address(member)}:2379"

    def _choose(self) -> str | None:
        """Choose a member, as the Service does: only if it is ready."""
        self._turn += 1
        names = self.ready()
        return self.url(names[self._turn % len(names)]) if names else None

    async def create(self, size: int, **spec: Any) -> None:
        body = self.here.subject.manifest(str(size), NAME)
        body["spec"] |= spec
        await self.here.cluster.ask("POST", self.here.objects, body)

    async def edit(self, **spec: Any) -> None:
        await self.here.cluster.patch(self.here.object(NAME), {"spec": spec})

    async def found(self) -> Raw:
        return await self.here.cluster.ask("GET", self.here.object(NAME))

    async def condition(self, type_: str) -> Raw:
        conditions: list[Raw] = ((await self.found()).get("status") or {}).get("conditions", [])
        return next((one for one in conditions if one["type"] == type_), {})

    async def settles(self, size: int, patience: float = 90) -> Raw:
        """Wait until so many members are healthy; return the status."""
        async with self.here.within(patience, f"{size} members"):
            while True:
                found = await self.found()
                status: Raw = found.get("status") or {}
                ready = await self.here.condition(NAME)
                if (
                    ready.get("status") == "True"
                    and ready["observedGeneration"] == found["metadata"]["generation"]
                    and status["ready"] == size == len(self.ready())
                ):
                    return status
                await asyncio.sleep(0.2)

    async def is_right(self) -> None:
        """Check what the clients have seen, and that all members have the same."""
        histories = [await self.clients.history(self.url(member)) for member in self.ready()]
        assert all(one == histories[0] for one in histories)
        assert wrong(self.clients.operations, histories[0]) == []


@pytest.fixture
async def cluster(here: World, tmp_path: Path) -> AsyncIterator[Cluster]:
    here.kubelet.arm(Trouble.LOST)  # the suite's own: `Nodes` takes its place
    [etcd] = tools.built("etcd")
    async with Nodes(here.cluster, here.namespace, tmp_path, {"3.7": etcd}).working() as nodes:
        one = Cluster(here, nodes)
        async with one.clients.working():
            yield one


def kill_after_each_write(here: World, cluster: Cluster, each: int = 1) -> None:
    """Kill the operator after each so-manieth write to the API server, and each call of etcd."""
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


async def test_it_grows_and_shrinks_though_the_operator_is_killed_all_the_time(
    here: World, cluster: Cluster
) -> None:
    await here.start()
    kill_after_each_write(here, cluster, each=3)
    await cluster.create(1)
    first = await cluster.settles(1)

    await cluster.edit(size=3)
    await cluster.settles(3)
    await cluster.edit(size=1)
    status = await cluster.settles(1)

    assert status["clusterId"] == first["clusterId"]
    assert cluster.clients.acknowledged > 100
    await cluster.is_right()
