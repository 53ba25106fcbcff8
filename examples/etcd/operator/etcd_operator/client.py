"""A client of the JSON gateway that each member of etcd has; it needs no library and no gRPC.

Each call goes to one member, because most answers are about the member that gives them. The gateway
sends numbers as texts and leaves zeros out, so answers are decoded leniently, with defaults.
"""

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import aiohttp
import msgspec
from msgspec import Struct

T = TypeVar("T")

#: Seconds for an answer of a member about itself, about the cluster, and for what takes longer.
STATUS, LIST, CHANGE, DEFRAGMENT, HASH = 1.5, 2.0, 5.0, 60.0, 30.0


class EtcdError(Exception):
    """A member refused a call, or did not answer; then it may have carried out the call."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        #: gRPC's code; None if there was no answer.
        self.code = code


@dataclass(frozen=True, slots=True)
class Voice:
    """The status that a member reports of itself; IDs are hexadecimal."""

    id: str
    cluster_id: str
    version: str
    leader: str = ""
    revision: int = 0
    index: int = 0
    applied: int = 0
    learner: bool = False
    #: Bytes of its file, of what is in use of it, and that it may have.
    size: int = 0
    used: int = 0
    quota: int = 0
    #: The version of its storage, and the one to which a downgrade is enabled; 3.5 tells neither.
    storage: str = ""
    downgrade: str = ""

    @property
    def leads(self) -> bool:
        """Whether it is the leader."""
        return self.leader == self.id

    @property
    def votes(self) -> bool:
        """Whether it is a voter that knows the leader."""
        return bool(self.leader) and not self.learner


@dataclass(frozen=True, slots=True)
class Listed:
    """A member in the member list."""

    id: str
    #: The name in its peer URL, empty if that is none of this operator's.
    name: str
    learner: bool = False
    #: Whether it has ever started: etcd learns its name only then.
    started: bool = True
    #: Its peer URL; of several, one without TLS.
    url: str = ""

    @property
    def plain(self) -> bool:
        """Whether others reach it without TLS."""
        return not self.url.startswith("https:")


@dataclass(frozen=True, slots=True)
class Alarm:
    """An alarm of a member."""

    id: str
    kind: str


# --- answers, as they are written ---------------------------------------------------------------


class _Header(Struct, frozen=True):
    cluster_id: int = 0
    member_id: int = 0
    revision: int = 0


class _Downgrade(Struct, rename="camel", frozen=True):
    enabled: bool = False
    target_version: str = ""


class _Status(Struct, rename="camel", frozen=True):
    header: _Header = _Header()
    version: str = ""
    leader: int = 0
    raft_index: int = 0
    raft_applied_index: int = 0
    is_learner: bool = False
    db_size: int = 0
    db_size_in_use: int = 0
    db_size_quota: int = 0
    storage_version: str = ""
    downgrade_info: _Downgrade = _Downgrade()


class _Member(Struct, rename="camel", frozen=True):
    id: int = msgspec.field(name="ID", default=0)
    name: str = ""
    peer_urls: list[str] = msgspec.field(name="peerURLs", default_factory=list)
    client_urls: list[str] = msgspec.field(name="clientURLs", default_factory=list)
    is_learner: bool = False


class Members(Struct, frozen=True):
    """The member list, as etcd writes it."""

    members: list[_Member] = []


class _Alarm(Struct, frozen=True):
    member_id: int = msgspec.field(name="memberID", default=0)
    alarm: str = ""


class _Alarms(Struct, frozen=True):
    alarms: list[_Alarm] = []


class _Hash(Struct, frozen=True):
    hash: int = 0
    compact_revision: int = 0


class Refusal(Struct, frozen=True):
    """Why etcd refuses a call."""

    code: int | None = None
    message: str = ""
    error: str = ""


class _Token(Struct, frozen=True):
    token: str = ""


def _hex(number: int) -> str:
    return f"{number:x}" if number else ""


def decimal(id_: str) -> str:
    """Return an ID in the decimal form that the gateway reads."""
    return str(int(id_ or "0", 16))


# --- the client ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Member:
    """A member that can be called by its address, so that no name has to be resolved."""

    session: aiohttp.ClientSession
    address: str
    #: The name that its certificate has, and what is trusted; None without TLS.
    host: str = ""
    tls: ssl.SSLContext | None = None
    token: str = ""

    async def status(self) -> Voice:
        """Return the status that the member reports of itself."""
        response = await self.call("maintenance/status", {}, _Status, STATUS)
        down = response.downgrade_info
        return Voice(
            _hex(response.header.member_id),
            _hex(response.header.cluster_id),
            response.version,
            _hex(response.leader),
            response.header.revision,
            response.raft_index,
            response.raft_applied_index,
            response.is_learner,
            response.db_size,
            response.db_size_in_use,
            response.db_size_quota,
            response.storage_version,
            down.target_version if down.enabled else "",
        )

    async def members(self, name_of: Callable[[str], str]) -> tuple[Listed, ...]:
        """Return the members as a quorum knows them; `name_of` knows them by their peer URLs."""
        response = await self.call("cluster/member/list", {"linearizable": True}, Members, LIST)
        return tuple(
            Listed(
                _hex(member.id),
                next(filter(None, map(name_of, member.peer_urls)), ""),
                member.is_learner,
                bool(member.name),
                min(member.peer_urls, default=""),
            )
            for member in response.members
        )

    async def alarms(self) -> tuple[Alarm, ...]:
        """Return the alarms; without a quorum there is no answer."""
        response = await self.call("maintenance/alarm", {"action": "GET"}, _Alarms, LIST)
        return tuple(Alarm(_hex(alarm.member_id), alarm.alarm) for alarm in response.alarms)

    async def hash(self, revision: int) -> tuple[int, int]:
        """Return the hash of the data up to a revision, and from which revision they are kept."""
        response = await self.call("maintenance/hashkv", {"revision": str(revision)}, _Hash, HASH)
        return response.hash, response.compact_revision

    async def change_password(self, password: str) -> None:
        """Change root's password."""
        body = {"name": "root", "password": password}
        await self.call("auth/user/changepw", body, dict[str, Any])

    async def authenticate(self, password: str) -> str:
        """Return a token of root that every member accepts; empty while auth is off."""
        body = {"name": "root", "password": password}
        try:
            return (await self.call("auth/authenticate", body, _Token, STATUS)).token
        except EtcdError as error:
            if "authentication is not enabled" in str(error):
                return ""
            raise

    async def enable_auth(self, password: str) -> None:
        """Enable auth, with the user root, who may do everything."""
        user, role = {"name": "root", "password": password}, {"user": "root", "role": "root"}
        steps = [("user/add", user), ("role/add", {"name": "root"}), ("user/grant", role)]
        for path, body in steps:
            try:
                await self.call(f"auth/{path}", body, dict[str, Any])
            except EtcdError as error:
                if "already exists" not in str(error):
                    raise
        await self.call("auth/enable", {}, dict[str, Any])

    async def call(
        self, path: str, body: dict[str, Any], type_: type[T], seconds: float = CHANGE
    ) -> T:
        """Call a method; raise `EtcdError` if the member refuses it or does not answer."""
        async with self._post(path, body, aiohttp.ClientTimeout(total=seconds)) as answer:
            text = await answer.read()
        try:
            return msgspec.json.decode(text, type=type_, strict=False)
        except msgspec.MsgspecError:
            raise _refusal(answer.status, text) from None

    async def stream(
        self, path: str, body: dict[str, Any], limit: aiohttp.ClientTimeout
    ) -> AsyncIterator[bytes]:
        """Yield the lines of a method's answer; raise `EtcdError` as `call` does."""
        async with self._post(path, body, limit) as answer:
            async for line in answer.content:  # at most 128 KiB long; etcd's are of 44 KiB
                yield line

    @asynccontextmanager
    async def _post(
        self, path: str, body: dict[str, Any], limit: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        scheme = "http" if self.tls is None else "https"
        host = f"[{self.address}]" if ":" in self.address else self.address
        request = self.session.post(
            f"{scheme}://{host}:2379/v3/{path}",
            json=body,
            headers={"Authorization": self.token} if self.token else {},
            timeout=limit,
            allow_redirects=False,
            ssl=True if self.tls is None else self.tls,
            server_hostname=None if self.tls is None else self.host,
        )
        try:
            async with request as answer:
                if answer.status != 200:
                    raise _refusal(answer.status, await answer.read())
                yield answer
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise EtcdError(f"no answer ({str(error) or 'in time'})") from error


def _refusal(status: int, text: bytes) -> EtcdError:
    try:
        refused = msgspec.json.decode(text, type=Refusal, strict=False)
    except msgspec.MsgspecError:
        return EtcdError(f"{status}: {text.decode(errors='replace').strip()[:300]}")
    return EtcdError(refused.message or refused.error, refused.code)
