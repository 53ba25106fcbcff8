"""An API server in this process: lists, watches, writes with preconditions, field ownership.

It knows just as much of the real one as the tests of `operator/` need, and speaks HTTP as that one
does; what only a real one can show is shown by tests/faults and tests/e2e.
"""

import asyncio
import copy
import itertools
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from kopf_runtime.kinds import CONFIG_MAP, DEPLOYMENT, POD, Key, Kind
from tests.support.ownership import Owners

Raw = dict[str, Any]
#: Answers a request in the server's place; None leaves it to the server.
Answer = Callable[[web.Request], Awaitable[web.StreamResponse | None]]

MESSAGE = Kind("myorg.dev", "v1", "messages", "Message")
LEASE = Kind("coordination.k8s.io", "v1", "leases", "Lease")
EVENT = Kind("", "v1", "events", "Event")

_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<subresource>[^/]+))?)?"
)


class RefusedError(Exception):
    """The server refuses a request."""

    def __init__(self, code: int, reason: str, message: str = "", after: int = 0) -> None:
        self.code, self.reason, self.after = code, reason, after
        self.message = message or f"{reason}: the request was refused"

    def response(self) -> web.Response:
        """Return the answer."""
        status = {
            "kind": "Status", "apiVersion": "v1", "status": "Failure",
            "code": self.code, "reason": self.reason, "message": self.message,
        }  # fmt: skip
        headers = {"Retry-After": str(self.after)} if self.after else {}
        return web.json_response(status, status=self.code, headers=headers)


@dataclass
class Stored:
    """An object, who owns its fields, and the text that is sent instead of it, if any.

    In the text, `VERSION` stands for the object's version.
    """

    raw: Raw
    owners: Owners = field(default_factory=Owners)
    text: bytes | None = None

    def encode(self) -> bytes:
        """Return what is sent."""
        if self.text is not None:
            return self.text.replace(b"VERSION", self.raw["metadata"]["resourceVersion"].encode())
        shown = {**self.raw, "metadata": {**self.raw["metadata"]}}
        shown["metadata"].setdefault("managedFields", self.owners.render())
        return json.dumps(shown, ensure_ascii=False).encode()


@dataclass(frozen=True)
class Change:
    """A line of the history, as watches tell it."""

    version: int
    type: str
    kind: Kind
    namespace: str
    labels: dict[str, str]
    before: dict[str, str] | None  # its labels before; None if it is new
    text: bytes


