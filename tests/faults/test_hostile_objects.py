"""Objects that a tenant may write and that no operator expects; findings R1 and L5."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterator

import pytest

from kopf_kit.rig.control_plane import ControlPlane
from kopf_kit.testing.requests import Raw, RefusedError, connected
from kopf_kit.testing.under_test import Subject, prepare
from kopf_kit.testing.world import World, world
from tests.faults.messages import STRICT
from tests.faults.subjects import MESSAGE
from tests.support import control_plane


@pytest.fixture(scope="module")
def own_plane() -> Iterator[ControlPlane]:
    """Provide a control plane on which the tests here change the kind."""

    async def have_the_kind(plane: ControlPlane) -> None:
        async with connected(plane) as cluster:
            await prepare(cluster, MESSAGE)

    with control_plane.running() as plane:
        asyncio.run(have_the_kind(plane))
        plane.start_controllers(*control_plane.CONTROLLERS)
        yield plane


@pytest.fixture
async def own_world(own_plane: ControlPlane, subject: Subject) -> AsyncIterator[World]:
    """Provide a namespace there; the kind is restored after the test."""
    async with connected(own_plane) as cluster:
        versions = (await cluster.ask("GET", subject.crd))["spec"]["versions"]
        try:
            async with world(cluster, subject) as here:
                yield here
        finally:
            await cluster.patch(subject.crd, {"spec": {"versions": versions}})


def poisoned(name: str, annotations: dict[str, str]) -> Raw:
    """Return a Pod that looks like one of ours, made by somebody else."""
    return {
        "metadata": {
            "name": name,
            "annotations": annotations,
            "labels": {
                "app.kubernetes.io/managed-by": "message-operator",
                "myorg.dev/message-uid": "0e5f7a52-0000-4000-8000-000000000000",
            },
        },
        "spec": {"containers": [{"name": "c", "image": "i", "securityContext": STRICT}]},
    }


async def test_r1_names_that_an_older_crd_let_into_a_status_are_overwritten(
    own_world: World,
) -> None:
    here = own_world
    await here.create("하나")
    crd = await here.cluster.ask("GET", here.subject.crd)
    strict = json.loads(json.dumps(crd["spec"]["versions"]))
    status = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    for name in ("podName", "nodeName"):
        del status["properties"][name]["pattern"]
    await here.cluster.patch(here.subject.crd, {"spec": {"versions": crd["spec"]["versions"]}})
    wrong = {"status": {"podName": "--server=x", "nodeName": "-A", "phase": "Pending"}}
    async with here.within(60, "the older CRD is served"):
        while True:
            try:
                await here.cluster.patch(f"{here.object()}/status", wrong)
                break
            except RefusedError:
                await asyncio.sleep(0.2)
    await here.cluster.patch(here.subject.crd, {"spec": {"versions": strict}})
    async with here.within(60, "the CRD of this version is served"):
        for number in itertools.count():  # what a patch leaves as it is, is never refused
            try:
                other = {"status": {"podName": f"--other-{number}"}}
                await here.cluster.patch(f"{here.object()}/status", other)
                await asyncio.sleep(0.2)
            except RefusedError:
                break

    await here.start()

    await here.converges({"hello": "하나"})


async def test_l5_a_long_text_does_not_widen_the_table(here: World) -> None:
    await here.start()
    await here.create("길" * 10000)
    await here.wait_until_ready()

    table = await here.cluster.ask(
        "GET",
        here.objects,
        accept="application/json;as=Table;v=v1;g=meta.k8s.io",
    )

    cells = [str(cell) for row in table["rows"] for cell in row["cells"]]
    assert any(cell.startswith("길길") for cell in cells)
    assert max(map(len, cells)) <= 64


@pytest.mark.long
async def test_neighbours_of_the_largest_size_cost_no_memory(here: World) -> None:
    """Pods that look like ours, and Messages, with all the annotations that are allowed."""
    await here.start("--resync-period=1")
    await here.create("하나", "well")
    await here.wait_until_right("well", "하나")
    before = here.operator.memory()
    notes = {f"example.com/{number}": "x" * 25_000 for number in range(10)}
    for number in range(20):
        await here.cluster.ask("POST", here.children, poisoned(f"large-{number}", notes))
    large = here.subject.manifest("둘", "large")
    large["metadata"]["annotations"] = notes
    await here.cluster.ask("POST", here.objects, large)
    await here.wait_until_right("large", "둘")
    seen = here.lists("pods")
    async with here.within(120, "two more resyncs"):
        while here.lists("pods") < seen + 2:
            await asyncio.sleep(0.1)

    assert here.operator.memory() - before < 16 * 2**20  # they are 5 MB, in each list again
    assert here.operator.exits == []


async def test_a_message_that_its_own_pod_owns_is_served_until_it_is_collected(
    here: World,
) -> None:
    """A circle of owners: the garbage collector ends it once the Pod is replaced."""
    await here.start()
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)
    pod = await here.cluster.ask("GET", here.child())
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod["metadata"]["name"],
        "uid": pod["metadata"]["uid"],
    }
    await here.cluster.patch(here.object(), {"metadata": {"ownerReferences": [owner]}})
    await here.edit("둘")
    await here.create("하나", "other")

    async with here.within(120, "the garbage collector takes it"):
        while await here.cluster.find(here.object()):
            await asyncio.sleep(0.1)
    await here.converges({"other": "하나"})
    assert here.operator.exits == []
