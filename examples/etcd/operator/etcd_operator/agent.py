"""The agent takes or fetches a backup in a Job: `python -m etcd_operator.agent`.

It runs in the operator's image. `REQUEST` says what to do; credentials are files and variables of
the Job's Pod. The termination message says how it ended: a `Report`, or one sentence that says what
went wrong. No step keeps a whole snapshot in memory.
"""

import asyncio
import contextlib
import hashlib
import os
import secrets
import shutil
import sys
import time
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import kopf_runtime as kr
import msgspec
from msgspec import Struct

from etcd_operator import client, stored, versions
from etcd_operator.client import EtcdError, Member, Voice
from etcd_operator.store import PART, Bucket, Folder, Store, StoreError, check_space
from etcd_operator.stored import Report, Sha256, Taken

#: The variables by which a Job tells the agent what it is to do, the password of etcd's root, and
#: the uid of the agent's Pod.
REQUEST, PASSWORD, POD = "ETCD_AGENT_REQUEST", "ETCD_AGENT_PASSWORD", "ETCD_AGENT_POD"
#: Where a Job mounts the certificate of a client, the authority of a store, a volume with backups
#: and the volume of a member.
TLS, CA, BACKUPS, DATA = "/etc/etcd/tls", "/etc/store/tls", "/backups", "/var/lib/etcd"
#: What a restore writes there: a folder of each Pod's, whose name begins like this, with the file
#: that was fetched and what etcdutl makes of it; a file that says which restore has begun on the
#: empty volume; and what the member then boots from.
OWN, FETCHED, MADE, BEGUN, BOOTED = "restore-", "fetched.db", "new", "begun-", "data"
MESSAGE = Path("/dev/termination-log")
#: Seconds without a byte of a snapshot, and until a file that has no record was left by a crash.
SILENCE, LEFT = 60.0, timedelta(days=2)
#: Backups that are deleted in one run at most: their names have to fit into the message.
AT_ONCE = 15

_DIGEST = hashlib.sha256().digest_size
_STAMP = "%Y%m%dT%H%M%SZ"


class AgentError(Exception):
    """The request cannot be carried out; the message tells the user why."""


class Backup(Struct, tag=True, frozen=True, kw_only=True):
    """Take a backup of a cluster."""

    store: stored.Store
    #: The folder of the EtcdBackup in the store.
    folder: str
    #: The address of the Service for clients, and the name that the members' certificates have.
    address: str
    host: str = ""
    tls: bool = False
    #: What the backup is of.
    cluster_id: str = ""
    cluster_uid: str = ""
    #: How many backups are kept, and for how many days at most; the newest one is always kept.
    keep: int = 28
    days: int = 0
    #: The IDs of other clusters, none of whose backups is kept.
    discard: list[str] = []


class Fetch(Struct, tag=True, frozen=True, kw_only=True):
    """Read a backup, verify it, and write it to the volume of a member, unless `dry`."""

    store: stored.Store
    name: str
    version: str
    #: If there is no record of it in the store, or another one is not trusted.
    sha256: Sha256 | None = None
    dry: bool = False
    #: Which restore it is part of.
    token: str = ""


class Finish(Struct, tag=True, frozen=True, kw_only=True):
    """Move what etcdutl made to where the member boots from."""


Request = Backup | Fetch | Finish


def open_store(store: stored.Store) -> Store:
    """Return the store that a request names."""
    if store.volume is not None:
        return Folder(Path(BACKUPS, store.volume.path))
    assert store.s3 is not None
    s3, ca = store.s3, Path(CA, "ca.crt")
    config: dict[str, Any] = {"region": s3.region, "virtual_hosted_style_request": s3.virtual_hosts}
    config |= {"endpoint": s3.endpoint} if s3.endpoint else {}
    config |= {"server_side_encryption": s3.encryption} if s3.encryption else {}
    config |= {"sse_kms_key_id": s3.kms_key} if s3.kms_key else {}
    return Bucket(s3.bucket, s3.prefix, ca.read_text() if s3.ca_secret else "", config)


# --- a snapshot on its way -----------------------------------------------------------------------


