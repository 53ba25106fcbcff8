"""What clusters ask of Pods and do to them: OpenShift, limits, quotas, policies, meshes.

Finding M7. The API server's own admission does it.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from faults.worlds import policies_served
from kopf_kit.olm import bundle
from kopf_kit.project import documents
from kopf_kit.testing import calls
from kopf_kit.testing.requests import Raw, RefusedError
from kopf_kit.testing.world import World
from tests.faults.messages import why
from tests.support import policies

pytestmark = pytest.mark.api


@asynccontextmanager
async def held_to(here: World, manifests: list[Raw]) -> AsyncIterator[None]:
    """Have a policy, in force, while the block lasts."""
    paths: list[str] = []
    try:
        for manifest in manifests:
            version, path = await policies_served(here.cluster, manifest["kind"])
            await here.cluster.ask("POST", path, {**manifest, "apiVersion": version})
            paths.append(f"{path}/{manifest['metadata']['name']}")
        async with here.within(60, f"{manifests[0]['metadata']['name']} is in force"):
            while not await _in_force(here, manifests[0]["kind"]):
                await asyncio.sleep(0.1)
        yield
    finally:
        for path in reversed(paths):
            await here.cluster.remove(path)


async def _in_force(here: World, kind: str) -> bool:
    path = f"{here.children}?dryRun=All"
    try:
        pod = await here.cluster.ask("POST", path, policies.probe())
    except RefusedError as error:
        if "ValidatingAdmissionPolicy" not in error.message:
            raise
        return kind == "ValidatingAdmissionPolicy"
    seen = policies.SEEN in pod["metadata"].get("annotations", {})
    return seen and kind == "MutatingAdmissionPolicy"


async def start_again(here: World, *flags: str, **template: Any) -> None:
    """Replace the operator by one with these flags, and this template of the Pods."""
    for operator in here.operators:
        if operator.supervised:
            here.frozen.add(operator)
            await operator.stop()
    await here.start(*flags, *([f"--message-pod={json.dumps(template)}"] if template else []))


async def uid_of_pod(here: World, name: str = "hello") -> str:
    pod = await here.cluster.ask("GET", here.child(name))
    return str(pod["metadata"]["uid"])


# --- OpenShift ----------------------------------------------------------------------------------


def example_of_the_bundle() -> Raw:
    """Return the Message that the console offers to create."""
    file = bundle.BUNDLE / "manifests" / f"{bundle.NAME}.clusterserviceversion.yaml"
    csv = documents.load(file.read_text())
    example: Raw = json.loads(csv["metadata"]["annotations"]["alm-examples"])[0]
    return example


async def user_of_pod(here: World, name: str) -> int:
    spec = (await here.cluster.ask("GET", here.child(name)))["spec"]
    return int(spec["containers"][0]["securityContext"]["runAsUser"])


async def test_on_openshift_nothing_has_to_be_set(own_world: World) -> None:
    here = own_world
    example = example_of_the_bundle()
    name = example["metadata"]["name"]
    await here.cluster.put(policies.OPENSHIFT_KIND)
    async with here.within(60, "the group is served"):
        while await here.cluster.find("/apis/security.openshift.io") is None:
            await asyncio.sleep(0.1)
    said = {policies.UID_RANGE: f"{policies.FIRST}/{policies.SIZE}"}
    await here.cluster.patch(
        f"/api/v1/namespaces/{here.namespace}", {"metadata": {"annotations": said}}
    )
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(held_to(here, policies.assigns_users(here.namespace)))
        await stack.enter_async_context(held_to(here, policies.refuses_other_users(here.namespace)))

        # The API server does not answer at first.
        await here.start(
            harm=lambda one: one.arm(
                lambda call: "openshift" in call.path, calls.refuse(503, "ServiceUnavailable"), 2
            )
        )
        await here.cluster.ask("POST", here.objects, example)
        await here.wait_until_ready(name)
        before = await uid_of_pod(here, name)
        await here.restart()
        await here.quiet()

        assert await user_of_pod(here, name) == policies.FIRST
        assert await uid_of_pod(here, name) == before, "what the platform adds is no alteration"

        await start_again(here, "--message-user=65532")
        told = await here.until_reason("Forbidden", name)
        assert "restricted-v2" in told["message"]

        await start_again(here, f"--message-user={policies.FIRST + 1}")
        await here.wait_until_ready(name)
        assert await user_of_pod(here, name) == policies.FIRST + 1, "what is said is not questioned"


# --- limits, quotas and rules -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "complaint", "resources"),
    [
        (
            {"min": {"cpu": "10m", "memory": "16Mi"}},
            "minimum cpu usage per Container is 10m",
            {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "16Mi"}},
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "4"}},
            "cpu max limit to request ratio per Container is 4",
            {"requests": {"cpu": "25m"}, "limits": {"cpu": "100m"}},
        ),
    ],
    ids=["minimum", "ratio"],
)
async def test_what_a_limit_range_asks_for_is_told_and_can_be_given(
    here: World, limit: Raw, complaint: str, resources: Raw
) -> None:
    path = f"/api/v1/namespaces/{here.namespace}/limitranges"
    limits = {"metadata": {"name": "least"}, "spec": {"limits": [{"type": "Container", **limit}]}}
    await here.cluster.ask("POST", path, limits)
    await here.start()
    await here.create("하나")

    assert complaint in (await here.until_reason("Forbidden"))["message"]
    await start_again(here, resources=resources)

    await here.converges({"hello": "하나"})


async def test_a_quota_has_room_for_the_pods_that_say_what_they_use(here: World) -> None:
    path = f"/api/v1/namespaces/{here.namespace}/resourcequotas"
    hard = {"requests.cpu": "10m", "limits.memory": "32Mi"}
    await here.cluster.ask("POST", path, {"metadata": {"name": "little"}, "spec": {"hard": hard}})
    async with here.within(60, "the quota holds"):
        while not (await here.cluster.ask("GET", f"{path}/little")).get("status", {}).get("hard"):
            await asyncio.sleep(0.1)
    await here.start("--message-pod=" + json.dumps({"resources": {}}))
    await here.create("하나")
    assert "must specify" in (await here.until_reason("Forbidden"))["message"]

    await start_again(here)  # by default a Pod asks for 1m and 16Mi
    await here.create("둘", "second")
    await here.converges({"hello": "하나", "second": "둘"})

    await here.create("셋", "third")
    assert "exceeded quota: little" in (await here.until_reason("Forbidden", "third"))["message"]
    await here.delete("second")
    await here.converges({"hello": "하나", "third": "셋"})


async def test_a_template_that_pod_security_refuses_is_told_in_its_words(here: World) -> None:
    loose = {"securityContext": {"allowPrivilegeEscalation": True}}
    await here.start(f"--message-pod={json.dumps(loose)}")
    await here.create("하나")

    told = (await here.until_reason("Forbidden"))["message"]
    assert 'violates PodSecurity "restricted' in told
    assert "allowPrivilegeEscalation" in told
    said = await why(here)
    assert said.first == (
        "Message hello: the Pod Security level of the namespace does not admit its Pod."
    )
    await start_again(here)

    await here.converges({"hello": "하나"})


async def test_a_label_that_a_policy_asks_for_is_told_and_can_be_given(here: World) -> None:
    async with held_to(here, policies.requires_a_label(here.namespace, "cost-center")):
        await here.start()
        await here.create("하나")
        told = await here.until_reason("Forbidden")
        assert "must have the label cost-center" in told["message"]
        assert (await why(here)).first == (
            "Message hello: a policy of the cluster refuses what it needs."
        )

        await start_again(here, labels={"cost-center": "1234"})
        await here.converges({"hello": "하나"})


@pytest.mark.parametrize(
    ("rule", "shows"),
    [
        (policies.injects_and_rewrites, ["mesh-proxy", "mirror.example/docker.io/library/busybox"]),
        (policies.adjusts_resources, ["52Mi", "1Gi"]),
    ],
    ids=["mesh", "autopilot"],
)
async def test_what_admission_adds_and_rewrites_is_left_alone(
    here: World, rule: Callable[[str], list[Raw]], shows: list[str]
) -> None:
    async with held_to(here, rule(here.namespace)):
        await here.start()
        await here.create("하나")
        await here.wait_until_ready()
        before = await uid_of_pod(here)
        await here.restart()
        await here.quiet()

        pod = await here.cluster.ask("GET", here.child())
        assert pod["metadata"]["uid"] == before
        assert [word for word in shows if word not in json.dumps(pod["spec"])] == []

        await here.edit("둘")
        async with here.within(120, "an edit still replaces the Pod"):
            while pod["metadata"]["uid"] == before:
                await asyncio.sleep(0.05)
                pod = await here.cluster.find(here.child()) or pod
