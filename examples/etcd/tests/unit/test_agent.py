"""etcd_operator.agent: a backup of a real etcd, and a restore into another one."""

import asyncio
import base64
import contextlib
import hashlib
import os
import random
import subprocess
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from kopf_kit.rig import tools, versions

from etcd_operator import agent, stored
from etcd_operator.agent import AgentError, Backup, Fetch
from etcd_operator.client import EtcdError, Member
from etcd_operator.store import Folder, StoreError

NEWEST = versions.NEWEST_ETCD


class Process:
    """One etcd, which is a cluster, at an address of its own: every port is the usual one."""

    def __init__(self, data: Path, minor: str = NEWEST) -> None:
        self.data, self.minor = data, minor
        self.host = "127.{}.{}.{}".format(*(random.randint(1, 250) for _ in range(3)))  # noqa: S311
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self, session: aiohttp.ClientSession) -> Member:
        client, peer = f"http://{self.host}:2379", f"http://{self.host}:2380"
        flags = (
            f"--data-dir={self.data}",
            "--name=a",
            "--log-level=error",
            "--unsafe-no-fsync",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls=http://10.0.0.1:2379,{client}",  # one is for clients outside
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=a={peer}",
            f"--initial-cluster-token={self.data}",
        )
        [etcd] = tools.etcd(self.minor, "etcd")
        self._process = subprocess.Popen([etcd, *flags])
        member = Member(session, self.host)
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(EtcdError):
                    if (await member.status()).leader:
                        return member
                await asyncio.sleep(0.05)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def left() -> list[str]:
    """Return what is in the volume of a member, apart from the note of the restore."""
    names = [file.name for file in Path(agent.DATA).iterdir()]
    return [name for name in names if not name.startswith(agent.BEGUN)]


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


async def put(member: Member, key: str, value: str = "v") -> None:
    await member.call("kv/put", {"key": b64(key), "value": b64(value)}, msgspec.Raw)


async def keys(member: Member) -> set[str]:
    body = {"key": b64("\0"), "range_end": b64("\0"), "keys_only": True}
    response = await member.call("kv/range", body, dict[str, Any])
    return {base64.b64decode(pair["key"]).decode() for pair in response.get("kvs", ())}


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Process]:
    process = Process(tmp_path / "etcd")
    yield process
    process.stop()


