"""A Memcached on a real control plane: its nodes, its scale, its bounds.

The Deployments' and ReplicaSets' own controllers make its Pods; `kubelet` has them run.
"""

import asyncio

import pytest
from kopf_kit.testing.requests import Raw, RefusedError
from kopf_kit.testing.world import World

from tests.faults.test_operator import SUBJECTS

__all__ = ["SUBJECTS"]
APPLY = "application/apply-patch+yaml"


async def create(here: World, name: str = "mine", **spec: object) -> Raw:
    manifest = {**SUBJECTS[0].manifest("", name), "spec": spec}
    return await here.cluster.ask("POST", here.objects, manifest)


def pods(here: World) -> str:
    return f"/api/v1/namespaces/{here.namespace}/pods"


async def names(here: World) -> list[str]:
    """Return the names of the Pods that are to stay."""
    found = [pod["metadata"] for pod in await here.cluster.items(pods(here))]
    return sorted(metadata["name"] for metadata in found if "deletionTimestamp" not in metadata)


async def scaled(here: World, size: int, name: str = "mine") -> Raw:
    """Wait until a Memcached says that it has so many nodes, and which; return its status."""
    async with here.within(90, f"{size} nodes"):
        while True:
            found = await here.cluster.ask("GET", here.object(name))
            status: Raw = found.get("status") or {"conditions": [{"status": "Unknown"}]}
            if (
                status["conditions"][0]["status"] == "True"
                and status["nodes"] == await names(here)
                and len(status["nodes"]) == status["replicas"] == size
                and status["observedGeneration"] == found["metadata"]["generation"]
            ):
                return status
            await asyncio.sleep(0.1)


async def deployed(here: World, replicas: int) -> Raw:
    """Wait until the Deployment has so many replicas; return it."""
    async with here.within(60, f"the Deployment to have {replicas} replicas"):
        while True:
            found: Raw = await here.cluster.ask("GET", here.child("mine"))
            if found["spec"]["replicas"] == replicas:
                return found
            await asyncio.sleep(0.1)


async def test_a_memcached_has_the_nodes_that_it_says_whoever_changes_them(here: World) -> None:
    cluster, memcached, deployment = here.cluster, here.object("mine"), here.child("mine")
    await create(here)
    await here.start()
    first = await scaled(here, 1)
    assert first["selector"] == "app.kubernetes.io/name=memcached,app.kubernetes.io/instance=mine"

    scale = await cluster.ask("GET", f"{memcached}/scale")
    assert scale["status"] == {"replicas": 1, "selector": first["selector"]}
    scale["spec"]["replicas"] = 3
    await cluster.ask("PUT", f"{memcached}/scale", scale)
    nodes = (await scaled(here, 3))["nodes"]

    await cluster.remove(f"{pods(here)}/{nodes[0]}")
    assert nodes[0] not in (await scaled(here, 3))["nodes"]

    # Somebody's replicas go, somebody's label and sidecar stay.
    sidecar = {
        "name": "sidecar",
        "image": "proxy",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    await cluster.patch(deployment, {"metadata": {"labels": {"team": "a"}}})
    injected = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "mine"},
        "spec": {"template": {"spec": {"containers": [sidecar]}}},
    }
    await cluster.ask("PATCH", f"{deployment}?fieldManager=mesh", injected, APPLY)
    await cluster.patch(deployment, {"spec": {"replicas": 5}})
    found = await deployed(here, 3)
    await scaled(here, 3)
    assert found["metadata"]["labels"]["team"] == "a"
    names = [container["name"] for container in found["spec"]["template"]["spec"]["containers"]]
    assert names == ["memcached", "sidecar"]

    await cluster.patch(memcached, {"spec": {"replicas": 0}})
    await scaled(here, 0)
    replicas = {"metadata": {"name": "mine"}, "spec": {"replicas": 2}}
    await cluster.patch(f"{deployment}/scale", replicas)
    await deployed(here, 0)
    await scaled(here, 0)


async def test_a_number_that_cannot_be_is_refused_in_words(here: World) -> None:
    where = "spec.replicas in body"
    await here.refused({"replicas": 6}, f"{where} should be less than or equal to 5")
    await here.refused({"replicas": -1}, f"{where} should be greater than or equal to 0")
    await here.refused({"replicas": "3"}, f'{where} must be of type integer: "string"')


async def test_a_number_may_be_left_out_and_a_name_has_63_characters_at_most(here: World) -> None:
    limits = {"memory": 64, "connections": 1024}
    assert (await create(here, "n" * 63))["spec"] == {"replicas": 1, "limits": limits}

    with pytest.raises(RefusedError) as refused:
        await create(here, "n" * 64)

    assert "metadata.name must have at most 63 characters" in refused.value.message
    await here.start()
    await scaled(here, 1, "n" * 63)


async def test_both_versions_are_written_and_read(here: World) -> None:
    beta, cluster = here.subject.kind, here.cluster
    alpha = beta._replace(version="v1alpha1")
    head = {"apiVersion": alpha.api_version, "kind": "Memcached", "metadata": {"name": "mine"}}
    await cluster.ask("POST", alpha.path(here.namespace), {**head, "spec": {"memory": 128}})
    await here.start()
    await scaled(here, 1)

    limits = {"memory": 128, "connections": 2048}
    await cluster.patch(beta.path(here.namespace, "mine"), {"spec": {"limits": limits}})
    await cluster.patch(alpha.path(here.namespace, "mine"), {"spec": {"size": 2}})

    await scaled(here, 2)
    found = await cluster.ask("GET", here.object("mine"))
    assert found["spec"] == {"replicas": 2, "limits": limits}
    (container,) = (await cluster.ask("GET", here.child("mine")))["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["command"] == ["memcached", "--memory-limit=128", "--conn-limit=2048"]
