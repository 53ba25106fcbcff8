"""Every write of the runtime, and of the sessions that it gives to others, passes the fence."""

import asyncio
import re
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import kopf
import pytest
from aiohttp import web

import kopf_runtime
import kopf_runtime as kr
from kopf_runtime.cluster import credentials, fence, sessions
from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.credentials import Credentials
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.errors import ApiError
from kopf_runtime.declaring.settings import Settings
from kopf_runtime.process import beside_kopf
from kopf_runtime.process.manager import Manager
from kopf_runtime.reporting.events import Deps, Recorder
from runtime.support.api_server import LEASE, ApiServer, listening
from runtime.support.waiting import until

SOURCE = Path(kopf_runtime.__file__).parent
PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


class Recording:
    """A server that notes the methods of its requests, and a client whose fence nobody has set."""

    def __init__(self, url: str) -> None:
        self.methods: list[str] = []
        self.info = kopf.ConnectionInfo(server=url)
        self.client = Client("tester", "1", 5.0, Metrics("tester"))


@pytest.fixture
async def recording() -> AsyncIterator[Recording]:
    async def answer(request: web.Request) -> web.Response:
        one.methods.append(request.method)
        return web.json_response({})

    async with listening(answer) as url:
        one = Recording(url)
        one.client.open(Credentials(one.info))
        yield one
        await one.client.close()


async def test_the_fence_is_closed_until_it_is_decided_who_leads(recording: Recording) -> None:
    with pytest.raises(ApiError, match="no longer the leader"):
        await recording.client.request("POST", "/x", {})
    await recording.client.request("GET", "/x")
    await recording.client.request("PUT", "/lease", {}, fenced=False)

    assert recording.methods == ["GET", "PUT"]


async def test_a_session_refuses_writes_of_which_nothing_says_when_they_may_be_sent(
    recording: Recording,
) -> None:
    async with sessions.session() as session:
        assert session.connector
        assert session.connector.limit == 0  # no call outside waits for another one
        with pytest.raises(ApiError, match="nothing says"):
            await session.post(recording.info.server)
        with fence.unfenced():
            await session.put(recording.info.server)
        with pytest.raises(ApiError, match="nothing says"):  # what a block allows ends with it
            await session.put(recording.info.server)

    assert recording.methods == ["PUT"]


async def test_a_session_with_a_connector_of_its_own_checks_again_once_it_is_connected(
    recording: Recording,
) -> None:
    answers = [True, False]
    recording.client.may_write = lambda: answers.pop(0)
    connector = aiohttp.TCPConnector(limit=1)
    async with recording.client.fenced(connector=connector) as session:
        with pytest.raises(ApiError, match="no longer the leader"):
            await session.post(recording.info.server)
        await session.get(recording.info.server)

    assert recording.methods == ["GET"]


async def test_kopf_s_own_writes_are_fenced(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "find", lambda: recording.info)
    login = await beside_kopf.login(recording.client)
    assert isinstance(login, kopf.AiohttpSession)
    async with login.aiohttp_session as session:
        with pytest.raises(ApiError, match="no longer the leader"):
            await session.request(method="patch", url=login.server)
        recording.client.may_write = lambda: True
        await session.request(method="patch", url=login.server)

    assert recording.methods == ["PATCH"]


async def test_r11_a_write_that_replaces_the_middlewares_is_refused(recording: Recording) -> None:
    recording.client.may_write = lambda: True
    async with recording.client.fenced() as session:
        with pytest.raises(ApiError, match="nothing says"):
            await session.post(recording.info.server, middlewares=())

    assert recording.methods == []


async def test_a_write_of_adapt_is_refused(server: ApiServer, recording: Recording) -> None:
    """Nobody leads yet, and every replica calls it."""
    server.put(LEASE, {"metadata": {"namespace": "ns", "name": "tester"}})
    manager = Manager("tester", Settings)
    manager.client = recording.client
    recorder = Recorder(manager.client, "one", manager.metrics)
    manager._deps = Deps(manager.client, manager.metrics, recorder, Settings())
    refused: list[str] = []

    @manager.adapt
    async def adapt(client: kr.Client, settings: Settings) -> Settings:
        try:
            await client.ask("POST", "/x", {})
        except ApiError as error:
            refused.append(error.reason)
        return settings

    task = asyncio.create_task(manager._run(Settings()))
    await until(lambda: recording.client.may_write())
    task.cancel()
    await asyncio.wait([task])

    assert refused == ["Fenced"]


def test_no_other_session_is_made_in_the_runtime() -> None:
    made = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if re.search(r"ClientSession\(|request_class", path.read_text())
    }

    assert made == {"cluster/sessions.py"}


