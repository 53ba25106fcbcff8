"""An EtcdCluster on a real control plane, with a real process of etcd for each of its Pods."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kopf_kit.rig import tools, versions
from kopf_kit.testing.kubelet import Trouble
from kopf_kit.testing.requests import Raw
from kopf_kit.testing.world import World

from tests.faults.history import Clients, Write, unexplained, wrong
from tests.faults.nodes import NAME, Container, Nodes


class Cluster:
    """The EtcdCluster of a test, its nodes and its clients."""

    def __init__(self, here: World, nodes: Nodes) -> None:
        self.here, self.nodes = here, nodes
        self.clients = Clients(nodes.session, self.url_of_any)
        self._turn = 0

    def ready(self) -> list[str]:
        """Return the members behind the Service."""
        return [
            container.name
            for container in self.nodes.containers.values()
            if container.runs
            and not container.lost
            and not container.ending
            and container.status
            and container.status["containerStatuses"][0]["ready"]
        ]

    def url(self, member: str) -> str:
        scheme = "https" if self.clients.options else "http"
        return f"{scheme}://{self.nodes.address(member)}:2379"

    def url_of_any(self) -> str | None:
        self._turn += 1
        names = self.ready()
        return self.url(names[self._turn % len(names)]) if names else None

    async def create(self, size: int, **spec: Any) -> None:
        body = self.here.subject.manifest(str(size), NAME)
        body["spec"] |= spec
        await self.here.cluster.ask("POST", self.here.objects, body)

    async def edit(self, **spec: Any) -> None:
        await self.here.cluster.patch(self.here.object(NAME), {"spec": spec})

    async def status(self) -> Raw:
        etcd = await self.here.cluster.ask("GET", self.here.object(NAME))
        return {"conditions": [], **etcd.get("status", {}), "of": etcd["metadata"]["generation"]}

    async def condition(self, type_: str) -> Raw:
        conditions: list[Raw] = (await self.status())["conditions"]
        return next((condition for condition in conditions if condition["type"] == type_), {})

    @asynccontextmanager
    async def within(self, patience: float, what: str) -> AsyncIterator[None]:
        """Fail with the status and the members' last words if the block takes longer."""
        try:
            async with self.here.within(patience, what):
                yield
        except AssertionError as error:
            error.add_note(json.dumps(await self.status(), indent=1))
            for container in self.nodes.containers.values():
                error.add_note(f"{container}\n{container.log.read_text()[-3000:]}")
            raise

    async def until(self, type_: str, status: str, reason: str, patience: float = 90) -> Raw:
        """Wait until a condition says so."""
        async with self.within(patience, f"{type_} {status} {reason}"):
            while True:
                condition = await self.condition(type_)
                if (condition.get("status"), condition.get("reason")) == (status, reason):
                    return condition
                await asyncio.sleep(0.2)

    async def settles(self, size: int, patience: float = 90) -> Raw:
        """Wait until so many members are healthy; return the status."""
        async with self.within(patience, f"{size} members"):
            while True:
                status = await self.status()
                ready = {entry["type"]: entry for entry in status["conditions"]}.get("Ready", {})
                if (ready.get("status"), ready.get("observedGeneration")) == (
                    "True",
                    status["of"],
                ) and status["ready"] == size == len(self.ready()):
                    return status
                await asyncio.sleep(0.2)

    async def check(self) -> list[Write]:
        """End the clients; check what they have seen, and that all members have the same.

        Return the history.
        """
        await self.clients.stop()
        histories = [await self.clients.history(self.url(member)) for member in self.ready()]
        assert all(history == histories[0] for history in histories)
        assert wrong(self.clients.operations, histories[0]) == []
        assert await unexplained(self.clients.operations, histories[0]) == ""
        return histories[0]

    def container(self, member: str) -> Container:
        return self.nodes.running(member)

    async def claim(self, member: str) -> Raw:
        """Return the claim of a member's volume."""
        claims = await self.here.cluster.items(self.nodes.path("persistentvolumeclaims"))
        return next(pvc for pvc in claims if pvc["metadata"]["name"].startswith(f"data-{member}-"))


@pytest.fixture(scope="session")
def older_etcd() -> dict[str, Path]:
    """The programs of older minor versions; they are built before a test's nodes begin to work.

    On a new machine, that takes minutes, in which no node would get an answer to a request.
    """
    return {minor: tools.etcd(minor, "etcd")[0] for minor in versions.OLDER_ETCD}


@pytest.fixture
async def cluster(here: World, tmp_path: Path) -> AsyncIterator[Cluster]:
    here.kubelet.arm(Trouble.LOST)  # the suite's own: `Nodes` takes its place
    minor = versions.NEWEST_ETCD
    etcd = {minor: tools.etcd(minor, "etcd")[0]}
    async with Nodes(here.cluster, here.namespace, tmp_path, etcd).working() as nodes:
        subject = Cluster(here, nodes)
        subject.clients.start()
        yield subject
        await subject.clients.stop()
