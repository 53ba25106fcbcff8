"""Adds to an object of others' kind what its author declares, and takes it away again.

It is a server-side apply with a field manager of its own, which takes no field from anybody: so the
API server knows what is ours, and removes just that. A label finds the objects that have something.
"""

from typing import Any
from urllib.parse import urlencode

import msgspec
from msgspec.structs import replace

from kopf_runtime.cluster.client import APPLY_PATCH, Client
from kopf_runtime.declaring.errors import ApiError
from kopf_runtime.declaring.kinds import Key
from kopf_runtime.declaring.records import Owner
from kopf_runtime.reporting.troubles import DONE, Outcome, changed, contribution_conflict
from kopf_runtime.watching.caches import Caches
from kopf_runtime.working.fields import CONTRIBUTION, Ownership
from kopf_runtime.working.others import Others, Part
from kopf_runtime.working.planner import Planner
from kopf_runtime.working.templates import Marks, digest

#: How the API server refuses a uid: there is no such object, or another one of the name.
_OTHER = ("uid mismatch", "metadata.uid: Invalid value")


class Contribution:
    """What is added to the objects of one kind."""

    def __init__(
        self, client: Client, caches: Caches, planner: Planner, marks: Marks, others: Others
    ) -> None:
        self._client, self._planner, self._marks = client, planner, marks
        self._others = others
        self._owners, self._kind = caches.owners, caches.kind
        self._manager = f"{client.manager}{CONTRIBUTION}"
        #: The hash of what was found to be in place, and the digest of the fields that it has.
        self._settled: dict[Key, tuple[str, str]] = {}

    def forget(self, key: Key) -> None:
        """Forget an object that is gone."""
        self._settled.pop(key, None)

    async def settle(self, owner: Owner) -> Outcome:
        """Have an object have what is to be added to it, or nothing."""
        cached = self._owners.cache.get(owner.key) or owner
        wanted, hashed = self._wanted(cached)
        if not wanted and not cached.contributed:
            return DONE
        if cached.state != owner.state:
            raise changed("it changed meanwhile")
        state, there = (hashed, cached.contributed), self._there(cached)
        if not wanted:
            stop = self._others.contends(cached, there) or await self.undo(cached)
            if not stop:
                self._others.taken_over(cached, there)
            return stop
        if self._settled.get(owner.key) == state and there.template == hashed:
            return DONE
        body = self._body(cached, wanted, hashed)
        if cached.contributed and await self._is_there(cached, body):  # by another process
            self._settled[owner.key] = state
            return DONE
        ours = replace(there, template=hashed)
        if stop := self._others.contends(cached, there, ours):
            return stop
        if stop := await self._apply(cached, body, hashed):
            return stop
        self._others.taken_over(cached, there, ours)
        return DONE

    def pending(self, owner: Owner) -> bool:
        """Return whether what is to be added to an object has changed."""
        wanted, hashed = self._wanted(owner)
        return bool(wanted or owner.contributed) and hashed != self._there(owner).template

    def _there(self, owner: Owner) -> Part:
        """Return what an object says of what was added to it last."""
        noted = (owner.thing.metadata.annotations if owner.thing is not None else None) or {}
        names = self._marks.contribution, self._marks.written_by
        return Part(self._kind, owner.key, *(noted.get(name, "")[:253] for name in names))

    def _wanted(self, owner: Owner) -> tuple[dict[str, Any], str]:
        wanted = self._planner.contribution(owner)
        return wanted, digest(msgspec.json.encode(wanted, order="sorted")) if wanted else ""

    async def undo(self, owner: Owner) -> Outcome:
        """Take from an object what was added to it."""
        self.forget(owner.key)
        return await self._apply(owner, self._identity(owner), "") if owner.contributed else DONE

    async def _apply(self, owner: Owner, body: dict[str, Any], hashed: str) -> Outcome:
        query = urlencode({"fieldManager": self._manager, "fieldValidation": "Strict"})
        path = self._kind.at(owner.key)
        try:
            raw = await self._client.request(
                "PATCH", path, body, content_type=APPLY_PATCH, query=query
            )
        except ApiError as error:
            if any(text in error.message for text in _OTHER):
                raise changed("it is gone, or another one has its name") from error
            if error.status != 409:
                raise
            return contribution_conflict(self._kind.kind, error.message)
        learned = self._owners.learn(raw)
        if hashed:
            self._settled[owner.key] = hashed, learned.contributed
        return DONE

    async def _is_there(self, owner: Owner, body: dict[str, Any]) -> bool:
        live = await self._client.ask("GET", self._kind.at(owner.key))
        noted = (live["metadata"].get("annotations") or {}).get(self._marks.contribution)
        ours = body["metadata"]["annotations"][self._marks.contribution]
        return noted == ours and not Ownership(self._manager).compare(body, live).altered

    def _identity(self, owner: Owner) -> dict[str, Any]:
        namespace, name = owner.key
        metadata = {"name": name, "uid": owner.uid} | (
            {"namespace": namespace} if namespace else {}
        )
        return {
            "apiVersion": self._kind.api_version,
            "kind": self._kind.kind,
            "metadata": metadata,
        }

    def _body(self, owner: Owner, wanted: dict[str, Any], hashed: str) -> dict[str, Any]:
        """Return what is applied: the author's fields, and the marks that find and tell them."""
        whole, given = self._identity(owner), wanted.get("metadata") or {}
        marks = {
            "labels": {self._marks.served: self._client.manager},
            "annotations": self._marks.signed({self._marks.contribution: hashed}),
        }
        for part, ours in marks.items():
            whole["metadata"][part] = {**(given.get(part) or {}), **ours}
        return {**{k: v for k, v in wanted.items() if k not in whole}, **whole}
