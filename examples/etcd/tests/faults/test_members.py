"""What becomes of an EtcdCluster when its members, their data or their nodes are lost."""

import asyncio
import shutil
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from kopf_kit.testing.world import World

from tests.faults.conftest import Cluster
from tests.faults.test_operator import SUBJECTS, VERSION, kill_after_each_write

__all__ = ["SUBJECTS"]
pytestmark = pytest.mark.long

#: A version whose image is not there.
BAD = f"{VERSION.rpartition('.')[0]}.99"
Harm = Callable[[Cluster, list[str]], Awaitable[None]]


async def _folder(cluster: Cluster, member: str) -> Path:
    return cluster.nodes.data(await cluster.claim(member)) / "data"


async def pod_gone(cluster: Cluster, members: list[str]) -> None:
    await cluster.here.cluster.remove(cluster.nodes.path("pods", members[0]))


async def all_killed(cluster: Cluster, members: list[str]) -> None:
    for member in members:
        cluster.container(member).send(signal.SIGKILL)


async def volume_gone(cluster: Cluster, members: list[str]) -> None:
    name = (await cluster.claim(members[0]))["metadata"]["name"]
    await cluster.here.cluster.remove(cluster.nodes.path("persistentvolumeclaims", name))
    await pod_gone(cluster, members)


async def disk_emptied(cluster: Cluster, members: list[str]) -> None:
    folder = await _folder(cluster, members[0])
    cluster.container(members[0]).kill()
    shutil.rmtree(folder)


async def newest_disk_emptied(cluster: Cluster, members: list[str]) -> None:
    """Its Pod is still the one that has joined, and starts again: it may not join once more."""
    await disk_emptied(cluster, members[::-1])


async def disk_corrupted(cluster: Cluster, members: list[str]) -> None:
    folder = await _folder(cluster, members[0])
    cluster.container(members[0]).kill()
    for file in folder.glob("member/*/*"):
        if file.is_file():
            file.write_bytes(b"?" * 4096)


async def node_lost(cluster: Cluster, members: list[str]) -> None:
    container = cluster.container(members[0])
    container.lost = True
    container.send(signal.SIGSTOP)
    await pod_gone(cluster, members)  # as Kubernetes does after `nodeLostAfter`


@pytest.mark.parametrize("each", [0, 1])
@pytest.mark.parametrize(
    ("harm", "stays"),
    [
        (pod_gone, True),
        (all_killed, True),
        (volume_gone, False),
        (disk_emptied, False),
        (newest_disk_emptied, False),
        (disk_corrupted, False),
        (node_lost, False),
    ],
)
async def test_it_is_whole_again_and_nothing_acknowledged_is_lost(
    here: World, cluster: Cluster, harm: Harm, stays: bool, each: int
) -> None:
    await here.start()
    await cluster.create(3)
    before = await cluster.settles(3)
    names = [member["name"] for member in before["members"]]
    if each:
        kill_after_each_write(here, cluster, each)

    await harm(cluster, names)
    async with here.within(30, "it takes effect"):
        while len(cluster.ready()) == 3:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    after = await cluster.settles(3, patience=600)

    assert after["clusterId"] == before["clusterId"]
    assert ([member["name"] for member in after["members"]] == names) == stays
    await cluster.check()


async def test_without_a_quorum_nothing_is_deleted_and_the_status_says_so(
    here: World, cluster: Cluster
) -> None:
    await here.start()
    await cluster.create(3)
    before, writes = await cluster.settles(3), len(here.writes)
    for member in before["members"][:2]:
        await disk_emptied(cluster, [member["name"]])

    condition = await cluster.until("Available", "False", "QuorumLost", patience=60)
    await here.quiet(10)

    silent = "Voters that answer: 1 of 3. No answer comes from c-1 and c-2."
    assert condition["message"] == silent
    assert [write for write in here.writes[writes:] if write.method == "DELETE"] == []
    assert (await cluster.status())["members"] == before["members"]


async def test_f7_a_bad_version_is_told_stops_after_one_member_and_is_taken_back(
    here: World, cluster: Cluster
) -> None:
    await here.start()
    await cluster.create(3)
    await cluster.settles(3)

    await cluster.edit(version=BAD)
    told = await cluster.until("Ready", "False", "ErrImagePull")
    assert ": ErrImagePull: the image is not there." in told["message"]
    await here.quiet(10)
    assert len(cluster.ready()) == 2
    await cluster.edit(version=VERSION)

    status = await cluster.settles(3)
    assert {member["version"] for member in status["members"]} == {VERSION}
    await cluster.check()


async def test_f7_the_last_line_of_a_member_that_crashes_is_told(
    here: World, cluster: Cluster
) -> None:
    cluster.nodes.flags = ["--data-dir=/proc/none"]
    await here.start()
    await cluster.create(1)

    told = await cluster.until("Ready", "False", "CrashLoopBackOff")
    assert "c-1 starts. c-1: CrashLoopBackOff: it ended with exit code" in told["message"]
    assert "/proc/none: no such file or directory" in told["message"]
    cluster.nodes.flags = []
    await pod_gone(cluster, ["c-1"])
    await cluster.settles(1)
