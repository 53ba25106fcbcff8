"""Two installations of one operator over the same objects, with settings that differ (J6)."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import kopf_runtime as kr
from faults.stores import Spec
from faults.worlds import client_of
from kopf_kit.testing.requests import Cluster, Raw
from kopf_runtime.cluster.client import Client
from kopf_runtime.declaring.kinds import CONFIG_MAP, POD
from kopf_runtime.working import others
from runtime.support.running import NAME, Operator, operating

pytestmark = pytest.mark.api

STORES = kr.Kind("example.dev", "v1", "stores", "Store")


def controller(image: str, *, extra: int = 0) -> kr.Controller:
    """A controller that makes a Pod of this image, and some ConfigMaps, for each Store."""

    @kr.custom_resource("example.dev", "v1", "stores")
    class Store(kr.Resource):
        """A Store."""

        spec: Spec = Spec()

    one = kr.Manager(NAME, kr.Settings).controller_for(Store)
    one.owns(POD, unready=lambda _: "")
    one.owns(CONFIG_MAP)

    @one.desired
    def desired(store: Store, _: kr.Context[Any]) -> Iterable[Raw]:
        meta = {"name": f"of-{store.metadata.name}", "annotations": {"text": store.spec.text}}
        spec = {"containers": [{"name": "main", "image": image}]}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        for number in range(extra):
            meta = {**meta, "name": f"of-{store.metadata.name}-{number}"}
            yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a": image}}

    return one


class Here:
    """A Store, and what is to be seen of it."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.store, self.pod = (kind.path(namespace, name) for kind, name in _NAMES)

    async def make(self) -> None:
        body = {"apiVersion": STORES.api_version, "kind": "Store", "metadata": {"name": "one"}}
        made = await self.cluster.ask("POST", STORES.path(self.namespace), body)
        self.uid = made["metadata"]["uid"]

    async def image(self) -> str:
        pod = await self.cluster.find(self.pod)
        return pod["spec"]["containers"][0]["image"] if pod else ""

    async def uids(self, seconds: float) -> set[str]:
        """Return the uids of the Pods that there are within these seconds."""
        seen, loop = set[str](), asyncio.get_running_loop()
        end = loop.time() + seconds
        while loop.time() < end:
            pod = await self.cluster.find(self.pod)
            seen |= {pod["metadata"]["uid"]} if pod else set()
            await asyncio.sleep(0.05)
        return seen

    async def of(self, path: str, image: str) -> bool:
        """Return whether a ConfigMap has this image."""
        found: str = (await self.cluster.ask("GET", path))["data"]["a"]
        return found == image

    async def lacks(self, path: str) -> bool:
        return await self.cluster.find(path) is None

    async def edit(self, text: str) -> None:
        await self.cluster.patch(self.store, {"spec": {"text": text}})

    async def has(self, image: str, text: str) -> bool:
        """Return whether the Pod has this image and text."""
        pod = await self.cluster.find(self.pod) or {"metadata": {}}
        same = (pod["metadata"].get("annotations") or {}).get("text") == text
        return same and pod["spec"]["containers"][0]["image"] == image

    async def has_event(self, words: str) -> bool:
        """Return whether an Event about the Store has these words."""
        path = f"/api/v1/namespaces/{self.namespace}/events"
        events = (await self.cluster.ask("GET", path))["items"]
        about = (e for e in events if e["involvedObject"]["uid"] == self.uid)
        return any(e["reason"] == "AnotherInstallation" and words in e["message"] for e in about)

    async def says(self, condition: str, words: str) -> bool:
        """Return whether a condition of the Store has these words."""
        status = (await self.cluster.ask("GET", self.store)).get("status") or {}
        told = (each["message"] for each in status["conditions"] if each["type"] == condition)
        return any(words in message for message in told)

    @asynccontextmanager
    async def installed(self, name: str, one: kr.Controller) -> AsyncIterator[Operator]:
        """Run an installation whose Lease is in the namespace of this name."""
        settings = kr.Settings(
            namespaces=(self.namespace,), lease_namespace=name, lease_name="message"
        )
        async with (
            client_of(self.cluster, Client) as client,
            operating(client, one, settings=settings) as operator,
        ):
            yield operator