@dataclass(frozen=True)
class Asked:
    """A request that came in."""

    method: str
    path: str
    query: dict[str, str]

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class ApiServer:
    """Objects by kind and key; `put`, `edit` and `remove` are what somebody else does."""

    def __init__(self, *kinds: Kind) -> None:
        self.kinds = {POD, CONFIG_MAP, DEPLOYMENT, MESSAGE, LEASE, EVENT, *kinds}
        self.url = ""
        self.requests: list[Asked] = []
        #: Asked for each request, in order; the first answer counts.
        self.answers: list[Answer] = []
        #: Changes each object that is created, as a mutating webhook does.
        self.admission: Callable[[Kind, Raw], None] = lambda *_: None
        #: Whether watches miss what happens: a bug in a server, or a proxy that loses lines.
        self.mute = False
        self.version = 1000
        self._objects: dict[tuple[Kind, Key], Stored] = {}
        self._history: list[Change] = []
        self._watches: dict[asyncio.Queue[bytes | None], Callable[[Change], bytes | None]] = {}
        self._uids = itertools.count(1)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["ApiServer"]:
        """Serve while the block lasts."""
        application = web.Application(client_max_size=2**24)
        application.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            self.close_watches()
            await runner.cleanup()

    # --- what somebody else does --------------------------------------------------------------

    def get(self, kind: Kind, key: Key) -> Raw | None:
        """Return an object as it is stored, None if there is none."""
        stored = self._objects.get((kind, key))
        return copy.deepcopy(stored.raw) if stored else None

    def all(self, kind: Kind) -> list[Raw]:
        """Return all objects of a kind."""
        return [copy.deepcopy(s.raw) for (k, _), s in self._objects.items() if k == kind]

    def put(self, kind: Kind, raw: Raw, manager: str = "kubectl-create") -> Raw:
        """Create an object, or replace it."""
        meta = raw["metadata"]
        key = meta.get("namespace", ""), meta["name"]
        former = self._objects.get((kind, key))
        stored = Stored(copy.deepcopy(raw), former.owners if former else Owners())
        self._store(kind, key, stored, manager)
        return copy.deepcopy(stored.raw)

    def edit(
        self, kind: Kind, key: Key, change: Callable[[Raw], object], manager: str = "kubectl-edit",
        subresource: str = "",
    ) -> Raw:  # fmt: skip
        """Change an object."""
        former = self._objects[kind, key]
        raw = copy.deepcopy(former.raw)
        change(raw)
        self._store(kind, key, Stored(raw, former.owners), manager, subresource)
        return raw

    def put_text(self, kind: Kind, key: Key, text: bytes, labels: dict[str, str]) -> None:
        """Store an object whose JSON is this text, in which `VERSION` is its version."""
        self.version += 1
        raw = {
            "metadata": {
                "namespace": key[0], "name": key[1], "uid": f"uid-{next(self._uids)}",
                "resourceVersion": str(self.version), "labels": labels,
            }
        }  # fmt: skip
        former = self._objects.get((kind, key))
        self._objects[kind, key] = Stored(raw, text=text)
        self._tell("MODIFIED" if former else "ADDED", kind, key, former)

    def remove(self, kind: Kind, key: Key) -> None:
        """Delete an object at once."""
        stored = self._objects[kind, key]
        self.version += 1
        stored.raw["metadata"]["resourceVersion"] = str(self.version)
        self._tell("DELETED", kind, key, stored)
        del self._objects[kind, key]

    def snapshot(self) -> Callable[[], None]:
        """Return what restores the state of now, as a restore of etcd does."""
        objects, version = copy.deepcopy(self._objects), self.version

        def restore() -> None:
            self._objects, self.version = objects, version
            self._history = [change for change in self._history if change.version <= version]
            self.close_watches()

        return restore

    def bookmark(self) -> None:
        """Tell all watches the version that they have seen."""
        for queue in self._watches:
            queue.put_nowait(_bookmark(self.version))

    def close_watches(self) -> None:
        """End all watches, as a server does that goes on answering."""
        for queue in self._watches:
            queue.put_nowait(None)

    @property
    def watches(self) -> int:
        """How many watches are open."""
        return len(self._watches)

    @property
    def writes(self) -> list[str]:
        """The writes so far, without those of Events and of the Lease."""
        return [
            str(one) for one in self.requests
            if one.method != "GET" and not re.search("/(events|leases)(/|$)", one.path)
        ]  # fmt: skip

    @property
    def events(self) -> list[Raw]:
        """The Events that were posted."""
        return self.all(EVENT)

    def refuse(
        self, method: str, path: str, error: RefusedError, times: float = 1
    ) -> list[web.Request]:
        """Refuse the next requests whose method and path match; return those that were."""
        met: list[web.Request] = []

        async def answer(request: web.Request) -> web.Response | None:
            matches = request.method == method and re.search(path, request.path)
            if not matches or len(met) >= times:
                return None
            met.append(request)
            return error.response()

        self.answers.append(answer)
        return met

    # --- storage ------------------------------------------------------------------------------

    def _store(
        self, kind: Kind, key: Key, stored: Stored, manager: str, subresource: str = ""
    ) -> None:
        former = self._objects.get((kind, key))
        before = former.raw if former else {"metadata": {}}
        meta = stored.raw["metadata"]
        if former is not None and stored.raw == former.raw:
            return  # nothing changes: no new version
        self.version += 1
        meta.setdefault("uid", f"uid-{next(self._uids)}")
        meta.setdefault("creationTimestamp", _now())
        meta["resourceVersion"] = str(self.version)
        old = before.get("metadata", {}).get("generation", 0)
        edited = before.get("spec") != stored.raw.get("spec")
        deleted = bool(meta.get("deletionTimestamp")) and not before["metadata"].get(
            "deletionTimestamp"
        )
        meta["generation"] = max(meta.get("generation", 0), 1, old + (edited or deleted))
        stored.raw.setdefault("apiVersion", kind.api_version)
        stored.raw.setdefault("kind", kind.kind)
        stored.owners.changed(before, stored.raw, manager, subresource)
        self._objects[kind, key] = stored
        self._tell("MODIFIED" if former else "ADDED", kind, key, former)

    def _tell(self, type_: str, kind: Kind, key: Key, former: Stored | None) -> None:
        stored = self._objects[kind, key]
        change = Change(
            self.version, type_, kind, key[0], stored.raw["metadata"].get("labels") or {},
            (former.raw["metadata"].get("labels") or {}) if former else None, stored.encode(),
        )  # fmt: skip
        if self.mute:
            return
        self._history.append(change)
        for queue, select in self._watches.items():
            if (line := select(change)) is not None:
                queue.put_nowait(line)

    # --- requests -----------------------------------------------------------------------------

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(Asked(request.method, request.path, dict(request.query)))
        for answer in self.answers:
            if (given := await answer(request)) is not None:
                return given
        try:
            return await self._serve(request)
        except RefusedError as error:
            return error.response()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        match = _PATH.fullmatch(request.path)
        if match is None or match["plural"] not in {kind.plural for kind in self.kinds}:
            return self._discover(request.path)
        parts = match.groupdict()
        kind = next(
            (k for k in self.kinds if (k.group, k.plural) == (parts["group"] or "", parts["plural"])),
            None,
        )  # fmt: skip
        if kind is None:
            raise RefusedError(404, "NotFound", "the server could not find the requested resource")
        namespace, name = parts["namespace"] or "", parts["name"]
        if request.method == "GET" and not name:
            if request.query.get("watch"):
                return await self._watch(request, kind, parts["namespace"])
            return self._list(request, kind, parts["namespace"])
        body = await request.read()
        manager = request.query.get("fieldManager") or request.headers["User-Agent"].split("/")[0]
        if request.method == "POST":
            return self._create(kind, namespace, json.loads(body), manager)
        key = namespace, str(name)
        if request.method == "PATCH" and "apply" in request.content_type:
            return self._apply(request, kind, key, json.loads(body), manager)
        stored = self._objects.get((kind, key))
        if stored is None:
            raise RefusedError(404, "NotFound", f'{kind} "{key[1]}" not found')
        match request.method:
            case "GET":
                return _json(stored.encode())
            case "PATCH":
                return self._patch(kind, key, stored, json.loads(body), manager, parts)
            case "PUT":
                return self._replace(kind, key, stored, json.loads(body), manager)
            case "DELETE":
                return self._delete(kind, key, stored, json.loads(body or b"{}"))
        raise RefusedError(405, "MethodNotAllowed")

    def _discover(self, path: str) -> web.Response:
        if path == "/version":
            return web.json_response({"major": "1", "minor": "34"})
        groups = sorted({(kind.group, kind.version) for kind in self.kinds})
        if path == "/api":
            return web.json_response({"versions": ["v1"]})
        if path == "/apis":
            return web.json_response({"groups": [
                {"name": group, "versions": [{"groupVersion": f"{group}/{version}",
                 "version": version}], "preferredVersion": {"version": version}}
                for group, version in groups if group
            ]})  # fmt: skip
        resources = [
            {"name": kind.plural, "kind": kind.kind, "namespaced": kind.namespaced,
             "singularName": kind.kind.lower(),
             "verbs": ["list", "watch", "get", "create", "patch", "update", "delete"]}
            for kind in self.kinds
            if path == ("/apis/" if kind.group else "/api/") + kind.api_version
        ]  # fmt: skip
        if not resources:
            raise RefusedError(404, "NotFound", "the server could not find the requested resource")
        return web.json_response({"kind": "APIResourceList", "resources": resources})

    def _list(self, request: web.Request, kind: Kind, namespace: str | None) -> web.Response:
        wanted = _selector(request.query.get("labelSelector", ""))
        found = [
            stored.encode() for (k, key), stored in self._objects.items()
            if k == kind and namespace in (None, key[0])
            and wanted(stored.raw["metadata"].get("labels") or {})
        ]  # fmt: skip
        start = int(request.query.get("continue") or 0)
        limit = int(request.query.get("limit") or len(found) or 1)
        following = str(start + limit) if start + limit < len(found) else ""
        metadata = json.dumps({"resourceVersion": str(self.version), "continue": following})
        items = b",".join(found[start : start + limit])
        return _json(b'{"metadata":%s,"items":[%s]}' % (metadata.encode(), items))

    async def _watch(
        self, request: web.Request, kind: Kind, namespace: str | None
    ) -> web.StreamResponse:
        wanted = _selector(request.query.get("labelSelector", ""))

        def select(change: Change) -> bytes | None:
            if change.kind != kind or namespace not in (None, change.namespace):
                return None
            now, before = wanted(change.labels), change.before and wanted(change.before)
            type_ = change.type
            if not now:  # it went out of sight
                type_ = "DELETED" if before else ""
            elif type_ == "MODIFIED" and not before:
                type_ = "ADDED"
            return b'{"type":"%s","object":%s}\n' % (type_.encode(), change.text) if type_ else None

        since = int(request.query["resourceVersion"])
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        for change in self._history:
            if change.version > since and (line := select(change)) is not None:
                queue.put_nowait(line)

        def live(change: Change) -> bytes | None:
            return select(change) if change.version > since else None

        response = web.StreamResponse()
        await response.prepare(request)
        self._watches[queue] = live
        try:
            while (line := await queue.get()) is not None:
                await response.write(line)
        finally:
            del self._watches[queue]
        return response

    def _create(self, kind: Kind, namespace: str, raw: Raw, manager: str) -> web.Response:
        key = namespace, raw["metadata"]["name"]
        if (kind, key) in self._objects:
            raise RefusedError(409, "AlreadyExists", f'{kind} "{key[1]}" already exists')
        raw["metadata"]["namespace"] = namespace
        self.admission(kind, raw)
        self._store(kind, key, Stored(raw), manager)
        return _json(self._objects[kind, key].encode(), 201)

    def _apply(
        self, request: web.Request, kind: Kind, key: Key, given: Raw, manager: str
    ) -> web.Response:
        former = self._objects.get((kind, key))
        uid = given["metadata"].pop("uid", None)
        if uid is not None and (former is None or former.raw["metadata"]["uid"] != uid):
            raise RefusedError(409, "Conflict", "uid mismatch: the provided object is not there")
        if former is None:
            return self._create(kind, key[0], given, manager)
        raw = _merge(copy.deepcopy(former.raw), given)
        former.owners.applied(former.raw, given, manager)
        self._store(kind, key, Stored(raw, former.owners), manager)
        return _json(self._objects[kind, key].encode())

    def _patch(
        self, kind: Kind, key: Key, stored: Stored, patch: Raw, manager: str, parts: Raw
    ) -> web.Response:
        meta = patch.get("metadata") or {}
        version = meta.pop("resourceVersion", stored.raw["metadata"]["resourceVersion"])
        if version != stored.raw["metadata"]["resourceVersion"]:
            raise RefusedError(409, "Conflict", "the object has been modified")
        if parts["subresource"]:
            patch = {"status": patch.get("status")}
        raw = _merge(copy.deepcopy(stored.raw), patch)
        patched = Stored(raw, stored.owners, stored.text)
        self._store(kind, key, patched, manager, parts["subresource"] or "")
        return _json(self._objects[kind, key].encode())

    def _replace(
        self, kind: Kind, key: Key, stored: Stored, raw: Raw, manager: str
    ) -> web.Response:
        if raw["metadata"].get("resourceVersion") != stored.raw["metadata"]["resourceVersion"]:
            raise RefusedError(409, "Conflict", "the object has been modified")
        self._store(kind, key, Stored(raw, stored.owners), manager)
        return _json(self._objects[kind, key].encode())

    def _delete(self, kind: Kind, key: Key, stored: Stored, options: Raw) -> web.Response:
        uid = stored.raw["metadata"]["uid"]
        if (options.get("preconditions") or {}).get("uid", uid) != uid:
            raise RefusedError(409, "Conflict", "the UID in the precondition does not match")
        held = stored.raw["metadata"].get("finalizers") or (
            kind == POD and (stored.raw.get("spec") or {}).get("nodeName")
        )
        if held:  # whoever holds it ends it: the kubelet, the finalizer's controller
            self.edit(
                kind, key, lambda raw: raw["metadata"].setdefault("deletionTimestamp", _now())
            )
            return _json(self._objects[kind, key].encode())
        self.remove(kind, key)
        return web.json_response({"kind": "Status", "status": "Success"})


def _json(payload: bytes, status: int = 200) -> web.Response:
    return web.Response(body=payload, content_type="application/json", status=status)


def _bookmark(version: int) -> bytes:
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}}
    return json.dumps(bookmark).encode() + b"\n"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _merge(into: Any, patch: Any) -> Any:
    """Apply a JSON merge patch."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(into) if isinstance(into, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge(merged.get(name), value)
    return merged


def _selector(text: str) -> Callable[[dict[str, str]], bool]:
    terms = [term.partition("=") for term in text.split(",") if term]
    return lambda labels: all(
        labels.get(name) == value if sign else name in labels for name, sign, value in terms
    )
