"""An operator with the generated rights alone reads what its objects name, on a real API server."""

import asyncio
import time
from collections.abc import Iterable
from typing import Any

import kopf
import pytest

import kopf_runtime as kr
from kopf_kit.pack import rights
from kopf_kit.testing.cluster import Cluster, Raw
from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.credentials import Credentials
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.kinds import CONFIG_MAP, SECRET
from tests.faults import holders
from tests.support.control_plane import OPERATOR
from tests.support.running import NAME, operating

pytestmark = pytest.mark.api


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
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": site.metadata.name},
        "data": {"hash": context.read(SECRET, site.spec.secret)},
    }  # fmt: skip


@pytest.mark.parametrize("every", [None, 1.0])
async def test_a_secret_that_is_made_later_heals_its_object(
    cluster: Cluster, every: float | None
) -> None:
    manager = kr.Manager(NAME, kr.Settings)
    sites = manager.controller_for(Site)
    sites.owns(CONFIG_MAP)
    sites.desired(desired)
    sites.reads(
        SECRET, Secret, keys=lambda site: [site.spec.secret], every=every,
        project=lambda secret: kr.short_hash(secret.data["password"]),
    )  # fmt: skip
    await cluster.put(holders.definition(sites.kind, secret={"type": "string"}))
    await cluster.serves(sites.kind)
    namespace = await cluster.new_namespace()
    await grant(cluster, namespace, [rule for _, rule in rights.rules(manager)])
    site = {"apiVersion": sites.kind.api_version, "kind": "Site", "metadata": {"name": "one"},
            "spec": {"secret": "later"}}  # fmt: skip
    await cluster.ask("POST", sites.kind.path(namespace), site)

    async def said() -> str:
        raw = await cluster.ask("GET", sites.kind.path(namespace, "one"))
        conditions = (raw.get("status") or {}).get("conditions") or [{"message": ""}]
        return str(conditions[0]["message"])

    async def child() -> Raw | None:
        return await cluster.find(CONFIG_MAP.path(namespace, "one"))

    client = Client(NAME, "1", 10.0, Metrics(NAME))
    server, token = cluster.plane.server, OPERATOR  # which is its token
    client.open(Credentials(kopf.ConnectionInfo(server=server, token=token, insecure=True)))
    try:
        settings = kr.Settings(namespaces=(namespace,))
        async with operating(client, *manager.controllers, settings=settings), asyncio.timeout(60):
            while await said() != f"Secret {namespace}/later does not exist.":
                await asyncio.sleep(0.05)
            assert await child() is None

            secret: Any = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "later"}}
            began = time.monotonic()
            await cluster.ask("POST", SECRET.path(namespace), secret | {"stringData": {
                "password": "p"}})  # fmt: skip
            while (await child() or {}).get("data") != {"hash": kr.short_hash("cA==")}:
                await asyncio.sleep(0.05)
            assert time.monotonic() - began < 5.0
    finally:
        await client.close()


async def grant(cluster: Cluster, namespace: str, rules: list[Any]) -> None:
    """Grant the operator's account these rules in a namespace, and nothing else."""
    api = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    await cluster.ask("POST", f"{api}/roles", {"metadata": {"name": "reads"}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reads"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": OPERATOR}
    binding = {"metadata": {"name": "reads"}, "roleRef": reference, "subjects": [subject]}
    await cluster.ask("POST", f"{api}/rolebindings", binding)
    await cluster.until_allowed(OPERATOR, "get", SECRET, namespace)