@pytest.fixture
def volumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Mount volumes where the agent expects them."""
    monkeypatch.setattr(agent, "BACKUPS", str(tmp_path / "backups"))
    monkeypatch.setattr(agent, "DATA", str(tmp_path / "data"))
    monkeypatch.setenv(agent.POD, "p1")
    (tmp_path / "data").mkdir()
    return tmp_path


def own(name: str) -> Path:
    """Return a file in the folder of the Pod that runs."""
    return agent.own(Path(agent.DATA)) / name


STORE = stored.Store(volume=stored.Claim(claim="backups"))


def request(etcd: Process, store: stored.Store = STORE, **more: Any) -> Backup:
    return Backup(store=store, folder="ns/c", address=etcd.host, host=f"any.{etcd.host}", **more)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (NEWEST, NEWEST),
        # Go builds these for minutes.
        pytest.param("3.5", "3.5", marks=pytest.mark.long),
        pytest.param("3.5", "3.6", marks=pytest.mark.long),
        pytest.param("3.6", "3.7", marks=pytest.mark.long),
    ],
)
async def test_a_backup_is_restored_into_a_new_cluster_and_no_revision_comes_back(
    etcd: Process, session: aiohttp.ClientSession, volumes: Path, old: str, new: str
) -> None:
    etcd.minor = old
    member = await etcd.start(session)
    for number in range(20):
        await put(member, f"k{number}")
    user = {"name": "someone", "password": "secret"}
    await member.call("auth/user/add", user, msgspec.Raw)
    await member.call("lease/grant", {"ID": "7", "TTL": "1000"}, msgspec.Raw)
    before = await member.status()

    report = await agent.act(request(etcd, cluster_id=before.cluster_id))

    taken = report.taken
    assert taken is not None
    assert (taken.revision, taken.version) == (before.revision, before.version)
    await put(member, "late")
    etcd.stop()

    fetched = await agent.act(Fetch(store=STORE, name=taken.name, version=f"{new}.99"))
    assert fetched.taken == taken
    restored = Process(Path(agent.DATA, agent.BOOTED), new)
    [etcdutl] = tools.etcd(new, "etcdutl")
    peer = f"http://{restored.host}:2380"
    subprocess.run(
        [
            *(etcdutl, "snapshot", "restore", own(agent.FETCHED)),
            *(f"--data-dir={own(agent.MADE)}", "--name=a"),
            *(f"--initial-cluster=a={peer}", f"--initial-advertise-peer-urls={peer}"),
            *("--bump-revision=1000", "--mark-compacted"),
        ],
        check=True,
        capture_output=True,
    )
    await agent.act(agent.Finish())
    await agent.act(agent.Finish())  # a Job may run it twice
    try:
        member = await restored.start(session)
        after = await member.status()
        assert await keys(member) == {f"k{number}" for number in range(20)}
        assert after.revision >= before.revision + 1000
        assert after.cluster_id != before.cluster_id
        assert after.version.startswith(f"{new}.")
        users = await member.call("auth/user/list", {}, dict[str, Any])
        lease = await member.call("lease/timetolive", {"ID": "7"}, dict[str, Any])
        assert (users["users"], lease["grantedTTL"]) == (["someone"], "1000")
    finally:
        restored.stop()
    assert left() == [agent.BOOTED]


@pytest.fixture
async def taken(etcd: Process, session: aiohttp.ClientSession, volumes: Path) -> stored.Taken:
    """A backup in a volume."""
    await put(await etcd.start(session), "key")
    report = await agent.act(request(etcd))
    assert report.taken is not None
    return report.taken


def fetch(taken: stored.Taken, **more: Any) -> Fetch:
    return Fetch(store=STORE, name=taken.name, version=taken.version, **more)


async def test_a_file_that_was_cut_or_altered_is_refused(taken: stored.Taken) -> None:
    file = Path(agent.BACKUPS, taken.name)
    whole = file.read_bytes()
    for damaged in (whole[:-1], whole[:-512], bytes([whole[0] ^ 1]) + whole[1:]):
        file.write_bytes(damaged)

        with pytest.raises(AgentError, match="is not what was backed up"):
            await agent.act(fetch(taken))

        assert not own(agent.FETCHED).exists()
    file.write_bytes(whole)
    with pytest.raises(AgentError, match="is not what was backed up"):
        await agent.act(fetch(taken, sha256="0" * 64))
    assert (await agent.act(fetch(taken, dry=True))).taken == taken
    assert not own(agent.FETCHED).exists()


async def test_a_backup_of_a_newer_etcd_is_refused(taken: stored.Taken) -> None:
    older = msgspec.structs.replace(fetch(taken), version="3.6.16")

    with pytest.raises(AgentError, match=r"which 3\.6\.16 cannot read: restore it into"):
        await agent.act(older)


async def test_a_file_without_a_record_is_no_backup(taken: stored.Taken) -> None:
    record = Path(agent.BACKUPS, taken.name).with_suffix(".json")
    record.unlink()

    with pytest.raises(StoreError, match="No such file"):
        await agent.act(fetch(taken))


async def test_another_cluster_at_the_address_is_not_backed_up(
    etcd: Process, session: aiohttp.ClientSession, volumes: Path
) -> None:
    await etcd.start(session)

    with pytest.raises(AgentError, match=r"not 1d7a$"):
        await agent.act(request(etcd, cluster_id="1d7a"))

    assert not Path(agent.BACKUPS).exists()


async def test_a_member_is_asked_by_its_own_name_though_it_advertises_another(
    etcd: Process, session: aiohttp.ClientSession
) -> None:
    await etcd.start(session)

    assert (await agent.source(session, request(etcd)))[0].address == etcd.host


async def test_no_file_stays_of_a_snapshot_that_breaks(tmp_path: Path) -> None:
    async def breaks() -> AsyncIterator[bytes]:
        yield b"half"
        raise EtcdError("the member went away")

    with pytest.raises(EtcdError):
        await Folder(tmp_path).write("ns/c/one.db", breaks(), 8)

    assert list((tmp_path / "ns" / "c").iterdir()) == []


async def test_a_volume_without_space_is_told_before_it_is_full(tmp_path: Path) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"x"

    with pytest.raises(StoreError, match=r"MiB free, and about \d+ MiB are needed"):
        await Folder(tmp_path).write("one.db", parts(), 1 << 60)


async def test_a_store_that_lost_a_part_is_told(
    etcd: Process, session: aiohttp.ClientSession, volumes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Liar(Folder):
        async def size(self, name: str) -> int:
            return await super().size(name) - 1

    await etcd.start(session)
    monkeypatch.setattr(agent, "open_store", lambda _: Liar(Path(agent.BACKUPS)))

    with pytest.raises(StoreError, match="it lost the rest"):
        await agent.act(request(etcd))

    assert not list(Path(agent.BACKUPS).rglob("*.json"))


@pytest.mark.parametrize("cut", [0, 1, 31, 32, 33, 100])
def test_a_snapshot_is_whole_only_with_the_sum_at_its_end(cut: int) -> None:
    data = bytes(range(200))
    whole = data + hashlib.sha256(data).digest()
    sums = agent.Sum()
    for at in range(0, len(whole) - cut, 7):
        sums.add(whole[: len(whole) - cut][at : at + 7])

    assert sums.whole is (cut == 0)
    assert sums.sha256 == hashlib.sha256(whole[: len(whole) - cut]).hexdigest()


# --- a restore whose Pod runs twice ---------------------------------------------------------------

FETCH = Fetch(store=STORE, name="one.db", version="3.7.0")


@pytest.fixture
def backup(volumes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A volume with a backup, which no etcd has made."""
    monkeypatch.setattr(os, "sync", lambda: None)
    data = b"data" * 1000
    whole = data + hashlib.sha256(data).digest()
    record = stored.Taken(
        name=FETCH.name,
        time="2026-01-02T03:00:00Z",
        revision=7,
        version="3.7.0",
        size=len(whole),
        sha256=hashlib.sha256(whole).hexdigest(),
    )
    (volumes / "backups").mkdir()
    (volumes / "backups" / FETCH.name).write_bytes(whole)
    (volumes / "backups" / "one.json").write_bytes(msgspec.json.encode(record))