# --- a release of aiohttp -------------------------------------------------------------------------


async def test_this_release_of_aiohttp_asks_the_fence() -> None:
    await sessions.prove()


@pytest.mark.parametrize("hook", ["middlewares", "connect"])
async def test_a_release_that_does_not_ask_the_fence_is_noticed_at_the_start(
    hook: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if hook == "middlewares":

        def without(handler: Any, _: Any) -> Any:
            return handler

        monkeypatch.setattr(aiohttp.client, "build_client_middlewares", without)
    else:
        monkeypatch.setattr(sessions, "_checking", lambda connector: connector)

    with pytest.raises(sessions.FenceError):
        await sessions.prove()


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager[Settings]]:
    """Return a manager alone in kopf's registry, and without ports."""
    info = kopf.ConnectionInfo(server="https://unused")
    monkeypatch.setattr(credentials, "find", lambda: info)
    before = kopf.get_default_registry()
    kopf.set_default_registry(kopf.OperatorRegistry())
    one = Manager("tester", Settings)
    one._configured = Settings(metrics_bind_address=None, health_probe_bind_address=None)
    yield one
    kopf.set_default_registry(before)


@pytest.mark.parametrize("on", [kopf.on.startup(), kopf.on.probe(), kopf.on.validate("pods"), None])
async def test_r4_whenever_kopf_gets_a_session_its_fence_is_proved(
    manager: Manager[Settings], on: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def prove() -> None:
        raise sessions.FenceError("it is tried")

    monkeypatch.setattr(sessions, "prove", prove)
    if on is not None:
        on(lambda **_: None)
    why = "the manager has no controller" if on is None else "would send what the fence refuses"
    with pytest.raises(SystemExit, match=why):
        await manager._start(kopf.OperatorSettings())


async def test_r9_what_is_missing_is_not_said_to_be_an_extra_unless_it_is_one(
    manager: Manager[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_: Any) -> None:
        raise ImportError("nothing of webhooks")

    monkeypatch.setattr(manager, "_build", missing)
    with pytest.raises(SystemExit, match=r"^\S+: nothing of webhooks\.$"):
        await manager._start(kopf.OperatorSettings())

    monkeypatch.setitem(sys.modules, "kopf_runtime.endpoints.certificates", None)
    settings = Settings(webhook_secret="s", webhook_bind_address=("", 1))
    with pytest.raises(SystemExit, match=r"needs kopf-runtime\[webhooks\]"):
        manager._certify([web.post("/x", missing)], settings)  # type: ignore[arg-type]


PROBE = """
import asyncio
import aiohttp, kopf
from kopf_runtime.cluster import fence, sessions
from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.credentials import Credentials
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.errors import ApiError

async def main():
    await sessions.prove()
    sent = []
    async def serve(reader, writer):
        sent.append((await reader.readline()).split()[0].decode())
        writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\nConnection: close\\r\\n\\r\\n{}")
        await writer.drain()
        writer.close()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = Client("tester", "1", 5.0, Metrics("tester"))
    client.open(Credentials(kopf.ConnectionInfo(server=f"http://127.0.0.1:{port}")))
    try:
        await client.request("DELETE", "/x", {})
    except ApiError as error:
        assert error.reason == "Fenced", error
    await client.request("GET", "/x")
    client.may_write = lambda: True
    await client.request("PUT", "/x", {})
    await client.close()
    print(aiohttp.__version__, *sent)

asyncio.run(main())
"""


@pytest.mark.long
@pytest.mark.parametrize("is_lowest", [True, False], ids=["lowest", "newest"])
def test_the_lowest_and_the_newest_aiohttp_send_no_write_without_the_lease(
    is_lowest: bool, tmp_path: Path
) -> None:
    def run(*command: str | Path) -> str:
        return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout

    uv, python = Path(sys.executable).with_name("uv"), tmp_path / "venv" / "bin" / "python"
    needed = tomllib.loads(PYPROJECT.read_text())["project"]["dependencies"]
    (allowed,) = [one for one in needed if one.startswith("aiohttp")]
    (lowest,) = re.findall(r">=([0-9.]+)", allowed)
    wanted = f"aiohttp=={lowest}" if is_lowest else allowed
    run(uv, "venv", "--quiet", f"--python={sys.executable}", tmp_path / "venv")
    run(uv, "pip", "install", "--quiet", "--upgrade", f"--python={python}", wanted, *needed)
    probe = tmp_path / "probe.py"
    probe.write_text(f"import sys; sys.path.insert(0, {str(SOURCE.parent)!r})\n{PROBE}")

    version, *sent = run(python, probe).split()

    assert version.startswith(f"{lowest}.0") is is_lowest
    assert sent == ["GET", "PUT"]
