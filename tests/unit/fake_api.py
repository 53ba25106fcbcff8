"""A stand-in for the boundary: objects by path, with resource versions, uids and preconditions.

It knows just as much of an API server as the unit tests need. What only a real one can show is
shown by tests/e2e.
"""

import copy
import itertools
from collections.abc import AsyncIterator
from typing import Any

from message_operator.kube import Api, ApiError

Raw = dict[str, Any]


class FakeApi(Api):
    """Answers the requests of ``Api`` from memory, and remembers the writes."""

    def __init__(self) -> None:
        super().__init__(timeout=1)
        self.objects: dict[str, Raw] = {}
        self.writes: list[str] = []
        #: Errors that the next requests with this method meet, whatever their path.
        self.refusals: dict[str, list[ApiError]] = {}
        self._counter = itertools.count(100)

    def put(self, path: str, raw: Raw) -> Raw:
        """Store an object as somebody else would have."""
        meta = raw.setdefault("metadata", {})
        meta.setdefault("uid", f"uid-{next(self._counter)}")
        meta["resourceVersion"] = str(next(self._counter))
        meta.setdefault("generation", 1)
        self.objects[path] = raw
        return copy.deepcopy(raw)

    def refuse(self, method: str, status: int, reason: str, after: float = 0.0) -> None:
        """Refuse the next request with this method."""
        error = ApiError(method, "/", status, reason, f"{reason} it is", after)
        self.refusals.setdefault(method, []).append(error)

    async def request(
        self, method: str, path: str, body: Raw | None = None, *,
        content_type: str = "application/json", params: dict[str, str] | None = None,
        fenced: bool = True,
    ) -> Raw:  # fmt: skip
        if method != "GET":
            self.writes.append(f"{method} {path}")
        if self.refusals.get(method):
            raise self.refusals[method].pop(0)
        answer = getattr(self, f"_{method.lower()}")(path, copy.deepcopy(body or {}))
        return copy.deepcopy(answer)

    async def pages(
        self, path: str, params: dict[str, str] | None = None
    ) -> AsyncIterator[tuple[list[Raw], int]]:
        found = [raw for place, raw in self.objects.items() if place.startswith(f"{path}/")]
        yield copy.deepcopy(found), next(self._counter)

    def _find(self, path: str) -> Raw:
        if path not in self.objects:
            raise ApiError("GET", path, 404, "NotFound", "not found")
        return self.objects[path]

    def _get(self, path: str, _: Raw) -> Raw:
        return self._find(path)

    def _post(self, path: str, body: Raw) -> Raw:
        place = f"{path}/{body['metadata']['name']}"
        if place in self.objects:
            raise ApiError("POST", path, 409, "AlreadyExists", "already exists")
        return self.put(place, body)

    def _patch(self, path: str, body: Raw) -> Raw:
        place, _, _ = path.partition("/status")
        raw = self._find(place)
        wanted = body.get("metadata", {}).get("resourceVersion", raw["metadata"]["resourceVersion"])
        if wanted != raw["metadata"]["resourceVersion"]:
            raise ApiError("PATCH", path, 409, "Conflict", "the object has been modified")
        parts = (
            {"status": {**raw.get("status", {}), **body["status"]}} if "status" in body else body
        )
        return self.put(place, {**raw, **parts})

    def _put(self, path: str, body: Raw) -> Raw:
        raw = self._find(path)
        if body["metadata"]["resourceVersion"] != raw["metadata"]["resourceVersion"]:
            raise ApiError("PUT", path, 409, "Conflict", "the object has been modified")
        return self.put(path, body)

    def _delete(self, path: str, body: Raw) -> Raw:
        raw = self._find(path)
        if (
            body.get("preconditions", {}).get("uid", raw["metadata"]["uid"])
            != raw["metadata"]["uid"]
        ):
            raise ApiError("DELETE", path, 409, "Conflict", "the uid differs")
        if raw["spec"].get("nodeName"):  # it runs: the kubelet ends it, then it goes
            raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            return self.put(path, raw)
        del self.objects[path]
        return {"kind": "Status", "status": "Success"}