class Sum:
    """The SHA-256 of a snapshot, and the SHA-256 that etcd appends to it."""

    def __init__(self) -> None:
        self.size, self._end = 0, b""
        self._rest = hashlib.sha256()  # of all but the end

    def add(self, block: bytes) -> None:
        """Take the next bytes."""
        self.size += len(block)
        ahead = self._end + block
        self._rest.update(ahead[:-_DIGEST])
        self._end = ahead[-_DIGEST:]

    @property
    def sha256(self) -> str:
        """The SHA-256 of the whole snapshot, including its end."""
        whole = self._rest.copy()
        whole.update(self._end)
        return whole.hexdigest()

    @property
    def whole(self) -> bool:
        """Whether the snapshot ends with the SHA-256 of everything before."""
        return self._rest.digest() == self._end


class _Blob(Struct, frozen=True):
    remaining_bytes: int = 0
    blob: bytes = b""  # base64


class _Line(Struct, frozen=True):
    result: _Blob = _Blob()
    error: client.Refusal | None = None


async def snapshot(member: Member, sum_: Sum) -> AsyncIterator[bytes]:
    """Yield a member's snapshot in parts; raise `EtcdError` at its end if it is incomplete."""
    lines = msgspec.json.Decoder(_Line, strict=False)
    part, missing = bytearray(), 1
    timeout = aiohttp.ClientTimeout(sock_connect=5, sock_read=SILENCE)
    async for line in member.stream("maintenance/snapshot", {}, timeout):
        answer = lines.decode(line)
        if answer.error is not None:
            raise EtcdError(answer.error.message)
        missing = answer.result.remaining_bytes
        sum_.add(answer.result.blob)
        part += answer.result.blob
        if len(part) >= PART:
            print(f"{sum_.size >> 20} MiB are read, {missing >> 20} MiB remain", flush=True)
            yield bytes(part)
            part.clear()
    if missing or not sum_.whole:
        raise EtcdError(f"the snapshot is cut off after {sum_.size} bytes, or was altered")
    yield bytes(part)


# --- backup --------------------------------------------------------------------------------------


async def source(session: aiohttp.ClientSession, request: Backup) -> tuple[Member, Voice]:
    """Return the healthy follower that has applied the most, and its status.

    Return the leader if no follower is healthy. A quorum says who the members are, and a read makes
    the member catch up with all that was acknowledged.
    """
    tls = None
    if request.tls:
        parts = (Path(TLS, name).read_text() for name in ("tls.crt", "tls.key", "ca.crt"))
        tls = kr.tls_context(*parts)
    door = Member(session, request.address, request.host, tls)
    token = await door.authenticate(password) if (password := os.environ.get(PASSWORD)) else ""
    door = Member(session, request.address, request.host, tls, token)
    listed = await door.call("cluster/member/list", {"linearizable": True}, client.Members)
    own = request.host.partition(".")[2]  # others are for clients outside, and may be listed first
    urls = (urlsplit(url).hostname or "" for member in listed.members for url in member.client_urls)
    hosts = dict.fromkeys(host for host in urls if host.endswith(own))
    members = [Member(session, host, host, tls, token) for host in hosts]
    answers = await asyncio.gather(*(member.status() for member in members), return_exceptions=True)
    able = [
        (member, voice)
        for member, voice in zip(members, answers, strict=True)
        if isinstance(voice, Voice) and voice.votes
    ]
    if not able:
        raise AgentError(f"none of the members is healthy: {'; '.join(map(str, answers))}")
    member, voice = max(able, key=lambda pair: (not pair[1].leads, pair[1].applied))
    if request.cluster_id and voice.cluster_id != request.cluster_id:
        raise AgentError(
            f"{request.address} is cluster {voice.cluster_id}, not {request.cluster_id}"
        )
    await member.call("kv/range", {"key": "AA==", "limit": "1", "keys_only": True}, msgspec.Raw)
    return member, await member.status()


