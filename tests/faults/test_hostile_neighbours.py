"""Controllers and people who touch the same Pods; findings M1, M2, L10."""

import asyncio

import pytest

from kopf_kit.testing.calls import Call, delay
from kopf_kit.testing.kubelet import Trouble
from kopf_kit.testing.proxy import Proxy
from kopf_kit.testing.world import World
from tests.faults.messages import alter, foreign_pod

MIRROR = "mirror.example.com/busybox:1.37"


async def uid_of_pod(here: World, name: str = "hello") -> str:
    pod = await here.cluster.ask("GET", here.child(name))
    return str(pod["metadata"]["uid"])


async def test_m1_what_somebody_edits_is_healed(here: World) -> None:
    await here.start()
    await here.create("하나")
    await here.wait_until_ready()
    before = await uid_of_pod(here)

    await alter(here.cluster, here.child())

    await here.converges({"hello": "하나"})
    assert await uid_of_pod(here) != before


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


async def test_m2_a_controller_that_fights_over_a_pod_does_not_make_it_spin(here: World) -> None:
    await here.start()
    await here.create("하나")
    await here.wait_until_ready()

    async def fight() -> None:
        while True:
            found = await here.cluster.find(here.child())
            if found and found["spec"]["containers"][0]["image"] != MIRROR:
                found["spec"]["containers"][0]["image"] = MIRROR
                await here.cluster.attempt("PUT", f"{here.child()}?fieldManager=other", found)
            await asyncio.sleep(0.05)

    fighting = asyncio.create_task(fight())
    try:
        await here.until_reason("BackOff")
        assert here.children_made() <= 8
    finally:
        fighting.cancel()
    await here.converges({"hello": "하나"})


async def test_a_pod_altered_while_no_operator_ran_is_healed_though_messages_come_late(
    here: World,
) -> None:
    operator = await here.start()
    await here.create("하나")
    await here.wait_until_ready()
    here.frozen.add(operator)
    await operator.stop()
    await alter(here.cluster, here.child())

    def lists_late(proxy: Proxy) -> None:
        def messages(call: Call) -> bool:
            return call.lists and call.plural == "messages"

        proxy.arm(messages, delay(2))

    await here.start(harm=lists_late)

    await here.converges({"hello": "하나"})


@pytest.mark.long
async def test_an_edit_does_not_wait_for_a_count_that_a_hand_wrote_into_the_pod(
    here: World,
) -> None:
    await here.start()
    await here.create("하나")
    await here.wait_until_ready()
    written = {"metadata": {"annotations": {"myorg.dev/replacements": "99"}}}
    await here.cluster.ask("PATCH", here.child(), written, "application/merge-patch+json")
    await alter(here.cluster, here.child())
    await here.until_reason("BackOff")

    await here.edit("둘")

    await here.wait_until_right("hello", "둘")


async def test_l10_a_pod_that_another_living_message_controls_is_a_conflict(here: World) -> None:
    await here.start()
    other = await here.create("하나", "other")
    await here.wait_until_ready("other")
    owner = {
        "apiVersion": "myorg.dev/v1",
        "kind": "Message",
        "name": "other",
        "uid": other["metadata"]["uid"],
        "controller": True,
    }
    await here.cluster.ask("POST", here.children, foreign_pod("hello", owner))

    await here.create("둘")

    assert (await here.until_reason("Conflict"))["status"] == "False"
    await here.cluster.remove(here.child(), grace=0)
    await here.converges({"hello": "둘", "other": "하나"})


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


@pytest.mark.parametrize("label", ["myorg.dev/message-uid", "app.kubernetes.io/managed-by"])
async def test_a_pod_that_somebody_took_a_label_from_is_replaced(here: World, label: str) -> None:
    """No watch tells of such a Pod any more, not even when it is gone."""
    await here.start()
    await here.create("하나")
    await here.wait_until_ready()
    before = await uid_of_pod(here)

    await here.cluster.patch(
        f"{here.child()}?fieldManager=somebody", {"metadata": {"labels": {label: None}}}
    )

    await here.converges({"hello": "하나"})
    assert await uid_of_pod(here) != before
