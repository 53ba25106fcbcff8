"""Carries out a step for a child: creates, applies or deletes it, each time with a precondition.

`act` calls it with what `decide` returned. The answer of each write goes into the cache, so that
a stale event cannot make us act twice.
"""

import contextlib
import logging
from typing import Any
from urllib.parse import urlencode

import msgspec
from msgspec.structs import replace

from kopf_runtime.cluster.client import APPLY_PATCH, Client
from kopf_runtime.declaring.errors import ApiError
from kopf_runtime.declaring.objects import UnreadableError, decode
from kopf_runtime.declaring.records import Child, Owner, Plan, Step, Update, Wanted
from kopf_runtime.reporting.troubles import (
    StepError,
    changed,
    changed_by_admission,
    contradicted,
    invalid_plan,
)
from kopf_runtime.watching.caches import Caches
from kopf_runtime.working.decide import stripped
from kopf_runtime.working.drift import Drift, remember
from kopf_runtime.working.fields import OWNER
from kopf_runtime.working.others import Others
from kopf_runtime.working.pace import Pace
from kopf_runtime.working.planner import Planner
from kopf_runtime.working.templates import Marks, Templates

logger = logging.getLogger(__name__)

#: A resource version that no object has: the API server's first write is later. An apply for it
#: creates an object and changes none: the API server compares the version only with an existing
#: object's, and refuses. Without it, an apply would merge into whatever exists by then.
NEVER = "1"


class _Deleted(msgspec.Struct):
    """The answer to a deletion: the object while it ends, or as it ended; or a `Status`."""

    metadata: dict[str, Any] = {}


_DELETED = msgspec.json.Decoder(_Deleted)


