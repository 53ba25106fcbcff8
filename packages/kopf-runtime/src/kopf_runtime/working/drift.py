"""Tells whether somebody has altered a child: from what was seen before, or from the child itself.

`apply` remembers here how a child looked right after each write, and asks later. What is
asked for is remembered by digests of the manifest's fields and of the recorded ones, which most
children of a kind share; so after a restart, one of them is read. Where the child does not tell
whether an empty value was dropped or removed, a dry run of a write does.
"""

import secrets
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

from kopf_runtime.cluster.client import APPLY_PATCH, JSON, Client
from kopf_runtime.declaring.errors import ApiError
from kopf_runtime.declaring.kinds import Kind
from kopf_runtime.declaring.objects import parse
from kopf_runtime.declaring.records import Child, Update, Wanted
from kopf_runtime.reporting.troubles import changed
from kopf_runtime.watching.source import Source
from kopf_runtime.working.fields import Ownership, Path
from kopf_runtime.working.templates import Marks

V = TypeVar("V")
Raw = dict[str, Any]

#: What is remembered of each kind of knowledge; what is forgotten is read again.
REMEMBERED = 10_000
_DECODER = msgspec.json.Decoder(dict[str, Any])
#: How much of a child's name that of an object has that is never created: with a suffix, it is no
#: longer than that of any kind may be. Without a name, rules about names would refuse it.
_PREFIX = 47


