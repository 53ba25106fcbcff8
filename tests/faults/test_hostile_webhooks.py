"""Webhooks of others that change, refuse, delay or hang; findings M1, L1, L2, L3, L4, L6."""

import asyncio
import random

import pytest

from kopf_kit.testing.kubelet import Trouble
from kopf_kit.testing.requests import Raw
from kopf_kit.testing.webhook import admits, registered, webhook
from kopf_kit.testing.world import World
from tests.faults.asking import why

MIRROR = "mirror.example.com/busybox:1.37"


def replace(path: str, value: object) -> Raw:
    return {"op": "replace", "path": path, "value": value}


async def uid_of_pod(here: World, name: str = "hello") -> str:
    pod = await here.cluster.ask("GET", here.child(name))
    return str(pod["metadata"]["uid"])


async def rewrites_the_image(review: Raw) -> list[Raw]:
    return [replace("/spec/containers/0/image", MIRROR)]


async def test_m1_a_rewritten_image_and_a_later_annotation_replace_nothing(here: World) -> None:
    await here.start()
    async with webhook(here.cluster, here.namespace, rewrites_the_image) as hook:
        await here.create("하나")
        await here.wait_until_ready()
        before = await uid_of_pod(here)

        # As a CNI plugin does, and as `kubectl label` does.
        notes = {"metadata": {"annotations": {"cni.example.com/ip": "10.0.0.7"}}}
        await here.cluster.patch(f"{here.child()}?fieldManager=cni", notes)
        await here.cluster.patch(
            f"{here.child()}?fieldManager=kubectl-label", {"metadata": {"labels": {"team": "a"}}}
        )
        await here.restart()
        await here.quiet()

        assert hook.asked
        assert await uid_of_pod(here) == before
        pod = await here.cluster.ask("GET", here.child())
        assert pod["spec"]["containers"][0]["image"] == MIRROR


async def test_l1_a_webhook_on_a_closed_port_is_told_in_the_server_s_words(here: World) -> None:
    await here.start()
    await here.create("하나")
    await here.wait_until_ready()

    async with registered(here.cluster, here.namespace, "https://127.0.0.1:9/"):
        await here.edit("둘")
        told = await here.until_reason("InternalError")
        assert told["status"] == "False"
        assert "failed calling webhook" in told["message"]

        # The generation stays, and the Pod is gone.
        await here.cluster.remove(here.child(), grace=0)
        assert (await here.until_reason("InternalError"))["status"] == "False"

    await here.converges({"hello": "둘"})


async def test_l2_a_webhook_that_hangs_holds_up_no_other_namespace(here: World) -> None:
    slow = await here.another_namespace()
    forever = asyncio.Event()

    async def hangs(_: Raw) -> list[Raw]:
        await forever.wait()
        return []

    async with webhook(here.cluster, slow, hangs) as hook:
        await here.start(f"--namespace={slow}", "--workers=4")
        for number in range(20):
            await here.create_in(slow, "하나", f"slow-{number:02}")
        async with here.within(60, "the webhook holds as many requests as it gets"):
            while len(hook.asked) < 4:
                await asyncio.sleep(0.05)
        for number in range(5):
            await here.create("둘", f"quick-{number}")
            await here.wait_until_right(f"quick-{number}", "둘")
        # Had the others waited for it, some of its requests would have come to their end first.
        assert len(hook.asked) - hook.ended > 0
        assert len(hook.asked) <= 20
        forever.set()
    await here.converges({f"quick-{number}": "둘" for number in range(5)})


async def test_l2_a_webhook_that_takes_longer_than_a_request_may_succeeds_in_the_end(
    here: World,
) -> None:
    async def takes_long(_: Raw) -> list[Raw]:
        await asyncio.sleep(4)
        return []

    async with webhook(here.cluster, here.namespace, takes_long) as hook:
        await here.start("--request-timeout=2")
        await here.create("하나")
        await here.wait_until_right("hello", "하나")

    assert len(hook.asked) >= 2


async def test_a_webhook_that_refuses_at_random_is_outlived(here: World) -> None:
    chance = random.Random(7)  # noqa: S311

    async def moody(_: Raw) -> list[Raw] | str:
        return "not in the mood" if chance.random() < 0.4 else []

    async with webhook(here.cluster, here.namespace, moody) as hook:
        await here.start()
        wanted = {f"m{number}": "하나" for number in range(10)}
        for name, text in wanted.items():
            await here.create(text, name)
        await here.converges(wanted)

    assert len(hook.asked) > 10


async def test_l6_a_webhook_that_takes_our_label_away_is_told_and_the_pod_left(
    here: World,
) -> None:
    async def relabels(_: Raw) -> list[Raw]:
        return [replace("/metadata/labels/app.kubernetes.io~1managed-by", "mesh")]

    async with webhook(here.cluster, here.namespace, relabels) as hook:
        await here.start("--resync-period=1")
        await here.create("하나")
        told = await here.until_reason("AdmissionChanged")
        assert "app.kubernetes.io/managed-by" in told["message"]
        before = await uid_of_pod(here)
        async with here.within(120, "three more resyncs"):
            seen = here.lists("pods")
            while here.lists("pods") < seen + 3:
                await asyncio.sleep(0.1)

        tried = len(here.child_writes("POST"))
        await here.restart()  # it knows nothing of before
        async with here.within(120, "it meets the Pod"):
            while len(here.child_writes("POST")) == tried:
                await asyncio.sleep(0.1)
        await here.quiet()

        assert await uid_of_pod(here) == before
        assert not here.child_writes("DELETE")
        assert len([review for review in hook.asked if not review.get("dryRun")]) <= 8
    await here.cluster.remove(here.child(), grace=0)
    await here.converges({"hello": "하나"})


