"""A controller of Services, which others define, as the real API server keeps them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import kopf_runtime as kr
from faults.worlds import client_of
from kopf_kit.testing.requests import Cluster, Raw
from kopf_runtime.cluster.client import APPLY_PATCH, Client
from kopf_runtime.declaring.errors import ApiError
from kopf_runtime.declaring.kinds import CONFIG_MAP, SERVICE
from runtime.support.running import NAME, operating

pytestmark = pytest.mark.api

#: The type of a condition.
OURS = "example.dev/Mirrored"
GONE = {"apiVersion": "v1", "kind": "Service"}


class Service(kr.Object):
    status: dict[str, Any] = {}  # noqa: RUF012


def services(condition: str = "") -> kr.Controller:
    """A controller that mirrors Services into ConfigMaps, and marks and annotates them."""
    manager = kr.Manager(NAME, kr.Settings)
    where = {"labels": {"mirror": "yes"}}
    how: Any = {"condition": condition} if condition else {"annotation": "example.dev/state"}
    one = manager.controller_for(kr.kinds.SERVICE, Service, where=where, **how)
    one.owns(CONFIG_MAP)

    @one.desired
    def desired(service: kr.Object, _: kr.Context[Any]) -> Iterable[Raw]:
        meta = {"name": f"of-{service.metadata.name}"}
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a": "b"}}

    @one.contribution
    def contribution(_: kr.Object, __: kr.Context[Any]) -> Raw:
        return {"metadata": {"labels": {"team": "a"}}, "spec": {"publishNotReadyAddresses": True}}

    @one.finalize
    async def finalize(service: kr.Object, context: kr.CallContext[Any]) -> None:
        context.event("Finalized", f"It was {service.metadata.name}.")

    return one


class Here:
    """A Service, and what is to be seen of it."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.path = SERVICE.path(namespace, "web")

    async def make(self, **labels: str) -> None:
        body = {
            **GONE,
            "metadata": {"name": "web", "labels": {"mirror": "yes"} | labels},
            "spec": {"clusterIP": "None", "ports": [{"port": 80}]},
        }
        await self.cluster.ask("POST", SERVICE.path(self.namespace), body)

    async def until(self, holds: Callable[[Raw], Any]) -> Raw:
        """Wait until something is true of the Service; return it."""
        async with asyncio.timeout(60):
            while not holds(service := await self.cluster.ask("GET", self.path)):
                await asyncio.sleep(0.1)
        return service

    async def child(self) -> Raw | None:
        return await self.cluster.find(CONFIG_MAP.path(self.namespace, "of-web"))

    @asynccontextmanager
    async def operated(self, condition: str = "") -> AsyncIterator[Client]:
        settings = kr.Settings(namespaces=(self.namespace,))
        async with (
            client_of(self.cluster, Client) as client,
            operating(client, services(condition), settings=settings),
        ):
            yield client


@pytest.fixture
async def there(cluster: Cluster) -> Here:
    return Here(cluster, await cluster.new_namespace())


def state(service: Raw) -> str:
    told: str = (service["metadata"].get("annotations") or {}).get("example.dev/state", "")
    return told


async def test_what_another_manager_has_set_stays_and_the_state_says_so(there: Here) -> None:
    await there.make(team="theirs")
    async with there.operated():
        told = await there.until(lambda it: state(it).startswith("ContributionConflict"))
        assert '".metadata.labels.team"' in state(told) or "metadata.labels.team" in state(told)
        assert told["metadata"]["labels"]["team"] == "theirs"
        await there.cluster.patch(there.path, {"metadata": {"labels": {"team": None}}})
        await there.until(lambda it: state(it).startswith("Reconciled"))
        await there.cluster.remove(there.path)
        async with asyncio.timeout(60):
            while await there.cluster.find(there.path):
                await asyncio.sleep(0.1)


def conditions(service: Raw) -> dict[str, Raw]:
    return {each["type"]: each for each in service["status"].get("conditions", ())}


async def test_the_state_goes_into_a_condition_beside_those_of_others(there: Here) -> None:
    await there.make()
    theirs = {"type": "Theirs", "status": "True", "reason": "A", "message": ""}
    theirs["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    await there.cluster.patch(f"{there.path}/status", {"status": {"conditions": [theirs]}})
    async with there.operated(OURS):
        served = await there.until(lambda it: conditions(it).get(OURS, {}).get("status") == "True")
        assert conditions(served)[OURS]["reason"] == "Reconciled"
        assert "observedGeneration" not in conditions(served)[OURS]  # most kinds refuse it
        assert conditions(served)["Theirs"] == theirs
        await asyncio.sleep(1)  # the last write
        before = await there.until(bool)
    async with there.operated(OURS):  # a restart writes nothing
        await asyncio.sleep(2)
        assert await there.until(bool) == before
        await there.cluster.patch(there.path, {"metadata": {"labels": {"mirror": "no"}}})
        left = await there.until(lambda it: OURS not in conditions(it))
    assert conditions(left)["Theirs"] == theirs


async def test_nothing_is_added_to_another_object_of_the_name(there: Here) -> None:
    """An apply with the uid of a Service that is gone neither creates nor changes one."""
    async with there.operated() as client:
        body = {**GONE, "metadata": {"name": "web", "namespace": there.namespace, "uid": "0-0-0"}}
        for exists in (False, True):
            if exists:
                await there.make()
            apply = client.request(
                "PATCH", there.path, body, content_type=APPLY_PATCH, query="fieldManager=x"
            )
            with pytest.raises(ApiError, match=r"uid mismatch|metadata\.uid: Invalid value"):
                await apply
