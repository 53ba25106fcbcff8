"""What objects name or select, and what is recorded, on a real API server by generated rights."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import kopf
import pytest

import kopf_runtime as kr
from faults import holders
from kopf_kit.project import rbac
from kopf_kit.testing.api_server import OPERATOR
from kopf_kit.testing.requests import Cluster, Raw
from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.credentials import Credentials
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.kinds import CONFIG_MAP, SECRET
from runtime.support.running import NAME, operating

pytestmark = pytest.mark.api

#: What is kept of the password p.
P = kr.short_hash("cA==")


class Spec(kr.Fields, frozen=True):
    """What is named."""

    secret: str = ""


@kr.custom_resource("reads.example.dev", "v1", "sites")
class Site(kr.Resource):
    """An object that names a Secret of its user's."""

    spec: Spec = Spec()


class Secret(kr.Object):
    """A Secret's text."""

    data: dict[str, str]


def desired(site: Site, context: kr.Context[kr.Settings]) -> Iterable[Raw]:
    """Return a ConfigMap with the hash of the Secret."""
    yield {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": site.metadata.name},
        "data": {"hash": context.read(SECRET, site.spec.secret)},
    }


def selecting(_: Site, context: kr.Context[kr.Settings]) -> Iterable[Raw]:
    """Return a ConfigMap with the hashes of the Secrets that are selected."""
    yield {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "one"},
        "data": {name: view for (_, name), view in context.reads_of(SECRET).items()},
    }


@dataclass
class Place:
    """A namespace with a Site, and what it says."""

    cluster: Cluster
    manager: kr.Manager[kr.Settings]
    namespace: str

    async def site(self) -> Raw:
        return await self.cluster.ask(
            "GET", self.manager.controllers[0].kind.path(self.namespace, "one")
        )

    async def said(self) -> str:
        conditions = ((await self.site()).get("status") or {}).get("conditions") or [
            {"message": ""}
        ]
        return str(conditions[0]["message"])

    async def hashes(self) -> Raw | None:
        found = await self.cluster.find(CONFIG_MAP.path(self.namespace, "one"))
        return None if found is None else found.get("data") or {}

    async def put(self, name: str, password: str, **labels: str) -> None:
        """Create a Secret."""
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "stringData": {"password": password},
            "metadata": {"name": name, "labels": labels},
        }
        await self.cluster.ask("POST", SECRET.path(self.namespace), secret)

    @asynccontextmanager
    async def operator(self) -> AsyncIterator[None]:
        """Run the operator with the generated rights for the block."""
        client = Client(NAME, "1", 10.0, Metrics(NAME))
        client.may_write = lambda: True
        server, token = self.cluster.plane.server, OPERATOR  # which is its token
        client.open(Credentials(kopf.ConnectionInfo(server=server, token=token, insecure=True)))
        settings = kr.Settings(namespaces=(self.namespace,))
        try:
            async with (
                asyncio.timeout(60),
                operating(client, *self.manager.controllers, settings=settings),
            ):
                yield
        finally:
            await client.close()


async def place(cluster: Cluster, plan: Any = desired, **reads: Any) -> Place:
    """Return a namespace with a Site, whose operator reads Secrets in one way, and its rights."""
    manager = kr.Manager(NAME, kr.Settings)
    sites = manager.controller_for(Site)
    sites.owns(CONFIG_MAP)
    sites.desired(selecting if "labels" in reads else plan)
    sites.reads(
        SECRET, Secret, transform=lambda secret: kr.short_hash(secret.data["password"]), **reads
    )
    await cluster.put(holders.definition(sites.kind, secret={"type": "string"}))
    await cluster.serves(sites.kind)
    one = Place(cluster, manager, await cluster.new_namespace())
    await grant(cluster, one.namespace, [rule for _, rule in rbac.rules(manager)])
    site = {
        "apiVersion": sites.kind.api_version,
        "kind": "Site",
        "metadata": {"name": "one"},
        "spec": {"secret": "later"},
    }
    await cluster.ask("POST", sites.kind.path(one.namespace), site)
    return one


@pytest.mark.parametrize("every", [None, 1.0])
async def test_a_secret_that_is_made_later_heals_its_object(
    cluster: Cluster, every: float | None
) -> None:
    here = await place(cluster, keys=lambda site: [site.spec.secret], every=every)
    async with here.operator():
        while await here.said() != f"Secret {here.namespace}/later does not exist.":
            await asyncio.sleep(0.05)
        assert await here.hashes() is None

        began = time.monotonic()
        await here.put("later", "p")
        while await here.hashes() != {"hash": P}:
            await asyncio.sleep(0.05)
        assert time.monotonic() - began < 5.0


async def test_secrets_that_get_or_lose_a_label_are_selected_or_not(cluster: Cluster) -> None:
    here = await place(cluster, labels=lambda site: {"site": site.metadata.name, "used": "yes"})
    await here.put("first", "p", site="one", used="yes")
    await here.put("other", "p", site="two", used="yes")
    elsewhere = await cluster.new_namespace()
    await replace(here, namespace=elsewhere).put("first", "q", site="one", used="yes")

    async def become(*names: str) -> None:
        while await here.hashes() != dict.fromkeys(names, P):
            await asyncio.sleep(0.05)

    async with here.operator():
        await become("first")
        await here.put("second", "p", site="one")
        path = SECRET.path(here.namespace, "second")
        await cluster.patch(path, {"metadata": {"labels": {"used": "yes"}}})
        await become("first", "second")
        await cluster.patch(path, {"metadata": {"labels": {"site": None}}})
        await become("first")
        await cluster.remove(SECRET.path(here.namespace, "first"))
        await become()


# --- what is recorded ---------------------------------------------------------------------------


async def test_what_is_recorded_has_a_manager_of_its_own_and_outlives_a_careless_version(
    cluster: Cluster,
) -> None:
    here = await place(cluster, lambda *_: [], keys=lambda _: [])
    (sites,) = here.manager.controllers
    fields: dict[str, Any] = {"shown": 1}

    @sites.sync(every=3600)
    async def sync(_: Site, context: kr.CallContext[kr.Settings]) -> None:
        if "begun" not in context.stored:
            await context.record({"begun": {"member": "m-1"}})

    sites.status(lambda *_: kr.Status(True, "Fine", "It is begun.", fields))
    async with here.operator():
        while await here.said() != "It is begun.":
            await asyncio.sleep(0.05)
    site = await here.site()
    owned = {
        entry["manager"]: set(entry["fieldsV1"]["f:status"]) - {"."}
        for entry in site["metadata"]["managedFields"]
        if entry.get("subresource") == "status"
    }
    shown = {"f:conditions", "f:observedGeneration", "f:shown"}
    assert owned == {f"{NAME}-record": {"f:begun"}, NAME: shown}

    fields["begun"] = None
    async with here.operator():
        while "it would overwrite what context.record has stored" not in await here.said():
            await asyncio.sleep(0.05)
    assert (await here.site())["status"]["begun"] == {"member": "m-1"}


async def grant(cluster: Cluster, namespace: str, rules: list[Any]) -> None:
    """Grant the operator's account these rules in a namespace, and nothing else."""
    api = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    await cluster.ask("POST", f"{api}/roles", {"metadata": {"name": "reads"}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reads"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": OPERATOR}
    binding = {"metadata": {"name": "reads"}, "roleRef": reference, "subjects": [subject]}
    await cluster.ask("POST", f"{api}/rolebindings", binding)
    await cluster.until_allowed(OPERATOR, "get", SECRET, namespace)