async def test_l3_the_container_that_admission_added_is_named(here: World) -> None:
    async def injects(_: Raw) -> list[Raw]:
        strict = {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
        sidecar = {"name": "mesh-init", "image": "mesh", "securityContext": strict}
        return [{"op": "add", "path": "/spec/initContainers", "value": [sidecar]}]

    here.kubelet.arm(Trouble.INIT_FAILS)
    async with webhook(here.cluster, here.namespace, injects) as hook:
        await here.start()
        await here.create("하나")
        told = await here.until_reason("CrashLoopBackOff")

    assert hook.asked
    assert "mesh-init" in told["message"]
    said = await why(here)
    assert said.first == "Message hello: a container of its Pod ends again and again."
    assert "mesh-init" in said.part("Details")


@pytest.mark.long
async def test_l4_the_finalizer_that_holds_a_pod_is_named(here: World) -> None:
    async def finalizes(_: Raw) -> list[Raw]:
        return [{"op": "add", "path": "/metadata/finalizers", "value": ["example.com/hold"]}]

    async with webhook(here.cluster, here.namespace, finalizes) as hook:
        await here.start()
        await here.create("하나")
        await here.wait_until_ready()
        await here.edit("둘")
        told = await here.until_reason("PodStuckTerminating")
        assert "example.com/hold" in told["message"]
        assert "Node" not in told["message"]
        said = await why(here)
        assert said.first == "Message hello: a finalizer holds an object that is to be replaced."
        assert "example.com/hold" in said.part("Details")
        korean = await why(here, LANG="ko_KR.UTF-8")
        assert korean.first == ("Message hello: 파이널라이저가 교체할 오브젝트를 붙잡고 있습니다.")
        assert hook.asked
        hook.opinion = admits

        await here.cluster.patch(here.child(), {"metadata": {"finalizers": None}})
        await here.converges({"hello": "둘"})


async def test_a_webhook_that_answers_nonsense_is_told_and_outlived(here: World) -> None:
    async def confused(_: Raw) -> list[Raw]:
        return [{"op": "remove", "path": "/spec/nothing/of/the/kind"}]

    async with webhook(here.cluster, here.namespace, confused) as hook:
        await here.start()
        await here.create("하나")
        told = await here.until_reason("InternalError")
        assert "does not apply" in told["message"]
        hook.opinion = admits

        await here.converges({"hello": "하나"})


async def test_a_webhook_that_disowns_our_pods_does_not_make_it_spin(here: World) -> None:
    async def disowns(_: Raw) -> list[Raw]:
        return [{"op": "remove", "path": "/metadata/ownerReferences"}]

    async with webhook(here.cluster, here.namespace, disowns) as hook:
        await here.start("--resync-period=1")
        await here.create("하나")
        told = await here.until_reason("AdmissionChanged")
        assert "owner reference" in told["message"]
        seen = here.lists("pods")
        async with here.within(120, "three more resyncs"):
            while here.lists("pods") < seen + 3:
                await asyncio.sleep(0.1)

        assert len([review for review in hook.asked if not review.get("dryRun")]) <= 6
    await here.cluster.remove(here.child(), grace=0)
    await here.converges({"hello": "하나"})


async def rewrites_the_text(review: Raw) -> list[Raw]:
    return [replace("/spec/containers/0/env/0/value", "webhook's")]


async def test_a_webhook_that_rewrites_the_text_is_told(here: World) -> None:
    await here.start()
    async with webhook(here.cluster, here.namespace, rewrites_the_text) as hook:
        await here.create("하나")
        told = await here.until_reason("AdmissionChanged")

        assert hook.asked
        assert told["status"] == "False"
        assert "The Pod prints another text" in told["message"]
    await here.cluster.remove(here.child())
    await here.wait_until_right("hello", "하나")


async def gives_it_away(review: Raw) -> list[Raw]:
    return [replace("/metadata/ownerReferences/0/uid", "00000000-0000-0000-0000-000000000000")]


async def test_m2_a_pod_that_admission_gives_away_comes_back_slower_and_slower(
    here: World,
) -> None:
    """Its owner does not exist, so the garbage collector deletes it at once."""
    await here.start()
    async with webhook(here.cluster, here.namespace, gives_it_away) as hook:
        await here.create("하나")
        told = await here.until_reason("BackOff")

        assert "replaced too often" in told["message"]
        assert 1 < len(hook.asked) <= 12
    await here.wait_until_right("hello", "하나")


async def test_a_field_that_the_api_server_does_not_know_is_told_in_its_words(here: World) -> None:
    await here.start("--message-pod", '{"affinity": {"nodeAffinty": {}}}')
    await here.create("하나")
    told = await here.until_reason("BadRequest")

    assert 'unknown field "spec.affinity.nodeAffinty"' in told["message"]
    assert not await here.cluster.find(here.child())
