"""Controllers and people who touch the same Pods; findings M1, M2, L10."""

import pytest

from kopf_kit.testing.kubelet import Trouble
from kopf_kit.testing.world import World


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


async def test_m2_pods_that_are_rejected_at_once_come_back_slower_and_slower(here: World) -> None:
    here.kubelet.arm(Trouble.REJECTS)
    await here.start()
    await here.create("하나")
    await here.until_reason("BackOff")
    made = here.children_made()

    await here.restart()  # the count is kept in the Pod
    await here.until_reason("BackOff")

    assert 5 <= made <= 8
    assert here.children_made() - made <= 2
    here.kubelet.disarm()
    await here.converges({"hello": "하나"})


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
