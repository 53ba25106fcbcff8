"""Does one step for a child: creates, applies, deletes; each write with a precondition.

`controller` calls it with what `plan` decided. The answer of each write goes into the cache, so
that a stale echo cannot make us act twice.
"""

import logging
from typing import Any

import msgspec

from kopf_runtime.client import APPLY_PATCH, ApiError, Client
from kopf_runtime.kinds import Kind
from kopf_runtime.objects import Object, UnreadableError, decode
from kopf_runtime.pace import Pace
from kopf_runtime.plan import Plan
from kopf_runtime.queue import RetryError
from kopf_runtime.records import Child, Primary, Wanted
from kopf_runtime.source import Source
from kopf_runtime.templates import MANAGED_BY, Marks, Templates

logger = logging.getLogger(__name__)


class MutatedError(Exception):
    """An admission webhook took away what the operator knows its children by."""


class Applier:
    """Writes the children of one kind of objects."""

    def __init__(
        self, client: Client, templates: Templates, marks: Marks, primaries: Source[Primary],
        type_: type[Object], children: dict[Kind, Source[Child]], pace: Pace,
    ) -> None:  # fmt: skip
        self._client, self._templates, self._marks = client, templates, marks
        self._primaries, self._children, self._pace = primaries, children, pace
        self._decoder = msgspec.json.Decoder(type_)
        self._mutated: dict[str, str] = {}  # uids of children that a webhook changed, and how

    def check(self, child: Child) -> None:
        """Raise `MutatedError` for a child that a webhook changed when it was made."""
        if child.uid in self._mutated:
            raise MutatedError(self._mutated[child.uid])

    async def create(self, primary: Primary, wanted: Wanted) -> Child | None:
        """Make a child; None if something of that name is there already."""
        body = await self._body(primary, wanted)
        count = self._pace.count(wanted.kind, wanted.key)
        if count:
            manifest = msgspec.json.decode(body)
            manifest["metadata"]["annotations"][self._marks.replaced] = str(count)
            body = msgspec.json.encode(manifest)
        try:
            raw = await self._client.request(
                "POST", wanted.kind.path(wanted.key[0]), body, params=self._manager()
            )
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            return None
        return self._made(primary, wanted, raw, "created")

    async def apply(self, primary: Primary, wanted: Wanted, child: Child | None) -> Child | None:
        """Make a child by server-side apply, or change it in place.

        None if something of that name is there already and is not known to be ours.
        """
        body = await self._body(primary, wanted)
        if child is None:
            if await self.look(wanted.kind, wanted) is not None:
                return None
        else:  # only onto this very child
            manifest = msgspec.json.decode(body)
            manifest["metadata"]["uid"] = child.uid
            body = msgspec.json.encode(manifest)
        force = "false" if child is None else "true"
        raw = await self._client.request(
            "PATCH", wanted.kind.at(wanted.key), body, content_type=APPLY_PATCH,
            params={**self._manager(), "force": force},
        )  # fmt: skip
        return self._made(primary, wanted, raw, "applied")

    async def delete(self, kind: Kind, child: Child, plan: Plan) -> Child | None:
        """Delete just this child; None once it is gone, else as it is on its way out."""
        body = {"preconditions": {"uid": child.uid}, "propagationPolicy": "Background"}
        children = self._children[kind]
        try:
            raw = await self._client.request("DELETE", kind.at(child.key), body)
        except ApiError as error:
            if error.status == 404:
                self._pace.lost(kind, child, self._client.now())
                children.cache.drop(child)
                raise RetryError(f"{kind.kind} {child.key[1]} is gone already") from None
            raise
        logger.info("deleted %s %s: %s", kind.kind, child.key[1], plan.why)
        self._mutated.pop(child.uid, None)
        try:
            left = children.read(raw)
        except UnreadableError:  # a Status: it was gone at once
            left = None
        if left is None or not left.deleting:
            self._pace.lost(kind, child, self._client.now())
            children.cache.drop(child)
            return None
        return children.learn(raw) if self.is_watched(left) else left

    async def verify(self, primary: Primary, child: Child) -> None:
        """Ask for the object itself: by old news no child is deleted.

        The answer comes from etcd, however late the watch may be. Raise `RetryError` if it differs
        from what is known.
        """
        raw = await self._client.request("GET", self._primaries.kind.at(primary.key))
        fresh = self._primaries.learn(raw)
        if fresh.uid != primary.uid or fresh.deleting or (
            fresh.generation > primary.generation or (fresh.generation >= child.generation > 0
            and child.owner == primary.uid)
        ):  # fmt: skip
            raise RetryError(f"the {self._primaries.kind.kind} changed meanwhile")

    async def look(self, kind: Kind, wanted: Wanted) -> Child | None:
        """Ask for the object that has a child's name; None without one."""
        try:
            raw = await self._client.request("GET", kind.at(wanted.key))
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        child = self._children[kind].read(raw)
        # What no watch tells about is not remembered: none would tell when it goes.
        return self._children[kind].learn(raw) if self.is_watched(child) else child

    def is_watched(self, child: Child) -> bool:
        """Tell whether a watch will tell what becomes of a child."""
        return bool(child.made_for) and MANAGED_BY not in child.unlabelled

    def _manager(self) -> dict[str, str]:
        return {"fieldManager": self._client.manager}

    def _made(self, primary: Primary, wanted: Wanted, raw: bytes, verb: str) -> Child:
        child = self._children[wanted.kind].read(raw)
        self._pace.made(wanted.kind, wanted.key)
        logger.info("%s %s %s", verb, wanted.kind.kind, wanted.key[1])
        lost = [
            *(f"the label {label}" for label in child.unlabelled),
            *(["the owner reference"] if child.owner != primary.uid else []),
        ]
        if lost:
            self._mutated[child.uid] = (
                f"admission removed or changed {', '.join(lost)} of {wanted.kind.kind} "
                f"{wanted.key[1]}, by which the operator knows it; exempt it from the webhook "
                "or policy that does so"
            )
            while len(self._mutated) > 1000:
                self._mutated.pop(next(iter(self._mutated)))
            if not self.is_watched(child):
                self.check(child)
        child = self._children[wanted.kind].learn(raw)
        self.check(child)
        return child

    async def _body(self, primary: Primary, wanted: Wanted) -> bytes:
        """Return the manifest to send, made again from the object itself where it was not kept."""
        body = self._templates.body(wanted)
        if body is None:
            raw = await self._client.request("GET", self._primaries.kind.at(primary.key))
            self._primaries.learn(raw)
            self._templates.make(decode(self._decoder, raw))
            body = self._templates.body(wanted)
        if body is None:
            raise RetryError(f"the {self._primaries.kind.kind} was edited meanwhile")
        return body


def differing(labels: dict[str, str], marks: Marks, uid: str) -> tuple[str, ...]:
    """Return the labels that every child has and these lack, or have with other values."""
    wanted: dict[str, Any] = {MANAGED_BY: marks.manager, marks.uid: uid}
    return tuple(label for label, value in wanted.items() if labels.get(label) != value)
