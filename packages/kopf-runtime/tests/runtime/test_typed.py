"""The typed client of authors sends its requests as the runtime's own, streams logs, and execs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import kopf
import pytest
from aiohttp import WSMsgType, web
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap

import kopf_runtime as kr
from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.credentials import Credentials
from kopf_runtime.cluster.metrics import Metrics
from runtime import widgets
from runtime.support.api_server import ApiServer
from runtime.support.running import operating
from runtime.support.waiting import until


class Kubelet:
    """Answers what an API server passes to a kubelet, under a path as a proxy's."""

    def __init__(self) -> None:
        self.authorizations: list[str] = []
        self.ran: list[str] = []
        self.more = asyncio.Event()

    async def log(self, request: web.Request) -> web.StreamResponse:
        self.authorizations.append(request.headers.get("Authorization", ""))
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"first\n")
        if request.query.get("follow"):
            await self.more.wait()
            await answer.write(b"second\n")
        return answer

    async def exec(self, request: web.Request) -> web.StreamResponse:
        self.authorizations.append(request.headers.get("Authorization", ""))
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(request)
        message = await socket.receive()
        assert message.type is WSMsgType.BINARY
        self.ran.append(" ".join(request.query.getall("command")))
        await socket.send_bytes(b"\x01" + message.data[1:].upper())
        await socket.send_bytes(b'\x03{"metadata": {}, "status": "Success"}')
        await socket.close()
        return socket


@pytest.fixture
async def kubelet() -> AsyncIterator[tuple[Kubelet, Client]]:
    one, application = Kubelet(), web.Application()
    root = "/clusters/c-1/api/v1/namespaces/ns/pods/one"
    application.router.add_get(f"{root}/log", one.log)
    application.router.add_get(f"{root}/exec", one.exec)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    client = Client("tester", "1", 5.0, Metrics("tester"))
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/clusters/c-1"
    client.open(Credentials(kopf.ConnectionInfo(server=url, token="secret")))
    try:
        yield one, client
    finally:
        await client.close()
        await runner.cleanup()


async def test_a_log_is_read_while_it_is_written(kubelet: tuple[Kubelet, Client]) -> None:
    one, client = kubelet
    lines = client.lightkube("ns").log("one", follow=True)
    assert await anext(aiter(lines)) == "first\n"
    one.more.set()
    assert [line async for line in lines] == ["second\n"]
    assert one.authorizations == ["Bearer secret"]


async def test_what_runs_in_a_container_is_fenced_as_a_write(
    kubelet: tuple[Kubelet, Client],
) -> None:
    one, client = kubelet

    async def run() -> Any:
        return await client.lightkube("ns").exec(
            "one", command=["cat", "-"], stdin="hello", stdout=True, decode="utf-8", timeout=20
        )

    with pytest.raises(kr.ApiError, match="no longer the leader"):
        await run()
    assert one.authorizations == []
    client.may_write = lambda: True
    assert (await run()).stdout == "HELLO"
    assert (one.ran, one.authorizations) == (["cat -"], ["Bearer secret"])


async def test_sync_has_a_client_whose_requests_are_counted(server: ApiServer) -> None:
    one, seen = widgets.controller(), []

    @one.sync
    async def sync(widget: widgets.Widget, context: kr.CallContext[Any]) -> str:
        kube = context.client.lightkube(context.namespace)
        with contextlib.suppress(httpx2.HTTPStatusError):
            await kube.get(ConfigMap, "missing")
        made = await kube.create(ConfigMap(metadata=ObjectMeta(name="own"), data={"a": "b"}))
        seen.append((made.metadata and made.metadata.namespace, made.data))
        return "done"

    server.put(widgets.WIDGET, widgets.widget())
    async with operating(server, one) as operator:
        await until(lambda: seen)
        counted = operator.metrics.registry.get_sample_value(
            "rest_client_requests_total", {"method": "GET", "code": "404"}
        )
    assert seen == [("ns", {"a": "b"})]
    assert counted
