"""The control plane itself fails; each test has one of its own."""

import asyncio
import json
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from signal import Signals

import pytest

from kopf_kit.rig import tools, versions
from kopf_kit.rig.control_plane import ControlPlane
from kopf_kit.testing.api_server import CONTROLLERS
from kopf_kit.testing.under_test import prepare
from kopf_kit.testing.world import World


async def test_the_api_server_is_restarted(own_world: World) -> None:
    here, plane = own_world, own_world.cluster.plane
    await here.start()
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)

    plane.stop("kube-apiserver")
    asked = len(here.proxy.calls)
    async with here.within(60, "it asks a server that is away"):
        while len(here.proxy.calls) < asked + 3:
            await asyncio.sleep(0.05)
    healthy = await here.operator.probe("/healthz")
    plane.start_api_server()
    await asyncio.to_thread(plane.wait)
    await here.edit("둘")

    await here.converges({"hello": "둘"})
    assert healthy[0] == 200  # a restart of the operator would not bring the server back
    assert len(here.operator.exits) <= 1


@pytest.mark.long
@pytest.mark.parametrize("how", ["plainly", "with raised revisions", "and overtaken"])
async def test_c1_t3_etcd_is_restored_from_a_backup(own_world: World, how: str) -> None:
    """Versions go back, or mean something else: what the operator knows is of another history."""
    here, plane = own_world, own_world.cluster.plane
    await here.start("--resync-period=2")
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)
    kept = await uids(here)
    backup = plane.data.with_name("backup")
    plane.stop("etcd", Signals.SIGTERM)
    shutil.copytree(plane.data, backup)
    plane.start_etcd()
    await _edited(here, "둘")
    await here.create("둘", "later")
    await here.converges({"hello": "둘", "later": "둘"}, quiet=0.1)
    assert len(here.operator.exits) <= 1
    for number in range(20):
        await here.edit(f"{number}", "later")

    for part in ("kube-controller-manager", "kube-apiserver", "etcd"):
        plane.stop(part)
    shutil.rmtree(plane.data)
    if how == "with raised revisions":
        await asyncio.to_thread(restore_by_the_book, plane, backup)
    else:
        backup.rename(plane.data)
    plane.start_etcd()
    if how == "and overtaken":
        await asyncio.to_thread(overtake, plane)
    plane.start_api_server()
    await asyncio.to_thread(plane.wait)
    plane.start_controllers(*CONTROLLERS)

    await here.converges({"hello": "하나"}, patience=180)
    await here.cluster.remove(here.child(), grace=0)  # it is missed only by who knows its object
    await here.converges({"hello": "하나"})
    await here.edit("셋")
    await here.converges({"hello": "셋"})
    assert await uids(here) == kept


def restore_by_the_book(plane: ControlPlane, backup: Path) -> None:
    """Restore a backup as Kubernetes and etcd advise for a cluster whose clients go on."""
    [etcdutl] = tools.etcd(versions.NEWEST_ETCD, "etcdutl")
    flags = ("--bump-revision=1000000000", "--mark-compacted", "--skip-hash-check")
    command = [str(etcdutl), "snapshot", "restore", str(backup / "member/snap/db"), *flags]
    peer = f"http://127.0.0.1:{plane._peer}"
    member = f"--initial-cluster=default={peer}", f"--initial-advertise-peer-urls={peer}"
    command += [f"--data-dir={plane.data}", *member]
    subprocess.run(command, check=True, capture_output=True)


def overtake(plane: ControlPlane) -> None:
    """Write to etcd until its revision is past all that was there before the restore."""
    for number in range(400):
        body = json.dumps({"key": "L2tleQ==", "value": f"{number:04}"}).encode()
        for _ in range(100):
            try:
                urllib.request.urlopen(f"{plane.etcd}/v3/kv/put", body, timeout=5).close()  # noqa: S310
            except OSError:
                time.sleep(0.1)  # it has just been started
            else:
                break


async def uids(here: World) -> set[str]:
    return {
        child["metadata"]["uid"]
        for kind in here.parent.owned
        for child in await here.cluster.items(kind.path(here.namespace))
    }


async def _edited(here: World, text: str) -> None:
    """Edit as soon as the API server lets us."""
    async with here.within(60, "edited"):
        while True:
            try:
                await here.edit(text)
            except Exception:
                await asyncio.sleep(0.2)
            else:
                return


@pytest.mark.parametrize("everywhere", [True, pytest.param(False, marks=pytest.mark.long)])
async def test_a_kind_comes_later(world_without_the_kind: World, everywhere: bool) -> None:
    here, cluster = world_without_the_kind, world_without_the_kind.cluster
    operator = await here.launch(everywhere=everywhere)
    async with here.within(60, "its children are watched"):
        while not any(call.watch and call.plural == "secrets" for call in here.proxy.calls):
            await asyncio.sleep(0.05)
    status, said = await operator.probe("/readyz")

    await prepare(cluster, here.subject)
    await here.create("하나")

    await here.converges({"hello": "하나"})
    assert (status, "install its CRD" in said) == (503, True)
    assert operator.exits == []
    assert "Traceback" not in operator.log.read_text()


@pytest.mark.parametrize("everywhere", [pytest.param(True, marks=pytest.mark.long), False])
async def test_the_kind_is_deleted_and_made_again(own_world: World, everywhere: bool) -> None:
    here, cluster = own_world, own_world.cluster
    await here.start(everywhere=everywhere)
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)

    here.frozen.add(here.operator)
    await cluster.remove(here.subject.crd)
    # The API server ends a kind that is young on its own time.
    async with here.within(300, "the children are collected"):
        while await cluster.find(here.subject.crd) or await cluster.items(here.children):
            await asyncio.sleep(0.2)
    async with here.within(60, "it finds that the kind is gone"):
        while (await here.operator.probe("/readyz"))[0] == 200:
            await asyncio.sleep(0.05)
    await prepare(cluster, here.subject)
    await here.create("둘")
    here.frozen.clear()

    await here.converges({"hello": "둘"}, patience=180)
