"""The control plane itself fails; each test has one of its own."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from signal import Signals

import pytest

from hack.rig.control_plane import ControlPlane
from tests.chart import helm
from tests.support.faults import control_plane
from tests.support.faults.cluster import CRD, MESSAGES, Cluster, connected
from tests.support.faults.world import World, world


@pytest.fixture
async def own() -> AsyncIterator[tuple[ControlPlane, Cluster, World]]:
    with control_plane.running() as plane:
        async with connected(plane) as cluster:
            await cluster.install()
            plane.start_controllers(*control_plane.CONTROLLERS)
            async with world(cluster) as here:
                yield plane, cluster, here


Own = tuple[ControlPlane, Cluster, World]


async def test_the_api_server_is_restarted(own: Own) -> None:
    plane, _, here = own
    await here.start()
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)

    plane.stop("kube-apiserver")
    await asyncio.sleep(2)
    healthy = await here.operator.probe("/healthz")
    plane.start_api_server()
    await asyncio.to_thread(plane.wait)
    await here.edit("둘")

    await here.converges({"hello": "둘"})
    assert healthy[0] == 200  # a restart of the operator would not bring the server back
    assert len(here.operator.exits) <= 1


async def test_etcd_is_restarted(own: Own) -> None:
    plane, _, here = own
    await here.start()
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)

    plane.stop("etcd")
    await asyncio.sleep(2)
    plane.start_etcd()
    await _edited(here, "둘")

    await here.converges({"hello": "둘"})
    assert len(here.operator.exits) <= 1


async def test_etcd_is_restored_from_a_backup(own: Own) -> None:
    """Versions go backwards: the operator must not be deaf until they have caught up."""
    plane, _, here = own
    await here.start("--sweep-period=2")
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)
    backup = plane.data.with_name("backup")
    plane.stop("etcd", Signals.SIGTERM)
    shutil.copytree(plane.data, backup)
    plane.start_etcd()
    await _edited(here, "둘")
    await here.create("둘", "later")
    await here.converges({"hello": "둘", "later": "둘"}, quiet=0.1)
    for number in range(20):
        await here.edit(f"{number}", "later")

    for part in ("kube-controller-manager", "kube-apiserver", "etcd"):
        plane.stop(part)
    shutil.rmtree(plane.data)
    backup.rename(plane.data)
    plane.start_etcd()
    plane.start_api_server()
    await asyncio.to_thread(plane.wait)
    plane.start_controllers(*control_plane.CONTROLLERS)

    await here.converges({"hello": "하나"}, patience=180)
    await here.edit("셋")
    await here.converges({"hello": "셋"})


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


@pytest.mark.parametrize("everywhere", [True, False])
async def test_the_kind_comes_after_the_operator(own: Own, everywhere: bool) -> None:
    _, cluster, here = own
    await _without_the_kind(cluster)
    operator = await here.launch(everywhere=everywhere)
    async with here.within(60, "its Pods are watched"):
        while not any(call.watch and call.plural == "pods" for call in here.proxy.calls):
            await asyncio.sleep(0.05)
    status, said = await operator.probe("/readyz")

    await cluster.install()
    await here.create("하나")

    await here.converges({"hello": "하나"})
    assert (status, "install its CRD" in said) == (503, True)
    assert operator.exits == []
    assert "Traceback" not in operator.log.read_text()


async def _without_the_kind(cluster: Cluster) -> None:
    await cluster.remove(CRD)
    async with asyncio.timeout(60):
        while await cluster.find(CRD) or await cluster.find(f"{MESSAGES}/messages"):
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("everywhere", [True, False])
async def test_the_kind_is_deleted_and_made_again(own: Own, everywhere: bool) -> None:
    _, cluster, here = own
    await here.start(everywhere=everywhere)
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)

    here.frozen.add(here.operator)
    await cluster.remove(CRD)
    async with here.within(180, "the Pods are collected"):
        while await cluster.find(CRD) or await cluster.items(here.collection("pods")):
            await asyncio.sleep(0.2)
    await asyncio.sleep(5)
    await cluster.put(helm.find(helm.render(), "CustomResourceDefinition", "messages.myorg.dev"))
    await cluster.established()
    await here.create("둘")
    here.frozen.clear()

    await here.converges({"hello": "둘"}, patience=180)
