"""Backups to a store that is full: its file system is a small one, in a namespace of its own."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from etcd_operator import agent, stored
from etcd_operator.agent import Backup, Sum
from etcd_operator.client import Member
from etcd_operator.store import StoreError
from tests.faults.nodes import mounted
from tests.unit.test_agent import STORE, Process, etcd, put, session, volumes
from tests.unit.test_bucket import keys, serving

__all__ = ["etcd", "keys", "session", "volumes"]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 96 MiB."""
    (place := tmp_path / "disk").mkdir()
    with mounted(place, "-t", "tmpfs", "-o", "size=96m", "tmpfs") as disk:
        yield disk


@pytest.fixture
def volume(disk: Path, volumes: Path, monkeypatch: pytest.MonkeyPatch) -> stored.Store:
    monkeypatch.setattr(agent, "BACKUPS", str(disk / "backups"))
    return STORE


@pytest.fixture
def bucket(disk: Path, volumes: Path, keys: None) -> Iterator[stored.Store]:
    with serving(disk) as server:
        yield server.store()


def files(disk: Path) -> dict[Path, int]:
    """Return the sizes of all files, unfinished uploads included."""
    paths = (disk / "backups").rglob("*")
    return {file: file.stat().st_size for file in paths if file.is_file()}


@pytest.mark.parametrize(
    ("kind", "size"), [("volume", 2), pytest.param("bucket", 17, marks=pytest.mark.long)]
)
async def test_a_store_that_becomes_full_keeps_what_it_has_and_serves_once_there_is_space(
    kind: str,
    size: int,
    request: pytest.FixtureRequest,
    disk: Path,
    etcd: Process,
    session: aiohttp.ClientSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("etcd_operator.store.DOWN", 1)
    monkeypatch.setattr(agent, "PART", 1 << 20)
    real, neighbour = agent.snapshot, disk / "neighbour"

    async def crowded(member: Member, sum_: Sum) -> AsyncIterator[bytes]:
        async for part in real(member, sum_):
            yield part
            with neighbour.open("wb", buffering=0) as file, contextlib.suppress(OSError):
                while file.write(bytes(1 << 20)):
                    pass

    member = await etcd.start(session)
    for number in range(size):  # MiB, so that there is more than one part
        await put(member, f"k{number}", "v" * (1 << 20))
    store: stored.Store = request.getfixturevalue(kind)
    wants = Backup(store=store, folder="ns/c", address=etcd.host, keep=1)
    first = (await agent.act(wants)).taken
    assert first is not None
    before = files(disk)

    with monkeypatch.context() as patched:
        patched.setattr(agent, "snapshot", crowded)
        with pytest.raises(StoreError, match=r"No space left on device|Insufficient Storage"):
            await agent.act(wants)
    assert files(disk) == before
    with pytest.raises(StoreError, match=r"MiB free, and about|Insufficient Storage"):
        await agent.act(wants)
    assert files(disk) == before

    neighbour.unlink()
    await put(member, "key")  # in one second, only the revision says which one is older
    report = await agent.act(wants)
    assert (report.deleted, report.taken is not None) == ([first.name], True)
