"""Namespaces that are served by their labels, on a real API server: they come, go and come back."""

import asyncio
import contextlib
from signal import Signals
from urllib.parse import quote

import pytest

from chart import helm
from kopf_kit.testing.process import Operator
from kopf_kit.testing.requests import Cluster, RefusedError
from kopf_kit.testing.world import ELECT, QUIET, World
from kopf_runtime.declaring.kinds import NAMESPACE
from runtime.support import labels

NAME = "demo-message-operator-selecting"
ROLE = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{NAME}"


async def allow(here: World) -> None:
    """Give the operator the chart's rights for `watchNamespaceSelector`, by a role of its own."""
    rights = [
        manifest
        for manifest in helm.render({"watchNamespaceSelector": "any"})
        if manifest["kind"] in ("ClusterRole", "ClusterRoleBinding")
    ]
    for manifest in rights:
        if manifest["metadata"]["name"] == helm.CLUSTER_NAME:
            manifest["metadata"]["name"] = NAME
            if "roleRef" in manifest:
                manifest["roleRef"]["name"] = NAME
    await here.grant(rights)
    await here.until_allowed("watch", NAMESPACE, "")


async def start(here: World, *flags: str) -> Operator:
    """Start a replica that serves the namespaces with this test's own label, and no other."""
    await allow(here)
    return await here.start(
        f"--namespace-selector=served-by={here.namespace}", *flags, everywhere=True
    )


async def label(here: World, namespace: str = "", *, served: bool = True) -> None:
    value = here.namespace if served else None
    path = f"/api/v1/namespaces/{namespace or here.namespace}"
    await here.cluster.patch(path, {"metadata": {"labels": {"served-by": value}}})


async def has_pod(here: World, namespace: str, name: str = "hello") -> None:
    """Wait until a Message has its Pod; no kubelet runs it there."""
    path = f"/api/v1/namespaces/{namespace}/pods/msg-{name}"
    async with here.within(60, f"a Pod in {namespace}"):
        while await here.cluster.find(path) is None:
            await asyncio.sleep(0.05)


def writes_in(here: World, namespace: str) -> list[str]:
    return [str(write) for write in here.relevant() if f"/namespaces/{namespace}/" in write.path]


async def until_logged(here: World, operator: Operator, text: str) -> None:
    async with here.within(60, text):
        while text not in operator.log.read_text(errors="replace"):
            await asyncio.sleep(0.05)


async def test_a_namespace_that_is_deleted_and_made_again_with_the_label(here: World) -> None:
    await start(here)
    await label(here)
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)
    path = f"/api/v1/namespaces/{here.namespace}"

    await here.cluster.remove(path)
    async with here.within(60, "the namespace is gone"):
        while await here.cluster.find(path):
            await asyncio.sleep(0.1)
    meta = {"name": here.namespace, "labels": {"served-by": here.namespace}}
    await here.cluster.ask("POST", "/api/v1/namespaces", {"metadata": meta})
    await here.create("둘")

    await here.converges({"hello": "둘"})


@pytest.mark.api
async def test_without_the_right_to_namespaces_nothing_is_served_until_it_is_back(
    here: World,
) -> None:
    await label(here)
    operator = await start(here)
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)
    role = await here.cluster.ask("GET", ROLE)
    rules = [rule for rule in role["rules"] if rule["resources"] != ["namespaces"]]
    assert len(rules) < len(role["rules"])

    await here.cluster.patch(ROLE, {"rules": rules})
    operator.send(Signals.SIGKILL)  # a watch that is open outlives its right
    refused = "/api/v1/namespaces: the operator has no right to it"
    async with here.within(60, "the probe says why"):
        while refused not in (await operator.probe("/readyz"))[1]:
            await asyncio.sleep(0.05)
    before = writes_in(here, here.namespace)
    await here.edit("둘")
    await asyncio.sleep(QUIET)
    assert writes_in(here, here.namespace) == before

    await here.cluster.patch(ROLE, {"rules": role["rules"]})
    await here.converges({"hello": "둘"})


async def test_the_next_leader_serves_the_namespaces_of_now(here: World) -> None:
    other = await here.another_namespace()
    await label(here, other)
    await start(here, *ELECT)
    await start(here, *ELECT)
    await here.create_in(other, "하나")
    await has_pod(here, other)

    await label(here, other, served=False)
    await label(here)
    for operator in here.operators:
        await until_logged(here, operator, f"namespace {other} is not selected any more")
    await here.operator.stop(Signals.SIGKILL)
    before = writes_in(here, other)
    await here.create_in(other, "둘", "late")
    await here.create("셋")
    await here.converges({"hello": "셋"})

    assert writes_in(here, other) == before


@pytest.mark.api
async def test_the_api_server_takes_the_selectors_that_the_operator_takes(
    cluster: Cluster,
) -> None:
    taken = []
    for selector in (*labels.VALID, *labels.INVALID):
        with contextlib.suppress(RefusedError):
            await cluster.ask("GET", f"/api/v1/namespaces?labelSelector={quote(selector)}")
            taken.append(selector)

    assert taken == list(labels.VALID)
