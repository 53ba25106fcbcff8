"""Models of other libraries as children, and the typed client, whose requests are the runtime's."""

import asyncio
import contextlib
import dataclasses
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from importlib.util import find_spec
from typing import Any

import httpx2
import kopf
import pydantic
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
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.kinds import CONFIG_MAP, SECRET
from runtime import widgets
from runtime.support.api_server import ApiServer, listening
from runtime.support.running import NAME, connected, operating
from runtime.support.waiting import connecting_slowly, until
from runtime.widgets import WIDGET, Widget, edit, is_ready, readiness, widget, working_on

KINDS = (WIDGET, SECRET)


class Kubelet:
    """Answers what an API server passes to a kubelet, under a path as a proxy's."""

    def __init__(self) -> None:
        self.authorizations: list[str] = []
        self.ran: list[str] = []
        self.more = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.authorizations.append(request.headers.get("Authorization", ""))
        root, pod, what = request.path.rsplit("/", 2)
        assert root == "/clusters/c-1/api/v1/namespaces/ns/pods"
        return await (self.log(request, pod) if what == "log" else self.exec(request))

    async def log(self, request: web.Request, pod: str) -> web.StreamResponse:
        if pod == "gone":
            status = b'{"kind": "Status", "message": "gone"}'
            return web.Response(status=404, body=status, content_type="application/json")
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"first\n")
        if pod == "cut":
            assert request.transport is not None
            request.transport.abort()
        if request.query.get("follow") or pod == "silent":
            await self.more.wait()
            await answer.write(b"second\n")
        return answer

    async def exec(self, request: web.Request) -> web.StreamResponse:
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
    one, client = Kubelet(), Client("tester", "1", 5.0, Metrics("tester"))
    async with listening(one.answer) as url:
        client.open(Credentials(kopf.ConnectionInfo(server=f"{url}/clusters/c-1", token="secret")))
        try:
            yield one, client
        finally:
            await client.close()


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


async def test_the_typed_client_reads_writes_and_is_fenced(server: ApiServer) -> None:
    one = ConfigMap(metadata=ObjectMeta(name="one", labels={"a": "b"}), data={"text": "hello"})
    patch = {"data": {"text": "bye"}}
    async with connected(server) as client:
        kube, client.may_write = client.lightkube("ns"), lambda: False
        for write in (
            lambda: kube.create(one),
            lambda: kube.patch(ConfigMap, "one", patch),
            lambda: kube.delete(ConfigMap, "one"),
        ):
            with pytest.raises(kr.ApiError, match="no longer the leader"):
                await write()
        with pytest.raises(httpx2.HTTPStatusError, match="404"):  # it is sent; nothing is there
            await kube.get(ConfigMap, "one")

        client.may_write = lambda: True
        made = await kube.create(one)
        assert (made.metadata and made.metadata.namespace, made.data) == ("ns", {"text": "hello"})
        assert (await kube.patch(ConfigMap, "one", patch)).data == {"text": "bye"}
        listed = [item.data async for item in kube.list(ConfigMap, labels={"a": "b"})]
        assert listed == [patch["data"]]
        stored = await client.ask("GET", CONFIG_MAP.at(("ns", "one")))
        managers = {entry["manager"] for entry in stored["metadata"]["managedFields"]}
        assert managers == {f"{NAME}-client"}
        await kube.delete(ConfigMap, "one")
        with pytest.raises(httpx2.HTTPStatusError, match="404"):
            await kube.get(ConfigMap, "one")


async def test_sync_has_a_client_whose_requests_are_counted(server: ApiServer) -> None:
    one, seen = widgets.controller(), []

    @one.sync
    async def sync(_: Widget, context: kr.CallContext[Any]) -> str:
        kube = context.client.lightkube(context.namespace)
        with contextlib.suppress(httpx2.HTTPStatusError):
            await kube.get(ConfigMap, "missing")
        made = await kube.create(ConfigMap(metadata=ObjectMeta(name="own"), data={"a": "b"}))
        seen.append((made.metadata and made.metadata.namespace, made.data))
        return "done"

    async with working_on(server, widget(), one) as operator:
        await until(lambda: seen)
        counted = operator.metrics.registry.get_sample_value(
            "rest_client_requests_total", {"method": "GET", "code": "404"}
        )
    assert seen == [("ns", {"a": "b"})]
    assert counted


