"""An API server in this process: lists, watches, writes with preconditions, field ownership.

It implements as much of the real one as the tests of `operator/` need, and uses HTTP like it;
tests/faults and tests/e2e test what only a real one can show.
"""

import asyncio
import copy
import json
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from kopf_runtime.declaring.kinds import POD, Key, Kind
from runtime.support.store import EVENT, LEASE, MESSAGE, Change, Raw, Store, Stored, now

__all__ = ["EVENT", "LEASE", "MESSAGE", "ApiServer", "Asked", "Raw", "RefusedError", "listening"]

#: Answers a request in the server's place; None leaves it to the server.
Answer = Callable[[web.Request], Awaitable[web.StreamResponse | None]]

_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<subresource>[^/]+))?)?"
)


@asynccontextmanager
async def listening(
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[str]:
    """Answer each request during the block; yield the URL."""
    application = web.Application(client_max_size=2**24)
    application.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class RefusedError(Exception):
    """The server refused a request."""

    def __init__(
        self, code: int, reason: str, message: str = "", after: int = 0, **details: str
    ) -> None:
        self.code, self.reason, self.after, self.details = code, reason, after, details
        self.message = message or f"{reason}: the request was refused"

    def response(self) -> web.Response:
        """Return the response with the error."""
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": self.code,
            "reason": self.reason,
            "message": self.message,
            "details": self.details,
        }
        headers = {"Retry-After": str(self.after)} if self.after else {}
        return web.json_response(status, status=self.code, headers=headers)