_NAMES = ((STORES, "one"), (POD, "of-one"))


@pytest.fixture
async def here(cluster: Cluster) -> Here:
    return Here(cluster, await cluster.new_namespace("privileged"))


async def eventually(holds: Any, seconds: float = 60.0) -> Any:
    async with asyncio.timeout(seconds):
        while not (value := await holds()):
            await asyncio.sleep(0.1)
    return value


async def test_j6_one_of_two_installations_steps_back_and_both_say_so(
    here: Here, caplog: pytest.LogCaptureFixture
) -> None:
    await here.make()
    async with here.installed("blue", controller("blue:1")) as blue:
        await eventually(here.image)
        async with here.installed("green", controller("green:1")) as green:
            await eventually(lambda: here.has_event("green/message, leaves this Store to it"))
            await eventually(lambda: here.has_event("blue/message, changes that"))
            await eventually(here.image)
            await asyncio.sleep(1)  # the last status
            before = await here.cluster.ask("GET", here.store)
            assert len(await here.uids(5)) == 1, "the Pod was replaced further on"
            assert await here.image() == "blue:1"
            assert await here.cluster.ask("GET", here.store) == before
            paused = {"metadata": {"annotations": {"example.dev/paused": "true"}}}
            await here.cluster.patch(here.store, paused)
            await eventually(lambda: here.says("Paused", "Nothing is to be done."))
            await asyncio.sleep(2)  # the other one's word
            assert await here.says("Paused", "Nothing is to be done.")
            assert [one.metric("other_installations") for one in (blue, green)] == [1, 1]
    assert "Another installation of this operator, blue/message, is at work" in caplog.text
    assert "Another installation of this operator, green/message, is at work" in caplog.text


async def test_j6_an_object_that_the_other_one_does_not_follow_is_served_again(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(others, "FOLLOWS", 3.0)
    await here.make()
    async with here.installed("green", controller("green:1")):
        async with here.installed("blue", controller("blue:1")):
            await eventually(lambda: here.has_event("leaves this Store to it"))
            await here.edit("first")
            await eventually(lambda: here.has("blue:1", "first"))
            await asyncio.sleep(4)
            assert await here.has("blue:1", "first"), "it was served although the other one follows"
        await here.edit("second")
        await eventually(lambda: here.has("green:1", "second"))


async def test_j6_what_only_one_of_two_installations_wants_stays(here: Here) -> None:
    await here.make()
    path = CONFIG_MAP.path(here.namespace, "of-one-0")
    async with here.installed("green", controller("one:1", extra=1)):
        await eventually(lambda: here.cluster.find(path))
        async with here.installed("blue", controller("one:1")):
            await eventually(lambda: here.has_event("deletes it for the last time"))
            config_map = await eventually(lambda: here.cluster.find(path), 60)
            await asyncio.sleep(5)
            assert await here.cluster.find(path) == config_map


async def test_j6_a_former_installation_is_no_other(here: Here) -> None:
    await here.make()
    last = CONFIG_MAP.path(here.namespace, "of-one-4")
    async with here.installed("blue", controller("blue:1", extra=5)):
        await eventually(lambda: here.cluster.find(last))
    async with here.installed("green", controller("green:1", extra=5)) as green:
        await eventually(lambda: here.has("green:1", ""))
        await eventually(lambda: here.of(last, "green:1"))
        await here.edit("next")
        await eventually(lambda: here.has("green:1", "next"))
        assert not green.metric("other_installations")
    async with here.installed("red", controller("green:1")) as red:
        await eventually(lambda: here.lacks(last))
        assert not red.metric("other_installations")
    assert not await here.has_event("installation")