async def backup(request: Backup) -> Report:
    """Take a backup, verify it, and delete those of its cluster that exceed `keep` and `days`."""
    store, began, sum_ = open_store(request.store), time.monotonic(), Sum()
    async with aiohttp.ClientSession() as session:
        member, voice = await source(session, request)
        now = datetime.now(UTC)
        base = f"{request.folder}/{now:{_STAMP}}-{voice.revision}-{secrets.token_hex(4)}"
        name = f"{base}.db"
        await store.write(name, snapshot(member, sum_), voice.size)
    if (size := await store.size(name)) != sum_.size:
        raise StoreError(f"the store has {size} of {sum_.size} bytes: it lost the rest")
    taken = Taken(
        name=name,
        time=f"{now:%Y-%m-%dT%H:%M:%SZ}",
        revision=voice.revision,
        version=voice.version,
        cluster_id=voice.cluster_id,
        cluster_uid=request.cluster_uid,
        size=sum_.size,
        sha256=sum_.sha256,
        seconds=round(time.monotonic() - began, 1),
    )
    await store.create(f"{base}.json", msgspec.json.encode(taken))
    deleted: list[str] = []
    try:
        warning = await prune(store, request, taken, now, deleted)
    except StoreError as error:
        warning = f"Old backups stay: {error}"[:500]
    return Report(taken=taken, deleted=deleted, warning=warning)


Records = Mapping[str, Taken]


def of_cluster(records: Records, *ids: str) -> set[str]:
    """Return the backups of a cluster, of which a uid or an ID in etcd is known.

    It has had several IDs if it was restored, and several uids if its volumes were adopted. Each
    backup has one of both, so they lead from one to the other.
    """
    known, found = {*ids} - {""}, set[str]()
    while more := {
        base
        for base, taken in records.items()
        if base not in found and known & {taken.cluster_uid, taken.cluster_id}
    }:
        found |= more
        pairs = ((records[base].cluster_uid, records[base].cluster_id) for base in more)
        known |= {id_ for pair in pairs for id_ in pair} - {""}
    return found


def surplus(records: Records, request: Backup, taken: Taken, now: datetime) -> list[str]:
    """Return which older backups to delete, now that there is a new one.

    `keep` and `days` are about this cluster alone. Those of other ones stay until a person decides.
    """
    own = of_cluster(records, taken.cluster_uid, taken.cluster_id)
    ordered = sorted(base for base in own if f"{base}.db" < taken.name)
    many = ordered[: max(0, len(ordered) - request.keep + 1)]
    limit = timedelta(days=request.days)
    old = [base for base in ordered if limit and now - _time(base) > limit]
    return sorted({*many, *old, *(of_cluster(records, *request.discard) - own)})


def others(records: Records, request: Backup, taken: Taken) -> str:
    """Return a sentence about the backups of other clusters that stay; empty if none do."""
    known = of_cluster(records, taken.cluster_uid, taken.cluster_id)
    if not (rest := sorted(records.keys() - known - of_cluster(records, *request.discard))):
        return ""
    ids = sorted({records[base].cluster_id for base in rest if records[base].cluster_id})
    text = f"{len(rest)} backups of former clusters of this name stay, the newest of which is "
    text += f"{rest[-1]}.db; to delete them, add to spec.keep.discard: {', '.join(ids)}"
    return f"{text[:499]}."


async def prune(
    store: Store, request: Backup, taken: Taken, now: datetime, deleted: list[str]
) -> str:
    """Delete surplus backups, note each one, and return a sentence about those of other clusters.

    Only those from before this one count, so that the newest stays though Kubernetes may run the
    Pod of a Job twice at a time. Files that crashes have left are deleted, too.
    """
    names = [name for name in await store.names(request.folder) if _time(name) <= now]
    recorded = {name.removesuffix(".json") for name in names if name.endswith(".json")}
    records = {}
    for base in recorded:
        content = b"".join([block async for block in store.read(f"{base}.json")])
        with contextlib.suppress(msgspec.MsgspecError):  # of no cluster that is known
            records[base] = msgspec.json.decode(content, type=Taken)
    for base in surplus(records, request, taken, now)[:AT_ONCE]:
        await store.delete(f"{base}.json")  # first: without it, the file is no backup
        await store.delete(f"{base}.db")
        deleted.append(f"{base}.db")
        del records[base]
    for name in names:
        base = name.removesuffix(".json").removesuffix(".part").removesuffix(".db")
        if base not in recorded and now - _time(name) > LEFT:
            await store.delete(name)
    return others(records, request, taken)