@dataclass(frozen=True)
class Asked:
    """A request that the server received."""

    method: str
    path: str
    query: dict[str, str]

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class ApiServer(Store):
    """Serves a `Store`."""

    def __init__(self, *kinds: Kind) -> None:
        super().__init__(*kinds)
        self.url = ""
        self.requests: list[Asked] = []
        #: What each deletion asked for what depends on the object.
        self.policies: list[str] = []
        #: Called for each request, in order; the first answer is used.
        self.answers: list[Answer] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator["ApiServer"]:
        """Serve during the block."""
        async with listening(self._answer) as self.url:
            try:
                yield self
            finally:
                self.close_watches()

    @property
    def writes(self) -> list[str]:
        """The writes so far, except those of Events and of the Lease."""
        return [
            str(request)
            for request in self.requests
            if request.method != "GET"
            and not request.query.get("dryRun")
            and not re.search("/(events|leases)(/|$)", request.path)
        ]

    def refuse(
        self, method: str, path: str, error: RefusedError, times: float = 1
    ) -> list[web.Request]:
        """Refuse the next requests whose method and path match; return the refused ones."""
        met: list[web.Request] = []

        async def answer(request: web.Request) -> web.Response | None:
            matches = request.method == method and re.search(path, request.path)
            if not matches or len(met) >= times:
                return None
            met.append(request)
            return error.response()

        self.answers.append(answer)
        return met

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
        named = (match["group"] or "", match["plural"])
        kind = next((k for k in self.kinds if (k.group, k.plural) == named), None)
        if kind is None:
            raise RefusedError(404, "NotFound", "the server could not find the requested resource")
        if match["name"]:
            key = match["namespace"] or "", match["name"]
            return await self._serve_object(request, kind, key, match["subresource"] or "")
        if request.method == "POST":
            raw = await request.json()
            dry = bool(request.query.get("dryRun"))
            return self._create(kind, match["namespace"] or "", raw, _manager(request), dry=dry)
        if request.query.get("watch"):
            return await self._watch(request, kind, match["namespace"])
        return self._list(request, kind, match["namespace"])

    async def _serve_object(
        self, request: web.Request, kind: Kind, key: Key, subresource: str
    ) -> web.Response:
        body = json.loads(await request.read() or b"{}")
        manager = _manager(request)
        if request.query.get("dryRun"):
            raw = copy.deepcopy(self.objects[kind, key].raw)
            return _json(json.dumps(_merge(raw, body)).encode())
        if request.method == "PATCH" and "apply" in request.content_type:
            force = request.query.get("force") == "true"
            return self._apply(kind, key, body, manager, force=force)
        stored = self.objects.get((kind, key))
        if stored is None:
            raise RefusedError(404, "NotFound", f'{kind} "{key[1]}" not found')
        match request.method:
            case "GET":
                return _json(stored.encode())
            case "PATCH":
                return self._patch(kind, key, stored, body, manager, subresource)
            case "PUT":
                return self._replace(kind, key, stored, body, manager)
            case "DELETE":
                return self._delete(kind, key, stored, body)
        raise RefusedError(405, "MethodNotAllowed")

    def _discover(self, path: str) -> web.Response:
        if path == "/version":
            return web.json_response({"major": "1", "minor": "34"})
        groups = sorted({(kind.group, kind.version) for kind in self.kinds})
        if path == "/api":
            return web.json_response({"versions": ["v1"]})
        if path == "/apis":
            return web.json_response(
                {
                    "groups": [
                        {
                            "name": group,
                            "versions": [
                                {"groupVersion": f"{group}/{version}", "version": version}
                            ],
                            "preferredVersion": {"version": version},
                        }
                        for group, version in groups
                        if group
                    ]
                }
            )
        resources = [
            {
                "name": kind.plural,
                "kind": kind.kind,
                "namespaced": kind.namespaced,
                "singularName": kind.kind.lower(),
                "verbs": ["list", "watch", "get", "create", "patch", "update", "delete"],
            }
            for kind in self.kinds
            if path == ("/apis/" if kind.group else "/api/") + kind.api_version
        ]
        if not resources:
            raise RefusedError(404, "NotFound", "the server could not find the requested resource")
        return web.json_response({"kind": "APIResourceList", "resources": resources})

    def _list(self, request: web.Request, kind: Kind, namespace: str | None) -> web.Response:
        wanted = _selector(request.query.get("labelSelector", ""))
        found = [
            stored.encode()
            for (k, key), stored in self.objects.items()
            if k == kind
            and namespace in (None, key[0])
            and wanted(stored.raw["metadata"].get("labels") or {})
        ]
        start = int(request.query.get("continue") or 0)
        limit = int(request.query.get("limit") or len(found) or 1)
        following = str(start + limit) if start + limit < len(found) else ""
        metadata = json.dumps({"resourceVersion": str(self.version), "continue": following})
        items = b",".join(found[start : start + limit])
        return _json(b'{"metadata":%s,"items":[%s]}' % (metadata.encode(), items))

    async def _watch(
        self, request: web.Request, kind: Kind, namespace: str | None
    ) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with self.watched(kind, namespace, request.query) as queue:
            while (line := await queue.get()) is not None:
                await response.write(line)
        return response

    @contextmanager
    def watched(
        self, kind: Kind, namespace: str | None, query: Mapping[str, str]
    ) -> Iterator[asyncio.Queue[bytes | None]]:
        """Return a queue that gets the lines of a watch during the block, and None at its end."""
        wanted, since = _selector(query.get("labelSelector", "")), int(query["resourceVersion"])

        def select(change: Change) -> bytes | None:
            if change.kind != kind or namespace not in (None, change.namespace):
                return None
            if change.version <= since:
                return None
            now, before = wanted(change.labels), change.before and wanted(change.before)
            type_ = change.type
            if not now:  # the selector no longer matches it
                type_ = "DELETED" if before else ""
            elif type_ == "MODIFIED" and not before:
                type_ = "ADDED"
            return b'{"type":"%s","object":%s}\n' % (type_.encode(), change.text) if type_ else None

        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        for line in filter(None, map(select, self.history)):
            queue.put_nowait(line)
        self.watches[queue] = select
        try:
            yield queue
        finally:
            del self.watches[queue]

    def _create(
        self, kind: Kind, namespace: str, raw: Raw, manager: str, *, dry: bool = False
    ) -> web.Response:
        meta = raw["metadata"]
        key = namespace, meta.setdefault("name", f"{meta.pop('generateName', '')}{self.version}")
        if (kind, key) in self.objects:
            raise RefusedError(409, "AlreadyExists", f'{kind} "{key[1]}" already exists')
        raw["metadata"]["namespace"] = namespace
        created = Stored(raw)
        created.owners.changed({}, raw, manager)  # before admission, which may remove some
        self.admission(kind, raw)
        key = namespace, meta["name"]
        if dry:
            return _json(json.dumps(raw).encode(), 201)
        self.store(kind, key, created, manager)
        return _json(self.objects[kind, key].encode(), 201)

    def _apply(
        self, kind: Kind, key: Key, given: Raw, manager: str, *, force: bool
    ) -> web.Response:
        former = self.objects.get((kind, key))
        uid = given["metadata"].pop("uid", None)
        version = given["metadata"].pop("resourceVersion", None)
        if version and former and former.raw["metadata"]["resourceVersion"] != version:
            raise RefusedError(409, "Conflict", "the object has been modified")
        if uid is not None and (former is None or former.raw["metadata"]["uid"] != uid):
            raise RefusedError(409, "Conflict", "uid mismatch: the provided object is not there")
        if former is None:
            return self._create(kind, key[0], given, manager)
        if not force and (theirs := former.owners.conflicts(former.raw, given, manager)):
            raise RefusedError(409, "Conflict", f"Apply failed with conflicts: {sorted(theirs)}")
        raw = _merge(copy.deepcopy(former.raw), given)
        self.admission(kind, raw)
        for path in former.owners.applied(former.raw, given, manager):
            _drop(raw, path)
        self.store(kind, key, Stored(raw, former.owners), manager)
        return _json(self.objects[kind, key].encode())

    def _patch(
        self, kind: Kind, key: Key, stored: Stored, patch: Raw, manager: str, subresource: str
    ) -> web.Response:
        meta = patch.get("metadata") or {}
        version = meta.pop("resourceVersion", stored.raw["metadata"]["resourceVersion"])
        if version != stored.raw["metadata"]["resourceVersion"]:
            raise RefusedError(409, "Conflict", "the object has been modified")
        if subresource:
            patch = {"status": patch.get("status")}
        raw = _merge(copy.deepcopy(stored.raw), patch)
        self.admission(kind, raw)
        patched = Stored(raw, stored.owners, stored.text)
        self.store(kind, key, patched, manager, subresource)
        answer = _json(self.objects[kind, key].encode())
        if raw["metadata"].get("deletionTimestamp") and meta.get("finalizers") == []:
            self.remove(kind, key)
        return answer

    def _replace(
        self, kind: Kind, key: Key, stored: Stored, raw: Raw, manager: str
    ) -> web.Response:
        if raw["metadata"].get("resourceVersion") != stored.raw["metadata"]["resourceVersion"]:
            raise RefusedError(409, "Conflict", "the object has been modified")
        self.store(kind, key, Stored(raw, stored.owners), manager)
        return _json(self.objects[kind, key].encode())

    def _delete(self, kind: Kind, key: Key, stored: Stored, options: Raw) -> web.Response:
        meta = stored.raw["metadata"]
        self.policies.append(options.get("propagationPolicy", ""))
        for name, value in (options.get("preconditions") or {}).items():
            if meta[name] != value:
                raise RefusedError(409, "Conflict", f"the {name} in the precondition differs")
        spec = stored.raw.get("spec") or {}
        runs, held = kind == POD and "nodeName" in spec, bool(meta.get("finalizers"))
        if held or runs:  # the kubelet, or the finalizer's controller, ends it
            grace = spec.get("terminationGracePeriodSeconds", 30)
            marks = {"deletionTimestamp": now(), "deletionGracePeriodSeconds": grace if runs else 0}
            self.edit(kind, key, lambda raw: raw.update(metadata=marks | raw["metadata"]))
            answer = _json(self.objects[kind, key].encode())
            if not held and not grace:
                self.remove(kind, key)
            return answer
        self.remove(kind, key)
        return web.json_response({"kind": "Status", "status": "Success"})


def _drop(raw: Raw, path: tuple[str, ...]) -> None:
    """Remove a field; what is in a list stays."""
    *steps, last = (step.partition(":")[2] for step in path)
    for step in steps:
        raw = raw.get(step) or {}
    if all(step.startswith("f:") for step in path):
        raw.pop(last, None)


def _manager(request: web.Request) -> str:
    return request.query.get("fieldManager") or request.headers["User-Agent"].split("/")[0]


def _json(payload: bytes, status: int = 200) -> web.Response:
    return web.Response(body=payload, content_type="application/json", status=status)


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
