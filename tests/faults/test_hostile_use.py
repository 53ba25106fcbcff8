"""What people, pipelines and broken machines do to a cluster; findings L10 and minor 6."""

import asyncio
import time
from pathlib import Path

import pytest

from faults.worlds import scraped
from kopf_kit.testing import calls
from kopf_kit.testing.api_server import CONTROLLERS
from kopf_kit.testing.kubelet import Kubelet
from kopf_kit.testing.process import free_port
from kopf_kit.testing.world import ELECT, World
from kopf_runtime.declaring.kinds import POD, Kind

_ALL = "/api/v1/namespaces"


@pytest.mark.parametrize("edits", [200, pytest.param(10_000, marks=pytest.mark.long)])
async def test_a_storm_of_edits_to_one_message_makes_few_pods(here: World, edits: int) -> None:
    await here.start()
    await here.create("0")
    await here.wait_until_ready()
    before, began = here.children_made(), time.monotonic()

    for number in range(edits):
        await here.edit(f"{number}")

    await here.converges({"hello": f"{edits - 1}"})
    # The first few are replaced at once, later ones every eight seconds at most.
    assert here.children_made() - before <= 15 + (time.monotonic() - began) / 8


async def test_who_fights_over_the_status_is_not_outwritten(here: World) -> None:
    await here.start()
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)
    before, wrong = len(here.relevant()), {"status": here.parent.wrong_status}

    for _ in range(30):
        await here.cluster.patch(f"{here.object()}/status", wrong)

    await here.converges({"hello": "하나"})
    assert len(here.relevant()) - before <= 30


