"""What is recorded for one EtcdCluster acts for no other one, and no other state of it.

Each test is named after a finding of those who judged the operator.
"""

import asyncio
import contextlib
from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from kopf_kit.testing.requests import RefusedError
from kopf_kit.testing.world import World

from tests.faults.conftest import Cluster
from tests.faults.nodes import NAME
from tests.faults.test_operator import SUBJECTS
from tests.faults.test_restores import GROUP, Hands, cluster, create, create_claim, files, until

__all__ = ["SUBJECTS", "cluster"]


def encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


async def put(cluster: Cluster, key: str, value: str = "v") -> None:
    url = cluster.url_of_any()
    await cluster.clients.ask(f"{url}/v3/kv/put", {"key": encoded(key), "value": encoded(value)})


async def keys(cluster: Cluster) -> list[str]:
    body = {"key": "AA==", "range_end": "AA==", "keys_only": True}
    answer = await cluster.clients.ask(f"{cluster.url_of_any()}/v3/kv/range", body)
    return [pair["key"] for pair in answer.get("kvs", ())]


async def eventually(here: World, what: str, holds: Callable[[], Awaitable[object]]) -> None:
    async with here.within(180, what):
        while not await holds():  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def back_up(here: World, store: Any, name: str = "daily", **keep: Any) -> dict[str, Any]:
    """Take one backup by an EtcdBackup, as each run of a schedule does; return the status."""
    path = f"{GROUP}/namespaces/{here.namespace}/etcdbackups/{name}"

    async def gone() -> bool:
        with contextlib.suppress(RefusedError):
            return not await here.cluster.ask("GET", path)
        return True

    await here.cluster.remove(path)
    await eventually(here, "the former EtcdBackup is gone", gone)
    await create(here, "EtcdBackup", name, cluster=NAME, store=store, keep=keep)
    return await until(here, path, "Complete")


@pytest.mark.long
async def test_f1_f8_nothing_of_a_former_cluster_acts_for_the_next_one(
    here: World, cluster: Cluster
) -> None:
    """Its backups stay, and its restore, which had begun, does not go on."""
    assert isinstance(cluster.nodes, Hands)
    await here.start()
    await cluster.create(1, storage={"whenDeleted": "Delete"})
    first = (await cluster.settles(1))["clusterId"]
    store = await create_claim(here, cluster)
    await put(cluster, "of-the-first")
    for _ in range(2):
        [taken] = (await back_up(here, store, last=1))["backups"]
    cluster.nodes.held = "back-2"
    source = {"backup": {"name": "daily", "entry": taken["name"]}}
    spec: Any = {"cluster": NAME, "confirm": NAME, "source": source}
    restore = await create(here, "EtcdRestore", "back", **spec)
    await until(here, restore, "Restoring")

    async def fills() -> bool:
        listed = await here.cluster.items(cluster.nodes.path("pods"))
        return any(pod["metadata"]["name"].startswith("back-2") for pod in listed)

    await eventually(here, "the Job is there", fills)
    await here.cluster.remove(here.object(NAME))
    await asyncio.sleep(2)
    cluster.nodes.held = "-"
    await until(here, restore, "ReferenceMissing")
    await cluster.create(1)
    await cluster.settles(1)

    assert await keys(cluster) == []
    await until(here, restore, "Refused", f"it was for another EtcdCluster {NAME}")
    for _ in range(3):
        status = await back_up(here, store, last=1)
    assert f"the newest of which is {taken['name']}" in status["conditions"][0]["message"]
    spec["source"] = {"store": {"store": store, "name": taken["name"]}}
    await until(here, await create(here, "EtcdRestore", "again", **spec), "Complete")
    await cluster.settles(1)
    assert await keys(cluster) == [encoded("of-the-first")]

    status = await back_up(here, store, last=1, discard=[first])
    assert "former" not in status["conditions"][0]["message"]
    assert taken["name"] not in await files(here, cluster)


