"""Backups in a bucket: on versitygw, an S3 server whose store is a folder. It is built by Go."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from kopf_kit.rig import tools

from etcd_operator import agent, stored
from etcd_operator.agent import Backup, Fetch
from etcd_operator.client import EtcdError
from etcd_operator.store import PART, StoreError
from tests.unit.test_agent import Process, etcd, own, put, session, volumes

__all__ = ["etcd", "session", "volumes"]
pytestmark = pytest.mark.long  # the server takes two minutes to build
KEYS = {"AWS_ACCESS_KEY_ID": "backup", "AWS_SECRET_ACCESS_KEY": "not-a-real-secret"}


@dataclass
class Server:
    """An S3 server with one bucket."""

    folder: Path
    url: str
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        port = self.url.rpartition(":")[2]
        flags = [
            f"--port=127.0.0.1:{port}",
            f"--access={KEYS['AWS_ACCESS_KEY_ID']}",
            f"--secret={KEYS['AWS_SECRET_ACCESS_KEY']}",
            "--quiet",
        ]
        [program] = tools.built("versitygw")
        self.process = subprocess.Popen([program, *flags, "posix", self.folder])
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", int(port))):
                return

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def store(self) -> stored.Store:
        return stored.Store(s3=stored.S3(bucket="backups", endpoint=self.url, prefix="p"))


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """Run a server on a folder."""
    (folder / "backups").mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    server = Server(folder, url)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path / "s3") as server:
        yield server


def files(server: Server) -> set[str]:
    """Return all that is in the bucket, unfinished uploads included."""
    paths = (server.folder / "backups").rglob("*")
    return {file.name for file in paths if file.is_file()}


async def test_a_backup_is_read_back_and_the_older_one_is_deleted(
    server: Server, etcd: Process, session: aiohttp.ClientSession, volumes: Path
) -> None:
    await put(member := await etcd.start(session), "key")
    request = Backup(store=server.store(), folder="ns/c", address=etcd.host, keep=1)
    first = (await agent.act(request)).taken
    assert first is not None
    await put(member, "key")  # in one second, only the revision says which one is older

    report = await agent.act(request)

    assert report.taken is not None
    assert report.deleted == [first.name]
    assert len(files(server)) == 2
    fetch = Fetch(store=server.store(), name=report.taken.name, version=report.taken.version)
    assert (await agent.act(fetch)).taken == report.taken
    assert own(agent.FETCHED).stat().st_size == report.taken.size


async def parts(number: int) -> AsyncIterator[bytes]:
    for _ in range(number):
        yield os.urandom(PART)


async def test_nothing_is_in_the_bucket_when_the_snapshot_breaks(server: Server) -> None:
    async def breaks() -> AsyncIterator[bytes]:
        async for part in parts(2):
            yield part
        raise EtcdError("the member went away")

    with pytest.raises(EtcdError, match="went away"):
        await agent.open_store(server.store()).write("ns/c/one.db", breaks(), 0)

    assert files(server) == set()


async def test_no_record_is_written_twice(server: Server) -> None:
    store = agent.open_store(server.store())
    await store.create("one.json", b"1")

    with pytest.raises(StoreError, match="already exists"):
        await store.create("one.json", b"2")


async def test_what_a_store_refuses_is_told(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(StoreError, match=r"SignatureDoesNotMatch|403"):
        await agent.open_store(server.store()).write("one.db", parts(1), 0)
    monkeypatch.undo()

    other = stored.Store(s3=stored.S3(bucket="no-such-bucket", endpoint=server.url))
    with pytest.raises(StoreError):
        await agent.open_store(other).create("one.json", b"")


async def test_a_store_that_is_down_is_waited_for(server: Server) -> None:
    store = agent.open_store(server.store())
    server.stop()
    writes = asyncio.create_task(store.write("one.db", parts(3), 0))
    await asyncio.sleep(1)
    server.start()
    await writes

    assert await store.size("one.db") == 3 * PART


async def test_a_store_that_stays_down_is_told(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("etcd_operator.store.DOWN", 1)
    store = agent.open_store(server.store())
    server.stop()

    with pytest.raises(StoreError, match="the store: "):
        await store.write("one.db", parts(1), 0)


@contextlib.asynccontextmanager
async def answering(handle: Callable[[web.Request], Awaitable[web.Response]]) -> AsyncIterator[str]:
    """Serve in place of S3; yield the URL."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("fields", "headers"),
    [
        ({}, {}),
        ({"encryption": "AES256"}, {"": "AES256"}),
        ({"encryption": "aws:kms", "kms_key": "key"}, {"": "aws:kms", "-aws-kms-key-id": "key"}),
    ],
)
async def test_the_store_is_asked_to_encrypt(
    fields: dict[str, Any], headers: dict[str, str]
) -> None:
    asked: dict[str, str] = {}

    async def take(request: web.Request) -> web.Response:
        await request.read()
        asked.update({name.lower(): value for name, value in request.headers.items()})
        return web.Response(headers={"ETag": '"1"'})

    async with answering(take) as url:
        s3 = stored.S3(bucket="backups", endpoint=url, **fields)
        await agent.open_store(stored.Store(s3=s3)).create("one.json", b"1")

    prefix = "x-amz-server-side-encryption"
    given = {name: value for name, value in asked.items() if name.startswith(prefix)}
    assert given == {f"{prefix}{name}": value for name, value in headers.items()}


LARGE = """
import asyncio, os, resource, sys
from collections.abc import AsyncIterator
from etcd_operator import agent, stored
from etcd_operator.store import PART

async def parts() -> AsyncIterator[bytes]:
    for number in range(20):
        yield bytes([number]) * PART

async def main() -> None:
    where = stored.Store(s3=stored.S3(bucket="backups", endpoint=sys.argv[1]))
    store = agent.open_store(where)
    await store.write("one.db", parts(), 0)
    read = 0
    async for block in store.read("one.db"):
        read += len(block)
    assert read == 20 * PART
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)

asyncio.run(main())
sys.stdout.flush()
os._exit(0)  # as the agent does
"""


def test_the_agent_needs_no_more_memory_for_a_large_snapshot(server: Server) -> None:
    peak = subprocess.run(
        [sys.executable, "-c", LARGE, server.url],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": "operator"},
    ).stdout

    assert int(peak) < 256  # MiB, of 320 MiB