def _time(name: str) -> datetime:
    """Return when a file was begun; return the latest time for a file that is not the agent's."""
    try:
        stamp = name.rpartition("/")[2].partition("-")[0]
        return datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return datetime.max.replace(tzinfo=UTC)


# --- restore -------------------------------------------------------------------------------------
#
# Two Pods of the Job may run at once, such as after a node was lost that comes back. So each works
# in a folder of its own, and the first one that is done moves the result to `BOOTED`: no folder can
# be moved to one that has files.


def own(data: Path) -> Path:
    """Return the folder in which this Pod works."""
    return data / f"{OWN}{os.environ[POD]}"


def begin(data: Path, token: str) -> None:
    """Refuse a volume with data that are not of this restore: they would count as restored."""
    begun = data / f"{BEGUN}{token}"
    if (data / BOOTED).exists() and not begun.exists():
        raise AgentError(f"the volume has other data in {data / BOOTED}, which stay as they are")
    begun.touch()


def clear(data: Path) -> None:
    """Delete the folders of all Pods of the Job.

    Each is renamed first, so that its Pod cannot move to `BOOTED` what is half deleted.
    """
    for folder in list(data.glob(f"{OWN}*")):
        gone = data / f"{OWN}gone-{secrets.token_hex(4)}"
        with contextlib.suppress(FileNotFoundError):  # another Pod was faster
            folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


async def fetch(request: Fetch, data: Path) -> Report:
    """Fetch and verify a backup; refuse one that the requested version of etcd cannot read."""
    store, sum_ = open_store(request.store), Sum()
    record = f"{request.name.removesuffix('.db')}.json"
    blocks = [block async for block in store.read(record)]
    try:
        taken = msgspec.json.decode(b"".join(blocks), type=Taken)
    except msgspec.MsgspecError as error:
        raise AgentError(f"{record} is no record of a backup: {error}") from error
    if versions.minor(taken.version) > versions.minor(request.version):
        raise AgentError(
            f"{request.name} is of etcd {taken.version}, which {request.version} cannot read: "
            "restore it into a cluster of that version"
        )
    if not request.dry:
        begin(data, request.token)
        clear(data)
        check_space(data, 2 * taken.size, "enlarge it")  # etcdutl makes another file of this one
        own(data).mkdir()
    target = Path(os.devnull) if request.dry else own(data) / FETCHED
    with target.open("wb") as file:
        async for block in store.read(request.name):
            sum_.add(block)
            file.write(block)
    if (sum_.size, sum_.sha256) != (taken.size, request.sha256 or taken.sha256) or not sum_.whole:
        clear(data)
        raise AgentError(
            f"{request.name} is not what was backed up: {sum_.size} of {taken.size} bytes, SHA-256 "
            f"{sum_.sha256}; restore another backup"
        )
    return Report(taken=taken)


def finish(data: Path) -> Report:
    """Move what was made to where the member boots from, unless that is there already."""
    if not (data / BOOTED).exists():
        (own(data) / FETCHED).unlink()  # it is gone if another Pod has cleared the folder
        os.sync()  # etcdutl does not sync all that it writes
        (own(data) / MADE).rename(data / BOOTED)
        os.sync()
    clear(data)
    return Report()


# --- the program ---------------------------------------------------------------------------------


async def act(request: Request) -> Report:
    """Carry out a request."""
    if isinstance(request, Backup):
        return await backup(request)
    data = Path(DATA)
    return await fetch(request, data) if isinstance(request, Fetch) else finish(data)


def main() -> int:
    """Carry out the request in `REQUEST`; return the exit code."""
    try:
        report = asyncio.run(act(msgspec.json.decode(os.environ[REQUEST], type=Request)))
    except (AgentError, EtcdError, StoreError, OSError) as error:
        message = str(error) or type(error).__name__
        if isinstance(error, EtcdError):
            message = f"etcd: {message}"
        print(message, file=sys.stderr)
        MESSAGE.write_text(message[:1000])
        return 1
    text = msgspec.json.encode(report).decode()
    print(text)
    MESSAGE.write_text(text)
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # The store's threads may be at work still: while the interpreter ends, that can abort it.
    os._exit(code)