class Applier:
    """Writes the children of one kind of objects."""

    def __init__(
        self,
        client: Client,
        templates: Templates,
        marks: Marks,
        caches: Caches,
        pace: Pace,
        planner: Planner,
        others: Others,
    ) -> None:
        self._planner, self.others = planner, others
        self._client, self._templates, self.marks = client, templates, marks
        self._owners, self._children, self._pace = caches.owners, caches.children, pace
        # Strict: a field that the API server drops would look as if somebody had taken it away.
        self._query = urlencode({"fieldValidation": "Strict", "fieldManager": client.manager})
        # The templates of children that lacked one of our marks when they were made, by uid.
        self._stripped: dict[str, str] = {}
        self._drift = Drift(client, caches.children, marks)

    async def create(self, owner: Owner, wanted: Wanted, update: Update) -> Child | None:
        """Create a child; return None if an object of its name exists."""
        try:
            if update is Update.APPLY:  # so that later applies may remove what it sets
                body = await self._body(owner, wanted, update, resourceVersion=NEVER)
                raw = await self._apply(wanted, body, force=False)
            else:
                body = await self._body(owner, wanted, update)
                path = wanted.kind.path(wanted.key[0])
                raw = await self._client.request("POST", path, body, query=self._query)
        except ApiError as error:
            exists = "Conflict" if update is Update.APPLY else "AlreadyExists"
            # A quota, for example, answers a conflict about itself with the same reason.
            ours = ("", ""), (wanted.kind.plural, wanted.key[1])
            if (error.status, error.reason) != (409, exists) or error.about not in ours:
                raise
            return None
        child = self._learn(owner, wanted, body, raw, "created")
        if child.key != wanted.key:
            await self._drop_renamed(owner, wanted, child)
        return child

    async def _drop_renamed(self, owner: Owner, wanted: Wanted, child: Child) -> None:
        """Delete a child that admission has just renamed; the next come at growing intervals."""
        why = Plan(Step.DELETE, why="admission renamed it")
        now, former = self._client.now(), replace(child, key=wanted.key)
        self._pace.deleted(wanted.kind, former, now, owner.uid, why)
        await self.delete(owner, child, why, Update.RECREATE)
        raise StepError(changed_by_admission(wanted, ["the name"]))

    async def manifest(
        self, owner: Owner, wanted: Wanted, update: Update, child: Child | None
    ) -> tuple[dict[str, Any], str]:
        """Return what would be sent for a child, and by which field manager."""
        body, manager = await self._body(owner, wanted, update, child), self._client.manager
        if child is not None and update is Update.CREATE:
            body, manager = self.marks.only(body), f"{manager}{OWNER}"
        return msgspec.json.decode(body), manager

    async def apply(self, owner: Owner, wanted: Wanted, child: Child, update: Update) -> Child:
        """Change exactly this child in place by server-side apply.

        One that is created once gets nothing but its owner and our marks.
        """
        body = await self._body(owner, wanted, update, child, uid=child.uid)
        if update is Update.CREATE:
            raw = await self._apply(wanted, self.marks.only(body), force=True, role=OWNER)
        else:
            raw = await self._apply(wanted, body, force=True)
        self.others.taken_over(owner, child, wanted)
        child = self._learn(owner, wanted, body, raw, "applied")
        return await self._release(child) if wanted.outlives and not child.retained else child

    async def _release(self, child: Child) -> Child:
        """Take the owner reference of a child away, which an apply leaves if others have set it."""
        children = self._children[child.kind]
        meta = (await self._client.ask("GET", child.kind.at(child.key)))["metadata"]
        kept = [o for o in meta.get("ownerReferences") or () if o["uid"] != child.controller_uid]
        try:
            if meta["uid"] == child.uid:
                changes = {"metadata": {"ownerReferences": kept}}
                return await children.patch(child.key, meta["resourceVersion"], changes)
        except ApiError as refused:
            if refused.status != 409:
                raise
        raise changed(f"{child.kind.kind} {child.key[1]} changed meanwhile")

    async def _apply(self, wanted: Wanted, body: bytes, *, force: bool, role: str = "") -> bytes:
        query = f"{self._query}{role}&force={'true' if force else 'false'}"
        path = wanted.kind.at(wanted.key)
        return await self._client.request(
            "PATCH", path, body, content_type=APPLY_PATCH, query=query
        )

    async def would_create(self, owner: Owner, wanted: Wanted) -> bool:
        """Return whether the API server would accept a child, were its name not taken."""
        body = await self._body(owner, wanted, Update.APPLY)
        path, query = wanted.kind.path(wanted.key[0]), f"{self._query}&dryRun=All"
        try:
            await self._client.request("POST", path, body, query=query)
        except ApiError as error:  # it looks at the name last
            return (error.status, error.reason) == (409, "AlreadyExists")
        return False

    async def delete(
        self,
        owner: Owner,
        child: Child,
        plan: Plan,
        update: Update,
        *,
        orphan: bool = False,
        wanted: Wanted | None = None,
    ) -> Child | None:
        """Delete exactly this child; return None if it is gone, or else its state while it ends.

        `wanted` is what replaces it. Unless it may be recreated, it is deleted only if nobody has
        changed it since it was read: raise `StepError` if somebody has.
        """
        exactly = {"uid": child.uid}
        if update is not Update.RECREATE:
            exactly["resourceVersion"] = str(child.version)
        policy = "Orphan" if orphan else "Background"
        body = {"preconditions": exactly, "propagationPolicy": policy}
        kind, children = child.kind, self._children[child.kind]
        # Before the request: the watch may report the deletion, and the answer may get lost.
        self._pace.deleted(kind, child, self._client.now(), owner.uid, plan)
        try:
            raw = await self._client.request("DELETE", kind.at(child.key), body)
        except ApiError as error:
            if error.status == 404:
                children.drop(child)
                text = f"{kind.kind} {child.key[1]} is gone already, the API server says."
                raise StepError(contradicted("NotFound", text)) from None
            if error.status == 409 and await self._changed(child, exactly):
                raise changed(f"{kind.kind} {child.key[1]} changed meanwhile") from error
            raise
        logger.info("deleted %s %s: %s", kind.kind, child.key[1], plan.why)
        self.others.taken_over(owner, child, wanted)
        with contextlib.suppress(UnreadableError):  # whether it is gone shows at the next write
            meta = decode(_DELETED, raw).metadata
            ended = meta.get("deletionGracePeriodSeconds") == 0 and not meta.get("finalizers")
            if meta.get("deletionTimestamp") and not ended:
                return children.learn(raw)
        children.drop(child)
        return None

    async def _changed(self, child: Child, exactly: dict[str, str]) -> bool:
        """Read a child again; return whether these preconditions do not hold any more."""
        fetched = await self._children[child.kind].fetch(child.key)
        if fetched is None:
            return True
        now = {"uid": fetched[0].uid, "resourceVersion": str(fetched[0].version)}
        return any(now[name] != value for name, value in exactly.items())

    def as_admitted(self, wanted: Wanted, child: Child, update: Update) -> bool:
        """Return whether a child lacked our marks when it was made, for what is still wanted."""
        template = self._stripped.get(child.uid)
        return template == wanted.template or (
            update is not Update.RECREATE and template is not None
        )

    async def is_altered(self, owner: Owner, wanted: Wanted, child: Child, update: Update) -> bool:
        """Return whether somebody has altered a field that the operator set.

        Of a child that was made from another manifest, nothing is said: the object may be a newer
        one than is known.
        """
        if update is Update.CREATE or child.deleting or child.template != wanted.template:
            return False
        if (known := self._drift.known(wanted, child)) is not None:
            return known
        # Without the count of replacements: what is remembered holds for other children, too.
        body = self._templates.body(wanted) or await self._planned_again(owner, wanted, update)
        return await self._drift.look(wanted, child, body, update)

    async def look(self, wanted: Wanted) -> Child | None:
        """Read the object that has a child's name, or return None without one."""
        fetched = await self._children[wanted.kind].fetch(wanted.key)
        return fetched[0] if fetched is not None else None

    def settled(self, wanted: Wanted) -> None:
        """Record that a child is as it should be, so its manifest is no longer needed."""
        self._templates.forget(wanted)

    def _learn(self, owner: Owner, wanted: Wanted, body: bytes, raw: bytes, verb: str) -> Child:
        child = self._children[wanted.kind].learn(raw)
        self._pace.created(wanted.kind, child)
        logger.info("%s %s", verb, wanted)
        if stripped(owner, child):
            remember(self._stripped, child.uid, wanted.template)
        self._drift.wrote(wanted, child, body, raw)
        return child

    async def _body(
        self,
        owner: Owner,
        wanted: Wanted,
        update: Update,
        child: Child | None = None,
        **exactly: str,
    ) -> bytes:
        """Return the manifest to send, with these preconditions in its metadata."""
        body = self._templates.body(wanted) or await self._planned_again(owner, wanted, update)
        former = self._pace.former(wanted, owner.uid)
        count = former.count if former is not None else 0
        if child is not None:
            count = self._pace.replaced(child)
        if not exactly and not count:
            return body
        manifest = msgspec.json.decode(body)
        manifest["metadata"] |= exactly
        if count:
            manifest["metadata"]["annotations"][self.marks.replaced] = str(count)
        return msgspec.json.encode(manifest)

    async def _planned_again(self, owner: Owner, wanted: Wanted, update: Update) -> bytes:
        """Return a manifest that was not kept, created again from the object itself."""
        if owner.thing is not None:  # its plan depends on more, which may have changed
            self._planner.plan(owner, wanted)
            if (body := self._templates.body(wanted)) is not None:
                return body
            raise changed(f"the plan for {wanted} changed meanwhile")
        if (fetched := await self._owners.fetch(owner.key)) is not None:
            planned, _ = self._templates.plan(fetched[1], needed=wanted)
            if update is Update.CREATE:  # it may be random, as a password is
                same = (new for new in planned if (new.kind, new.key) == (wanted.kind, wanted.key))
                wanted = next(same, wanted)
        if (body := self._templates.body(wanted)) is not None:
            return body
        if fetched is not None and fetched[0].state == owner.state:
            problem = (
                f"the plan has another {wanted} each time it is made; it must depend on nothing "
                "but the object and the settings"
            )
            raise StepError(invalid_plan(problem))
        raise changed(f"the {self._owners.kind.kind} was edited meanwhile")
