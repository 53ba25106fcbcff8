"""What becomes of the data when an EtcdCluster is deleted, and another one gets its name."""

import asyncio

import pytest
from kopf_kit.rig import versions
from kopf_kit.testing.world import World

from tests.faults.conftest import Cluster
from tests.faults.nodes import NAME
from tests.faults.test_operator import SUBJECTS, VERSION, kill_after_each_write

__all__ = ["SUBJECTS"]
pytestmark = pytest.mark.long
OLDER = versions.OLDER_ETCD["3.6"].removeprefix("v")


async def delete(here: World, cluster: Cluster) -> None:
    """Delete the EtcdCluster; wait until its Pods are gone."""
    await here.cluster.remove(here.object(NAME))
    async with here.within(120, "its Pods are gone"):
        while await here.cluster.items(cluster.nodes.path("pods")):  # noqa: ASYNC110
            await asyncio.sleep(0.2)


async def test_what_a_deleted_cluster_leaves_is_neither_taken_nor_deleted_by_the_next_one(
    here: World, cluster: Cluster
) -> None:
    await cluster.clients.stop()
    await here.start()
    await cluster.create(1)
    first = await cluster.settles(1)
    claim = await cluster.claim(f"{NAME}-1")
    path = cluster.nodes.path("persistentvolumeclaims", claim["metadata"]["name"])

    await delete(here, cluster)
    await cluster.create(1)
    condition = await cluster.until("Ready", "False", "Refused")
    assert claim["metadata"]["name"] in condition["message"]
    await here.restart()
    await here.quiet(5)
    assert (await cluster.claim(f"{NAME}-1"))["metadata"] == claim["metadata"]
    assert await here.cluster.items(cluster.nodes.path("pods")) == []

    await here.cluster.remove(path)
    second = await cluster.settles(1)
    assert second["clusterId"] != first["clusterId"]

    await cluster.edit(storage={"whenDeleted": "Delete"})
    async with here.within(60, "the claim goes with its owner"):
        while "ownerReferences" not in (await cluster.claim(f"{NAME}-1"))["metadata"]:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    await delete(here, cluster)
    await cluster.create(1)
    third = await cluster.settles(1)
    assert third["clusterId"] != second["clusterId"]
    claims = await here.cluster.items(cluster.nodes.path("persistentvolumeclaims"))
    assert len(claims) == 1


async def test_a_deleted_cluster_is_adopted_with_all_that_was_acknowledged(
    here: World, cluster: Cluster
) -> None:
    await here.start()
    await cluster.create(3)
    first = await cluster.settles(3)
    claims = await here.cluster.items(cluster.nodes.path("persistentvolumeclaims"))
    uids = {claim["metadata"]["uid"] for claim in claims}
    end = claims[0]["metadata"]["name"].rpartition("-")[2]

    await delete(here, cluster)
    kill_after_each_write(here, cluster, 3)
    await cluster.create(3, version=OLDER, storage={"adopt": end})
    refused = await cluster.until("Ready", "False", "Refused")
    assert f"the data are of etcd {VERSION}" in refused["message"]
    assert await here.cluster.items(cluster.nodes.path("pods")) == []
    await cluster.edit(version=VERSION)
    second = await cluster.settles(3, patience=300)

    assert second["clusterId"] == first["clusterId"]
    ids = [member["id"] for member in first["members"]]
    assert [member["id"] for member in second["members"]] == ids
    claims = await here.cluster.items(cluster.nodes.path("persistentvolumeclaims"))
    assert {claim["metadata"]["uid"] for claim in claims} == uids
    await cluster.check()