# --- models ---------------------------------------------------------------------------------------


class Meta(pydantic.BaseModel):
    name: str
    labels: dict[str, str] | None = None


class Mine(pydantic.BaseModel):
    """A model as cloudcoil's are: pydantic's, with its own apiVersion and kind."""

    api_version: str = pydantic.Field(alias="apiVersion")
    kind: str = "ConfigMap"
    metadata: Meta
    data: dict[str, str] = pydantic.Field(default_factory=dict)


@dataclasses.dataclass
class Named:
    name: str
    labels: dict[str, str] | None = None


@dataclasses.dataclass
class Plain:
    metadata: Named
    data: dict[str, str] | None = None


#: By class: how a model of a ConfigMap is made.
MODELS: dict[type[Any], Callable[[str, dict[str, str]], Any]] = {
    ConfigMap: lambda name, data: ConfigMap(metadata=ObjectMeta(name=name), data=data),
    Mine: lambda name, data: Mine(apiVersion="v1", metadata=Meta(name=name), data=data),
    Plain: lambda name, data: Plain(Named(name), data),
}
if find_spec("kubernetes"):  # it takes no aiohttp that is as old as the runtime's lowest
    from kubernetes import client as kube

    MODELS[kube.V1ConfigMap] = lambda name, data: kube.V1ConfigMap(
        metadata=kube.V1ObjectMeta(name=name), data=data
    )


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__module__.split(".")[0])
async def test_a_child_may_be_a_model_and_seen_as_one(server: ApiServer, model: type[Any]) -> None:
    seen: list[str] = []
    one = Controller(WIDGET, Widget, None)
    one.owns(CONFIG_MAP, model, transform=lambda found: (type(found), found.data["text"]))
    one.reads(
        SECRET, model, keys=lambda _: ["secret"], transform=lambda secret: secret.metadata.name
    )

    @one.desired
    def desired(thing: Widget, context: kr.Context[Any]) -> Iterable[Any]:
        assert context.read(SECRET, "secret") == "secret"
        yield MODELS[model]("w-one", {"text": thing.spec.text})

    @one.status
    def status(_: Any, found: kr.Observed) -> kr.Status:
        if found.child is not None:
            assert found.child.view[0] is model
            seen.append(found.child.view[1])
        return kr.default_status(found)

    server.put(WIDGET, widget())
    server.put(SECRET, {"metadata": {"namespace": "ns", "name": "secret"}, "type": "Opaque"})
    async with operating(server, one):
        await until(lambda: is_ready(server))
        made = server.get(CONFIG_MAP, ("ns", "w-one")) or {}
        assert made["data"] == {"text": "hello"}
        assert made["metadata"]["ownerReferences"][0]["name"] == "one"
        server.edit(WIDGET, ("ns", "one"), edit("edited"))
        await until(lambda: "edited" in seen)


async def test_what_does_not_fit_a_model_is_left_out_and_told(server: ApiServer) -> None:
    one = Controller(WIDGET, Widget, None)
    one.reads(SECRET, Mine, keys=lambda _: ["odd"], transform=lambda secret: secret.data)
    one.owns(CONFIG_MAP)
    one.desired(lambda *_: [])
    server.put(WIDGET, widget())
    server.put(SECRET, {"metadata": {"namespace": "ns", "name": "odd"}, "data": {"a": 5}})
    async with operating(server, one):
        await until(lambda: readiness(server).get("reason") == "ReferenceUnreadable")


async def test_a_model_without_its_kind_is_refused_in_words(server: ApiServer) -> None:
    one = Controller(WIDGET, Widget, None)
    one.owns(CONFIG_MAP)
    one.desired(lambda *_: [Plain(Named("w-one"))])
    server.put(WIDGET, widget())
    why = "a Plain without its apiVersion and kind"
    async with operating(server, one):
        await until(lambda: why in readiness(server).get("message", ""))


def test_none_of_these_libraries_is_imported_by_the_runtime() -> None:
    without = "import sys; sys.modules['kubernetes'] = None"  # which kopf imports if it can
    code = f"{without}; import kopf_runtime; print({{'pydantic', 'lightkube'}} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n"
