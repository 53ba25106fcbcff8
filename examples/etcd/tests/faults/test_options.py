"""What a user can ask of an EtcdCluster beyond its size: other versions, TLS, users, a quota."""

import contextlib
import ssl
from base64 import b64encode
from typing import Any

import aiohttp
import pytest
from kopf_kit.rig import tools, versions
from kopf_kit.testing.world import World

from tests.faults import certificates
from tests.faults.conftest import Cluster
from tests.faults.nodes import NAME
from tests.faults.test_operator import SUBJECTS, VERSION

__all__ = ["SUBJECTS"]
pytestmark = pytest.mark.long
KEY = b64encode(b"key").decode()


async def keep(here: World, name: str, **texts: str) -> None:
    """Create a Secret."""
    body = {"metadata": {"name": name}, "stringData": texts}
    await here.cluster.ask("POST", f"/api/v1/namespaces/{here.namespace}/secrets", body)


async def test_tls_is_asked_of_all(here: World, cluster: Cluster) -> None:
    nodes, host = cluster.nodes, f"{NAME}.{here.namespace}.svc"
    nodes.between = False  # a proxy would need a certificate of its own
    certificates.authority(nodes.folder / "ca")
    for secret in ("peers", "clients"):
        folder = nodes.folder / secret
        texts = certificates.certificate(nodes.folder / "ca", folder, f"DNS:*.{host}")
        await keep(here, secret, **texts)
    context = ssl.create_default_context(cafile=str(nodes.folder / "ca" / "ca.crt"))
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    cluster.clients.options = {"ssl": context, "server_hostname": f"any.{host}"}
    await here.start()
    await cluster.create(1, tls={"peerSecret": "peers", "clientSecret": "clients"})
    await cluster.settles(1)
    await cluster.edit(size=3)

    await cluster.settles(3)

    with pytest.raises(aiohttp.ClientError):
        await nodes.session.post(f"{cluster.url(f'{NAME}-1')}/v3/kv/range", json={}, ssl=False)
    await cluster.is_right()


async def test_users_are_asked_for_and_the_operator_is_root(here: World, cluster: Cluster) -> None:
    await keep(here, "root", password="secret")  # noqa: S106
    await here.start()
    await cluster.create(1, auth={"rootSecret": "root"})
    await cluster.settles(1)
    await cluster.clients.stop()

    with pytest.raises(aiohttp.ClientResponseError, match="400"):
        await cluster.clients.ask(f"{cluster.url(f'{NAME}-1')}/v3/kv/range", {"key": KEY})
    await cluster.edit(size=3)
    await cluster.settles(3)
    await here.restart()
    await cluster.edit(size=1)
    await cluster.settles(1)


async def test_a_full_quota_is_told_and_cured_once_there_is_space(
    here: World, cluster: Cluster
) -> None:
    await cluster.clients.stop()
    await here.start()
    await cluster.create(3, options={"quotaBackendBytes": 2**24})
    await cluster.settles(3)
    url = cluster.url(cluster.ready()[0])
    large: Any = {"key": KEY, "value": b64encode(b"x" * 2**20).decode()}

    revision = "0"
    async with here.within(90, "the alarm"):
        while (await cluster.condition("Healthy"))["status"] == "True":
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                put = await cluster.clients.ask(f"{url}/v3/kv/put", large)
                revision = put["header"]["revision"]
    await cluster.clients.ask(f"{url}/v3/kv/compaction", {"revision": revision, "physical": True})

    await cluster.until("Healthy", "True", "NoAlarm", patience=120)
    await cluster.settles(3)
    await cluster.clients.ask(f"{url}/v3/kv/put", {"key": KEY, "value": KEY})


async def test_versions_go_up_and_down_one_at_a_time_under_load(
    here: World, cluster: Cluster
) -> None:
    older = {minor: version.removeprefix("v") for minor, version in versions.OLDER_ETCD.items()}
    cluster.nodes.etcd |= {minor: tools.etcd(minor, "etcd")[0] for minor in older}
    first, second = older.values()
    await here.start()
    await cluster.create(3, version=first)
    await cluster.settles(3)

    for version in (second, VERSION, second, first):
        await cluster.edit(version=version)
        status = await cluster.settles(3, patience=240)
        assert status["version"] == version

    await cluster.is_right()