async def test_f2_f13_of_two_restores_at_once_one_is_carried_out_and_what_follows_stays(
    here: World, cluster: Cluster
) -> None:
    await here.start()
    await cluster.create(1)
    await cluster.settles(1)
    store = await create_claim(here, cluster)
    for key in ("a", "b"):
        await put(cluster, key)
        await back_up(here, store, key)

    paths = await asyncio.gather(
        *(
            create(
                here,
                "EtcdRestore",
                name,
                cluster=NAME,
                confirm=NAME,
                source={"backup": {"name": key}},
            )
            for name, key in (("z", "a"), ("y", "b"))
        )
    )
    phases: dict[str, str] = {}

    async def complete() -> bool:
        for path in paths:
            status = (await here.cluster.ask("GET", path)).get("status") or {}
            phases[path] = status.get("phase", "")
        return "Complete" in phases.values() and cluster.ready() != []

    await eventually(here, "one is complete", complete)
    await put(cluster, "later")

    [late] = [path for path, phase in phases.items() if phase != "Complete"]
    await until(here, late, "Refused")
    await cluster.settles(1)
    await here.quiet(5)
    kept = [encoded("a")] if late == paths[1] else [encoded("a"), encoded("b")]
    assert await keys(cluster) == [*kept, encoded("later")]


@pytest.mark.long
async def test_f4_volumes_grow_though_full_disks_cost_the_quorum(
    here: World, cluster: Cluster
) -> None:
    classes = "/apis/storage.k8s.io/v1/storageclasses"
    body = {"metadata": {"name": "grows"}, "provisioner": "none", "allowVolumeExpansion": True}
    await here.cluster.ask("POST", classes, body)
    await here.start()
    try:
        await cluster.create(3, storage={"size": "1Gi", "className": "grows"})
        before = await cluster.settles(3)
        names = [member["name"] for member in before["members"]]
        await have(here, cluster, names, "1Gi")
        pods = set(cluster.nodes.containers)
        await cluster.edit(storage={"size": "2048Mi"})
        await eventually(here, "all claims ask for more", lambda: ask(cluster, names, "2Gi"))
        await have(here, cluster, names, "2Gi")
        await cluster.settles(3)
        assert set(cluster.nodes.containers) == pods
        await put(cluster, "kept")
        for container in cluster.nodes.containers.values():
            container.again = float("inf")  # as one whose disk is full: it does not start again
            container.kill()
        await cluster.until("Available", "False", "Unreachable")

        await cluster.edit(storage={"size": "3Gi"})

        async def told() -> bool:
            text = "The requested size is not there yet for c-1, c-2 and c-3."
            return text in (await cluster.condition("Ready"))["message"]

        await eventually(here, "all claims ask for more", lambda: ask(cluster, names, "3Gi"))
        await eventually(here, "what it waits for is told", told)
        assert (await cluster.status())["members"] == before["members"], "nothing is deleted"

        for container in cluster.nodes.containers.values():
            container.again = 0.0
        after = await cluster.settles(3, patience=180)
        assert [member["name"] for member in after["members"]] == names
        assert await keys(cluster) == [encoded("kept")]
    finally:
        await here.cluster.remove(f"{classes}/grows")


async def test_a_size_that_volumes_cannot_get_hides_nothing_and_is_taken_back(
    here: World, cluster: Cluster
) -> None:
    """The storage class lets none grow; meanwhile a member is lost, and another one takes over."""
    await here.start()
    await cluster.create(3, storage={"size": "1Gi"})
    names = [member["name"] for member in (await cluster.settles(3))["members"]]
    await have(here, cluster, names, "1Gi")

    await cluster.edit(storage={"size": "2Gi"})
    told = await cluster.until("Ready", "False", "VolumesCannotGrow")
    why = "the storageclass that provisions the pvc must support resize. Set spec"
    assert why in told["message"]
    path = cluster.nodes.path("persistentvolumeclaims")
    await here.cluster.remove(f"{path}/{(await cluster.claim(names[0]))['metadata']['name']}")
    await here.cluster.remove(cluster.nodes.path("pods", names[0]))
    async with cluster.within(90, "another member"):
        while "c-4" not in cluster.ready():  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    await have(here, cluster, ["c-4"], "2Gi")
    await cluster.edit(storage={"size": "1Gi"})
    await cluster.settles(3)
    assert "volumes of c-4 do not shrink" in (await cluster.condition("Ready"))["message"]
    await cluster.check()


async def have(here: World, cluster: Cluster, members: list[str], size: str) -> None:
    """Have all volumes be of a size, as a provisioner does."""
    for member in members:
        claim = (await cluster.claim(member))["metadata"]["name"]
        path = f"{cluster.nodes.path('persistentvolumeclaims', claim)}/status"
        status = {"phase": "Bound", "capacity": {"storage": size}}
        await here.cluster.patch(path, {"status": status})


async def ask(cluster: Cluster, members: list[str], size: str) -> bool:
    claims = [await cluster.claim(member) for member in members]
    return {claim["spec"]["resources"]["requests"]["storage"] for claim in claims} == {size}
