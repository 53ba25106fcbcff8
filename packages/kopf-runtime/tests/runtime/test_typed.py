"""The typed client of authors sends its requests as the runtime's own, streams logs, and execs."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import kopf
import pytest
from aiohttp import WSMsgType, web
from lightkube import ApiError
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap

import kopf_runtime as kr
from kopf_runtime.cluster import pool
from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.credentials import Credentials
from kopf_runtime.cluster.metrics import Metrics
from runtime import widgets
from runtime.support.api_server import ApiServer
from runtime.support.connecting import connecting_slowly
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
        if request.match_info["pod"] == "gone":
            status = b'{"kind": "Status", "message": "gone"}'
            return web.Response(status=404, body=status, content_type="application/json")
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"first\n")
        if request.match_info["pod"] == "cut":
            assert request.transport is not None
            request.transport.abort()
        if request.query.get("follow") or request.match_info["pod"] == "silent":
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
    root = "/clusters/c-1/api/v1/namespaces/ns/pods/{pod}"
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


async def test_a_command_in_a_container_is_fenced(kubelet: tuple[Kubelet, Client]) -> None:
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


async def test_t1_a_log_that_is_refused_or_left_leaves_its_connection(
    kubelet: tuple[Kubelet, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "CONNECTIONS", 1)
    one, client = kubelet
    kube = client.lightkube("ns")
    async with asyncio.timeout(20):
        for _ in range(2):
            with pytest.raises(ApiError, match="gone"):
                await anext(aiter(kube.log("gone", follow=True)))
        lines = aiter(kube.log("one", follow=True))
        assert await anext(lines) == "first\n"
        del lines  # it is not read to its end
        one.more.set()
        for _ in range(2):
            assert [line async for line in kube.log("one", follow=True)] == ["first\n", "second\n"]
    assert client._pool is not None
    assert len(client._pool._idle) == 1  # it is given back once


async def test_t2_what_runs_in_a_container_is_fenced_once_it_is_connected(
    kubelet: tuple[Kubelet, Client],
) -> None:
    one, client = kubelet
    async with connecting_slowly() as connection, asyncio.timeout(20):
        client.may_write = lambda: not connection.end.is_set()
        running = asyncio.create_task(client.lightkube("ns").exec("one", command=["true"]))
        await connection.begun.wait()
        connection.end.set()

        with pytest.raises(kr.ApiError, match="no longer the leader"):
            await running
    assert one.authorizations == []


@pytest.mark.parametrize(("pod", "error"), [("silent", "ReadTimeout"), ("cut", "ReadError")])
async def test_t3_a_log_that_falls_silent_or_is_cut_is_an_error_of_httpx(
    kubelet: tuple[Kubelet, Client], pod: str, error: str
) -> None:
    kube = kubelet[1].lightkube("ns")
    kube._client._client.timeout = httpx2.Timeout(0.3)
    with pytest.raises(getattr(httpx2, error)):
        async with asyncio.timeout(20):
            await anext(aiter(kube.log(pod)))
    assert not kubelet[1]._pool._idle  # type: ignore[union-attr]


async def test_t4_a_silent_connection_to_no_server_ends(kubelet: tuple[Kubelet, Client]) -> None:
    """Its timeout would be two hours, and without the probes it would have none."""
    lines = kubelet[1].lightkube("ns").log("one", follow=True)
    assert await anext(aiter(lines)) == "first\n"
    assert kubelet[1]._pool is not None
    [connection] = kubelet[1]._pool._all
    assert connection._transport is not None
    used = connection._transport.get_extra_info("socket")
    assert used.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert used.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30


async def test_t5_what_runs_in_a_container_goes_by_the_proxy_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readline()).decode())
        writer.close()

    listening = await asyncio.start_server(proxy, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
    client = Client("tester", "1", 5.0, Metrics("tester"))
    client.may_write = lambda: True
    client.open(Credentials(kopf.ConnectionInfo(server="https://api.invalid", token="secret")))
    with pytest.raises(httpx2.HTTPError):
        await client.lightkube("ns").exec("one", command=["true"])
    await client.close()
    listening.close()
    assert asked == ["CONNECT api.invalid:443 HTTP/1.1\r\n"]


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