@pytest.mark.long
@pytest.mark.parametrize("count", [16, 100])
async def test_namespaces_that_come_and_go_leave_nothing(own_world: World, count: int) -> None:
    """Half of them are deleted at once, and half once their Messages have Pods."""
    here, port, names = own_world, free_port(), list[str]()
    plane = here.cluster.plane
    plane.stop("kube-controller-manager")  # by default it ends ten namespaces at a time
    plane.start_controllers(*CONTROLLERS, flags=("--concurrent-namespace-syncs=100",))
    flags = "--resync-period=1", f"--metrics-bind-address=127.0.0.1:{port}"
    await here.start(*flags, everywhere=True)
    await here.create("하나")
    async with Kubelet(here.cluster, None).running():
        for turn in range(4):
            some = [await here.cluster.new_namespace() for _ in range(count // 4)]
            names += some
            for name in some:
                await here.create_in(name, "둘", "short-lived")
            if turn % 2:
                async with here.within(60, "their Messages have Pods"):
                    while not {*some} <= await _namespaces_of(here, POD):
                        await asyncio.sleep(0.05)
            for name in some:
                await here.cluster.ask("DELETE", f"/api/v1/namespaces/{name}")
        await here.edit("셋")
        async with here.within(120, "all of them are gone"):
            while {raw["metadata"]["name"] for raw in await here.cluster.items(_ALL)} & {*names}:
                await asyncio.sleep(0.2)

    await here.converges({"hello": "셋"}, quiet=0.1)
    # Nothing is left, neither in the cluster nor in what the operator remembers.
    for kind in (here.subject.kind, POD):
        assert await _namespaces_of(here, kind) == {here.namespace}
    await _resyncs(here, 2)
    asked, before = len(here.proxy.calls), await scraped(port)
    await _resyncs(here, 2)
    after, late = await scraped(port), here.proxy.calls[asked:]
    assert [call.path for call in late if call.writes or {*call.path.split("/")} & {*names}] == []
    phases = {"Pending": 0, "Processed": 1, "Failed": 0}
    assert _of(after, "message_operator_messages") == {
        f'{{phase="{phase}"}}': n for phase, n in phases.items()
    }
    assert _of(after, "workqueue_depth") == {'{name="messages"}': 0}
    assert set(_of(after, "message_operator_unserved").values()) == {0}
    assert [series for series in after if any(name in series for name in names)] == []
    # Whatever failed or waited is forgotten: only resyncs have an object reconciled, successfully.
    results = [_of(samples, "controller_runtime_reconcile_total") for samples in (before, after)]
    more = {key for key, count in results[1].items() if count != results[0].get(key)}
    assert more == {'{controller="messages",result="success"}'}
    assert here.operator.exits == []
    assert not [write for write in here.relevant() if write.status == 0]


async def _namespaces_of(here: World, kind: Kind) -> set[str]:
    """Return the namespaces that have objects of a kind."""
    return {raw["metadata"]["namespace"] for raw in await here.cluster.items(kind.path())}


async def _resyncs(here: World, count: int) -> None:
    """Wait until the operator has begun that many more resyncs of each kind."""
    plurals = here.subject.kind.plural, POD.plural
    until = {plural: here.lists(plural) + count for plural in plurals}
    async with here.within(60, "it resyncs"):
        while any(here.lists(plural) < lists for plural, lists in until.items()):
            await asyncio.sleep(0.05)


def _of(metrics: dict[str, float], name: str) -> dict[str, float]:
    """Return the values of a metric of the operator, by their labels."""
    prefix = f"{name}{{"
    found = {f"{{{k.removeprefix(prefix)}": v for k, v in metrics.items() if k.startswith(prefix)}
    assert found, f"there is no {name}"
    return found


async def test_a_log_that_cannot_be_written_stops_nothing(here: World) -> None:
    await here.start(log_to=Path("/dev/full"))
    await here.create("하나")
    await here.converges({"hello": "하나"})
    assert here.operator.exits == []


async def test_minor_6_a_leader_that_ends_while_it_renews_releases_the_lease(
    here: World,
) -> None:
    first = await here.start(*ELECT)
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)
    granted = asyncio.Event()

    async def grant_unheard(_: calls.Call, forward: calls.Forward) -> calls.Answer:
        """Have the server grant the renewal, and the leader end before it hears of it."""
        answer = await forward()
        granted.set()
        await asyncio.sleep(1)
        return answer

    here.proxy.arm(lambda call: call.lease and call.method == "PUT", grant_unheard)
    async with here.within(60, "the renewal is granted"):
        await granted.wait()
    here.frozen.add(first)
    await first.stop()

    lease = await here.cluster.ask(
        "GET",
        f"/apis/coordination.k8s.io/v1/namespaces/{here.namespace}/leases/demo-message-operator",
    )
    assert lease["spec"]["holderIdentity"] == ""


async def uid_of_pod(here: World, name: str = "hello") -> str:
    pod = await here.cluster.ask("GET", here.child(name))
    return str(pod["metadata"]["uid"])


@pytest.mark.long
async def test_l10_a_resize_is_healed_and_added_tolerations_are_left(here: World) -> None:
    await here.start()
    await here.create("하나")
    await here.wait_until_ready()
    before = await uid_of_pod(here)

    pod = await here.cluster.ask("GET", here.child())
    pod["spec"]["tolerations"] = [
        *pod["spec"].get("tolerations", []),
        {"key": "mine", "operator": "Exists"},
    ]
    await here.cluster.ask("PUT", f"{here.child()}?fieldManager=somebody", pod)
    await here.quiet()
    assert await uid_of_pod(here) == before

    bigger = {"resources": {"limits": {"cpu": "200m"}}}
    await here.cluster.ask(
        "PATCH",
        f"{here.child()}/resize?fieldManager=somebody",
        {"spec": {"containers": [{"name": "message", **bigger}]}},
        "application/strategic-merge-patch+json",
    )
    await here.converges({"hello": "하나"})
    assert await uid_of_pod(here) != before


async def test_l10_a_replica_set_that_adopts_a_stripped_pod_keeps_it(here: World) -> None:
    operator = await here.start()
    await here.create("하나")
    await here.wait_until_ready()
    here.frozen.add(operator)
    await operator.stop()
    labels = {"matchLabels": {"app.kubernetes.io/name": "message"}}
    template = {
        "metadata": {"labels": labels["matchLabels"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    thief = await here.cluster.ask(
        "POST",
        f"/apis/apps/v1/namespaces/{here.namespace}/replicasets",
        {"metadata": {"name": "thief"}, "spec": {"selector": labels, "template": template}},
    )
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "thief",
        "uid": thief["metadata"]["uid"],
        "controller": True,
    }
    await here.cluster.patch(here.child(), {"metadata": {"ownerReferences": [owner]}})
    before = len(here.child_writes("DELETE"))
    await here.start()

    await here.until_reason("Conflict")

    assert len(here.child_writes("DELETE")) == before


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