def make() -> None:
    """Do as etcdutl, which also makes the folders that it needs."""
    own(agent.MADE).mkdir(parents=True, exist_ok=True)
    own(f"{agent.MADE}/db").write_text(own("").name)


@pytest.mark.usefixtures("backup")
async def test_the_data_of_a_member_stay_when_a_late_pod_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    booted = Path(agent.DATA, agent.BOOTED)
    for pod in ("p1", "p2"):
        monkeypatch.setenv(agent.POD, pod)
        await agent.act(FETCH)
        make()
        await agent.act(agent.Finish())
        assert (booted / "db").read_text() == f"{agent.OWN}p1"
    await agent.act(FETCH)
    make()
    monkeypatch.setattr(Path, "exists", lambda _: False)  # the other one comes right after its look
    with pytest.raises(OSError, match="not empty"):
        await agent.act(agent.Finish())
    assert (booted / "db").read_text() == f"{agent.OWN}p1"


@pytest.mark.usefixtures("backup")
async def test_other_data_are_neither_replaced_nor_taken_for_what_was_restored() -> None:
    booted = Path(agent.DATA, agent.BOOTED)
    booted.mkdir()
    (booted / "db").write_text("other")

    for _ in range(2):
        with pytest.raises(AgentError, match="the volume has other data"):
            await agent.act(FETCH)
    assert (booted / "db").read_text() == "other"
    assert left() == [agent.BOOTED]


@pytest.mark.usefixtures("backup")
async def test_what_an_earlier_restore_has_made_is_not_that_of_a_later_one() -> None:
    first, second = (msgspec.structs.replace(FETCH, token=token) for token in ("one", "two"))
    await agent.act(first)
    make()
    await agent.act(agent.Finish())

    await agent.act(first)
    with pytest.raises(AgentError, match="the volume has other data"):
        await agent.act(second)


# --- what is kept --------------------------------------------------------------------------------

NOW = datetime(2026, 1, 31, tzinfo=UTC)
DAYS = [f"ns/c/202601{day:02}T000000Z-{day}-x" for day in range(1, 31)]


def record(base: str, uid: str = "u1", id_: str = "a1") -> stored.Taken:
    fields: Any = {"time": "", "revision": 1, "version": "3.7.0", "size": 1, "sha256": "0" * 64}
    return stored.Taken(name=f"{base}.db", cluster_uid=uid, cluster_id=id_, **fields)


@pytest.mark.parametrize(
    ("keep", "days", "kept"),
    [(1, 0, 0), (28, 0, 27), (31, 0, 30), (1000, 0, 30), (1000, 7, 7), (3, 7, 2), (5, 3, 3)],
)
def test_so_many_are_kept_beside_the_new_one_and_for_so_long(
    keep: int, days: int, kept: int
) -> None:
    records, new = {base: record(base) for base in DAYS}, record(f"ns/c/{NOW:%Y%m%dT%H%M%SZ}-9-x")
    wants = Backup(store=STORE, folder="ns/c", address="", keep=keep, days=days)

    assert agent.surplus(records, wants, new, NOW) == DAYS[: len(DAYS) - kept]


async def test_of_two_that_run_at_a_time_the_newer_one_is_kept(tmp_path: Path) -> None:
    store, both = Folder(tmp_path), [f"ns/c/{NOW:%Y%m%dT%H%M%SZ}-5-{token}" for token in "ab"]
    for base in (*DAYS[-2:], *both):
        await store.create(f"{base}.json", msgspec.json.encode(record(base)))
        await store.create(f"{base}.db", b"x")
    wants = Backup(store=STORE, folder="ns/c", address="", keep=1)

    deleted: list[str] = []
    for base in both:
        await agent.prune(store, wants, record(base), NOW, deleted)

    assert deleted == [f"{base}.db" for base in (*DAYS[-2:], both[0])]


async def test_what_a_crash_has_left_is_deleted_later_and_other_files_never(
    etcd: Process, session: aiohttp.ClientSession, volumes: Path
) -> None:
    folder = Path(agent.BACKUPS, "ns", "c")
    folder.mkdir(parents=True)
    for name in (f"{DAYS[0]}.db", f"{DAYS[1]}.db", f"{DAYS[2]}.db.part"):
        Path(agent.BACKUPS, name).touch()
    Path(agent.BACKUPS, f"{DAYS[1]}.json").write_bytes(msgspec.json.encode(record(DAYS[1])))
    (folder / "mine.txt").touch()
    await etcd.start(session)

    report = await agent.act(request(etcd, keep=1, cluster_uid="u1"))

    assert report.taken is not None
    assert report.deleted == [f"{DAYS[1]}.db"]
    base = Path(report.taken.name).stem
    assert {file.name for file in folder.iterdir()} == {"mine.txt", f"{base}.db", f"{base}.json"}
