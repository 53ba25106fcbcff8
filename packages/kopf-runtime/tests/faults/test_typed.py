"""The typed client of authors on a real API server."""

from collections.abc import AsyncIterator

import pytest
from lightkube.core.exceptions import ApiError as LightkubeError
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap

import kopf_runtime as kr
from faults.worlds import client_of
from kopf_kit.testing.requests import Cluster
from kopf_runtime.cluster.client import Client
from runtime.support.running import NAME

pytestmark = pytest.mark.api


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    async with client_of(cluster, Client) as one:
        one.may_write = lambda: False
        yield one


async def test_the_typed_client_reads_and_writes_and_is_fenced(
    cluster: Cluster, client: Client
) -> None:
    kube = client.lightkube(namespace := await cluster.new_namespace())
    one = ConfigMap(metadata=ObjectMeta(name="one", labels={"a": "b"}), data={"text": "hello"})
    patch = {"data": {"text": "bye"}}

    for write in (
        lambda: kube.create(one),
        lambda: kube.patch(ConfigMap, "one", patch),
        lambda: kube.delete(ConfigMap, "one"),
    ):
        with pytest.raises(kr.ApiError, match="no longer the leader"):
            await write()
    with pytest.raises(LightkubeError) as missing:  # a read is sent, and nothing was written
        await kube.get(ConfigMap, "one")
    assert missing.value.status.code == 404

    client.may_write = lambda: True
    made = await kube.create(one)
    assert made.metadata is not None
    assert (made.metadata.namespace, made.data) == (namespace, {"text": "hello"})
    assert (await kube.patch(ConfigMap, "one", patch)).data == {"text": "bye"}
    assert [item.data async for item in kube.list(ConfigMap, labels={"a": "b"})] == [patch["data"]]
    stored = await cluster.ask("GET", kr.kinds.CONFIG_MAP.path(namespace, "one"))
    assert {f["manager"] for f in stored["metadata"]["managedFields"]} == {f"{NAME}-client"}
    await kube.delete(ConfigMap, "one")
    with pytest.raises(LightkubeError, match="not found"):
        await kube.get(ConfigMap, "one")
