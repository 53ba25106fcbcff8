"""Protected metrics: the API server's own tokens and rights, and a certificate that is renewed."""

import asyncio
from pathlib import Path

import aiohttp
import trustme

from kopf_kit.testing.cluster import Cluster
from kopf_kit.testing.process import free_port
from kopf_kit.testing.world import World
from runtime.support.certificates import trust_in, write_certificate
from tests.chart import helm

SECURE = {"metrics": {"secure": {"enabled": True, "secretName": "certificate"}}}


async def service_account_token(cluster: Cluster, namespace: str, name: str) -> str:
    """Make a ServiceAccount; return a token of it, as a kubelet gets one for a Pod."""
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await cluster.ask("POST", accounts, {"metadata": {"name": name}})
    answer = await cluster.ask("POST", f"{accounts}/{name}/token", {"spec": {}})
    token: str = answer["status"]["token"]
    return token


async def may_scrape(cluster: Cluster, namespace: str, account: str) -> None:
    """Bind a ServiceAccount to the chart's role for scrapers."""
    (role,) = (name for _, _, name in helm.names(helm.render(SECURE)) if name.endswith("-reader"))
    await cluster.put(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"{namespace}-scraper"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": role,
            },
            "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": account}],
        }
    )


async def scrape(url: str, authority: trustme.CA, token: str = "") -> tuple[int, str]:
    """Scrape over a connection of its own; return the status and the text."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connector = aiohttp.TCPConnector(ssl=trust_in(authority))
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.get(url, headers=headers) as response,
    ):
        return response.status, await response.text()


async def test_only_who_may_get_the_metrics_gets_them(here: World, tmp_path: Path) -> None:
    prometheus, other = [
        await service_account_token(here.cluster, here.namespace, name)
        for name in ("prometheus", "other")
    ]
    authority, renewed = trustme.CA(), trustme.CA()
    write_certificate(tmp_path / "certificate", authority)
    port = free_port()
    operator = await here.start(
        f"--metrics-bind-address=127.0.0.1:{port}", f"--metrics-cert-path={tmp_path}/certificate"
    )
    url = f"https://127.0.0.1:{port}/metrics"

    assert (await scrape(url, authority, "before"))[0] == 503  # nobody lets the operator ask

    # The operator's right, and the role.
    await here.grant(m for m in helm.render(SECURE) if "-metrics-" in m["metadata"]["name"])
    await may_scrape(here.cluster, here.namespace, "prometheus")
    async with here.within(60, "the scraper is let in"):  # once the API server knows of its right
        while (found := await scrape(url, authority, prometheus))[0] != 200:
            await asyncio.sleep(1)
    assert "message_operator_build_info{" in found[1]
    assert await scrape(url, authority, other) == (
        403,
        f"Forbidden: system:serviceaccount:{here.namespace}:other may not get /metrics.",
    )
    assert (await scrape(url, authority, prometheus + "x"))[0] == 401
    assert (await scrape(url, authority))[0] == 401

    write_certificate(tmp_path / "certificate", renewed)

    assert (await scrape(url, renewed, prometheus))[0] == 200
    assert operator.exits == []
    assert prometheus not in operator.log.read_text()