class Drift:
    """Knows which children are as their manifests say."""

    def __init__(
        self, client: Client, children: Mapping[Kind, Source[Child]], marks: Marks
    ) -> None:
        self._client, self._children = client, children
        # What children of one manifest may have different values of.
        self._own = {marks.generation, marks.replaced, marks.written_by}
        self._ownership = Ownership(client.manager, marks.written_by)
        # By the digests of the manifest's fields and of the recorded ones.
        self._altered: dict[tuple[str, str], bool] = {}
        # By the former digest: the empty values that the API server does not keep.
        self._dropped: dict[str, frozenset[Path]] = {}
        # By the uid: the recorded fields of what looks altered, but was admitted like that.
        self._as_made: dict[str, str] = {}
        # By the former digest: that the API server has once admitted all of it as it was sent.
        self._as_sent: dict[str, bool] = {}

    def wrote(self, wanted: Wanted, child: Child, manifest: bytes, answer: bytes) -> None:
        """Remember what a child looks like that was just written.

        What looks altered by then is how the API server or admission keeps what was sent.
        """
        self._as_made.pop(child.uid, None)
        if (wanted.shape, child.fields) in self._altered:
            altered = self._altered[wanted.shape, child.fields]
        else:
            found = self._ownership.compare(_decode(manifest), _decode(answer))
            altered = found.altered
            remember(self._dropped, wanted.shape, found.absent)
            if not altered:
                remember(self._as_sent, wanted.shape, True)
            if not altered and not found.vague:
                remember(self._altered, (wanted.shape, child.fields), False)
        if altered and self._shows(_decode(manifest), _decode(answer), _decode(answer)):
            remember(self._as_made, child.uid, child.fields)

    def known(self, wanted: Wanted, child: Child) -> bool | None:
        """Return whether somebody has altered a child; None if it has to be looked at."""
        if self._as_made.get(child.uid) == child.fields:
            return False
        return self._altered.get((wanted.shape, child.fields))

    async def look(self, wanted: Wanted, child: Child, manifest: bytes, update: Update) -> bool:
        """Read a child that was made from this manifest; return whether somebody has altered it.

        Raise `ApiError`, or `StepError` if it has changed meanwhile.
        """
        source = self._children[child.kind]
        found = await source.read_again(child.key)
        if found is None or (found[0].uid, found[0].template) != (child.uid, wanted.template):
            raise changed(f"{wanted} changed meanwhile")
        fresh, _, raw = found
        if (known := self.known(wanted, fresh)) is not None:
            return known
        should, live = _decode(manifest), _decode(raw)
        seen = self._ownership.compare(should, live)
        altered, certain = seen.altered, not seen.vague
        if altered and wanted.shape not in self._as_sent:  # perhaps admission removes something
            certain = False  # another child with the same record may be as it is admitted
            made = await self._try(wanted, should, update)
            if made is not None and self._is_admitted(should, made, live):
                if self._shows(should, made, live):
                    remember(self._as_made, child.uid, fresh.fields)
                return False
        if not altered and not seen.absent <= self._dropped.get(wanted.shape, frozenset()):
            made = await self._try(wanted, should, update)
            if made is None:
                certain = False
            else:
                made["metadata"]["managedFields"] = live["metadata"].get("managedFields")
                dropped = self._ownership.compare(should, made).absent
                remember(self._dropped, wanted.shape, dropped)
                altered = not seen.absent <= dropped
        if certain:
            remember(self._altered, (wanted.shape, fresh.fields), altered)
        return altered

    def _is_admitted(self, sent: Raw, made: Raw, live: Raw) -> bool:
        """Return whether an object is as the API server makes it now of what was sent."""
        # Without any record, later edits leave none either: an apply begins one.
        if live["metadata"].get("managedFields") and self._planned(made) == self._planned(live):
            return True
        admitted = _admitted(sent, made, live)
        made["metadata"]["managedFields"] = live["metadata"].get("managedFields")
        seen, new = (self._ownership.compare(admitted, one) for one in (live, made))
        return not seen.altered and seen.absent <= new.absent

    def _shows(self, sent: Raw, made: Raw, live: Raw) -> bool:
        """Return whether the recorded fields show each later edit of an empty value.

        They do not if others own it, too: they may set another one.
        """
        return not self._ownership.compare(_admitted(sent, made, live), live).vague

    def _planned(self, raw: Raw) -> Raw:
        """Return an object without what the API server keeps, and what differs between children."""
        kept = ("managedFields", "resourceVersion", "generation")
        meta = {name: value for name, value in raw["metadata"].items() if name not in kept}
        notes = (meta.get("annotations") or {}).items()
        meta["annotations"] = {name: value for name, value in notes if name not in self._own}
        return {**raw, "metadata": meta, "status": None}

    async def _try(self, wanted: Wanted, manifest: Raw, update: Update) -> Raw | None:
        """Return what the API server would make of a manifest, or None if it refuses it."""
        query = {"fieldManager": self._client.manager, "dryRun": "All"}
        metadata = dict(manifest["metadata"])
        if update is Update.APPLY:
            method, path, content_type = "PATCH", wanted.kind.at(wanted.key), APPLY_PATCH
            query["force"] = "true"
        else:  # for which the right to change it is not needed
            method, path, content_type = "POST", wanted.kind.path(wanted.key[0]), JSON
            metadata["name"] = metadata["name"][:_PREFIX] + secrets.token_hex(2)
        try:
            return await self._client.ask(
                method,
                path,
                {**manifest, "metadata": metadata},
                content_type=content_type,
                query=urlencode(query),
                fenced=False,  # it writes nothing
            )
        except ApiError as error:
            if 400 <= error.status < 500 and error.status not in (409, 429):
                return None
            raise


def remember(memory: dict[Any, V], key: Any, value: V) -> None:
    """Remember a value; forget the oldest one if there are too many."""
    memory[key] = value
    if len(memory) > REMEMBERED:
        del memory[next(iter(memory))]


def _admitted(sent: Any, made: Any, live: Any) -> Any:
    """Return a manifest as the API server admits it: with other values, and without some fields.

    A field that it would remove, and the live object has, stays: somebody has set it.
    """
    if isinstance(sent, dict) and isinstance(made, dict) and isinstance(live, dict):
        kept = (name for name in sent if name in made or name in live)
        return {name: _admitted(sent[name], made.get(name), live.get(name)) for name in kept}
    lists = [part for part in (sent, made, live) if isinstance(part, list)]
    if len(lists) == 3 and len({*map(len, lists)}) == 1:
        return [_admitted(*parts) for parts in zip(*lists, strict=True)]
    return sent if made is None or _has_objects(sent) else made


def _has_objects(part: Any) -> bool:
    return isinstance(part, list) and any(isinstance(item, dict) for item in part)


def _decode(raw: bytes) -> Raw:
    return parse(_DECODER, raw)
