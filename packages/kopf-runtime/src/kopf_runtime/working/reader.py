"""Reads objects into records: an owner's with its wanted children, a child's with its state.

`source` calls a `Reader` for each object that it receives. Unchanged parts are not computed again.
"""

from collections.abc import Callable
from sys import intern
from typing import Any

import msgspec
from msgspec.structs import replace

from kopf_runtime.declaring.controller_declaration import Declaration
from kopf_runtime.declaring.indexes import several
from kopf_runtime.declaring.objects import (
    Object,
    ObjectMeta,
    Resource,
    empties,
    number,
    seconds,
    shared,
)
from kopf_runtime.declaring.records import Child, Name, Owned, Owner, Result
from kopf_runtime.working.fields import Ownership
from kopf_runtime.working.templates import Marks, Templates

#: What is kept at most: of a name (an annotation or an owner reference may hold far more), of an
#: owner's uid (a real one has 36), and the number of finalizers.
_LONGEST_NAME, _LONGEST_UID, _MOST_FINALIZERS = 253, 64, 8

#: What of an owner stays as it was as long as its state does.
_PLANNED = ("view", "wanted", "problem", "sync_result", "check_result", "thing", "names", "values")


class Reader:
    """Creates the records of one kind and of its children.

    If the children are planned at each reconcile, the object is kept for that.
    """

    def __init__(
        self,
        declaration: Declaration,
        marks: Marks,
        templates: Templates,
        names: Callable[[Any], tuple[Name, ...]],
    ) -> None:
        self._late, self._names = declaration.plans_late, names
        self._indexes, self._transform = declaration.indexes, declaration.transform
        self._marks, self._kind = marks, declaration.kind
        self._templates = templates
        self._ownership, self._foreign = Ownership(marks.manager), declaration.foreign

    def owner(self, thing: Resource, former: Owner | None) -> Owner:
        """Return the record of an object."""
        meta = thing.metadata
        foreign = self._foreign
        content = hash((_items(meta.labels), _items(meta.annotations), _fields(thing)))
        if foreign is not None:  # its status is one of the fields that it has
            stated = {name for name in (foreign.annotation,) if name}
            annotations = {k: v for k, v in (meta.annotations or {}).items() if k not in stated}
            but = ("metadata", "status") if foreign.condition else ("metadata",)
            fields = _fields(thing, *but), foreign.of_others(thing)
            content = hash((_items(meta.labels), _items(annotations), fields))
        record = Owner(
            former.key if former is not None else meta.key,
            meta.uid,
            meta.version,
            meta.generation,
            meta.deletion_timestamp is not None,
            self._finalizers(meta),
            shared(thing.status) if foreign is None else {},
            None,
            (),
            "",
            content,
            created=seconds(meta.creation_timestamp),
            paused=(meta.annotations or {}).get(self._marks.paused) == "true",
            recorded=self._ownership.recorded(meta.managed_fields),
            watched=foreign is None or foreign.selects(meta.labels),
            contributed=self._ownership.contributed(meta.managed_fields) if foreign else "",
            annotated=foreign.state_of(thing) if foreign else "",
            stated=foreign is not None and foreign.is_by(self._marks.manager, meta),
        )
        if former is not None and former.state == record.state:
            return replace(record, **{name: getattr(former, name) for name in _PLANNED})
        kept = self._kept(thing) if self._late or self._transform is None else thing
        view = kept if self._transform is None else self._transform(thing)
        record = replace(record, view=view)
        if not self._late:
            if record.deleting:
                return record
            wanted, problem = self._templates.plan(thing)
            return replace(record, wanted=wanted, problem=problem)
        # They see no status either: a change of it alone would not have them called again.
        lists = (several(index.values(kept)) for index in self._indexes)
        values = tuple(tuple(dict.fromkeys(items)) for items in lists)
        record = replace(record, thing=kept, names=self._names(kept), values=values)
        if former is None or former.uid != record.uid:
            return record
        # A child that is there because of what `check` returned is not dropped by an edit.
        record = replace(record, check_result=_outdated(former.check_result))
        if former.generation != record.generation:
            return record
        # Its children stay as they are until it is reconciled, and `sync` is called then.
        return replace(
            record,
            wanted=former.wanted,
            problem=former.problem,
            sync_result=_outdated(former.sync_result),
        )

    def _kept(self, thing: Resource) -> Resource:
        """Return an object as it is kept in memory: without what changes by itself."""
        meta = replace(thing.metadata, managed_fields=None, resource_version="")
        bare = {"metadata": meta}
        return replace(thing, **bare, **({"status": {}} if self._foreign is None else {}))

    def child(self, owned: Owned) -> Callable[[Object, Child | None], Child]:
        """Return a function that creates the records of a kind of children."""

        def read(thing: Object, former: Child | None) -> Child:
            meta = thing.metadata
            owner = meta.controller
            parent = ""
            if owner is not None and owner.kind == self._kind.kind:
                group = owner.api_version.rpartition("/")[0]
                parent = _name(owner.name) if group == self._kind.group else ""
            labels, annotations = meta.labels or {}, meta.annotations or {}
            created_for = labels.get(self._marks.uid, "")
            uid = owner.uid[:_LONGEST_UID] if owner is not None else ""
            named = _name(annotations.get(self._marks.name, ""))
            if owner is None:
                parent = named
            if retained := owner is None and owned.may_outlive:
                # Its marks alone are no proof: somebody's copy of a child has them, too.
                uid = created_for if self._ownership.any(meta.managed_fields) else ""
            unlabelled = self._marks.missing(labels, uid or created_for)
            proven = bool(uid and parent) and not unlabelled and named in ("", parent)
            view = owned.transform(thing)
            template = annotations.get(self._marks.template, "")[:64]
            return Child(
                kind=owned.kind,
                key=former.key if former is not None else meta.key,
                uid=meta.uid,
                version=meta.version,
                controller_uid=uid,
                created_for=created_for,
                outdated=bool(parent and owner and owner.api_version != self._kind.api_version),
                parent=parent,
                deleting=meta.deletion_timestamp is not None,
                deadline=seconds(meta.deletion_timestamp),
                created=seconds(meta.creation_timestamp),
                finalizers=self._finalizers(meta),
                template=template,
                generation=number(annotations.get(self._marks.generation), 0),
                replaced=min(number(annotations.get(self._marks.replaced), 0), 99),
                unlabelled=unlabelled,
                fields=self._ownership.digest(meta.managed_fields, uid, empties(meta)),
                editors=self._ownership.others(meta.managed_fields),
                view=view,
                unready=owned.unready(view) if owned.judge is None else owned.judge.unready(thing),
                retained=retained,
                installation=intern(annotations.get(self._marks.written_by, "")[:_LONGEST_NAME]),
                proven=proven
                and self._ownership.marked(
                    meta.managed_fields, self._marks.uid, "" if retained else uid
                ),
            )

        return read

    def descendant(self, watched: Owned) -> Callable[[Object, Child | None], Child]:
        """Return a function that creates descendants' records from the marks they inherit."""
        child = self.child(watched)

        def read(thing: Object, former: Child | None) -> Child:
            record = child(thing, former)
            parent = (thing.metadata.annotations or {}).get(self._marks.name, "")
            return replace(record, controller_uid=record.created_for, parent=_name(parent))

        return read

    def _finalizers(self, meta: ObjectMeta) -> tuple[str, ...]:
        """Return an object's finalizers, ours first; others may have added thousands."""
        ours = self._marks.finalizer
        names = sorted(meta.finalizers or (), key=lambda name: name != ours)
        return tuple(names[:_MOST_FINALIZERS])


def _outdated(outcome: Result | None) -> Result | None:
    return replace(outcome, due=0.0) if outcome is not None else None


def _name(text: str) -> str:
    return text if len(text) <= _LONGEST_NAME else ""


def _fields(thing: Resource, *but: str) -> bytes:
    """Return what an object has beside its metadata and, unless it is of others, its status."""
    but = but or ("metadata", "status")
    names = (name for name in thing.__struct_fields__ if name not in but)
    return _ENCODER.encode([getattr(thing, name) for name in names])


#: Two equal objects have the same text; what an author's own type holds need not be JSON.
_ENCODER = msgspec.msgpack.Encoder(enc_hook=repr, order="deterministic")


def _items(values: dict[str, str] | None) -> frozenset[tuple[str, str]]:
    return frozenset((values or {}).items())
