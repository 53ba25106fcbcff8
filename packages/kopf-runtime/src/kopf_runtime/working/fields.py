"""Field ownership: decides whether somebody has altered a field that the operator set.

The API server records who set which field (`metadata.managedFields`). A child is altered if the
operator no longer owns a field of its manifest: when somebody else changes a field, they own it;
when somebody removes it, nobody does. Changes by an admission webhook during the creation belong to
the creator, and fields added by others belong to them. So neither a default nor a rewritten image
nor a label added by others makes a child look altered.

The record leaves two things open, for which the object itself is looked at: an empty entry stands
for a field that is set as a whole, and for a map or a list of which nothing else is left; and an
empty value may not be recorded at all.

`drift` calls `compare`, and `reader` keeps a digest of the record, which changes whenever the
answer may change; see
https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management.
"""

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from kopf_runtime.declaring.objects import ManagedFields

#: The levels that a manifest may have.
DEEPEST = 200
#: The manager of the entries that the API server has merged.
_MERGED = "ancient-changes"
#: The end of the name of the manager of what `context.record` stores.
RECORD = "-record"
#: The same for the owner and the marks of what is created once, which are set on their own: by one
#: manager, an apply would remove what the other has created.
OWNER = "-owner"

#: How the annotation ends that says who has written a child; it is no part of what is wanted.
INSTALLATION = "installation"

#: The same for what is contributed to an object of others.
CONTRIBUTION = "-contribution"

#: Ends the path of an empty value that has another one in its place.
DEFAULT = "="
#: Stands for a field that an object does not have, which a null is not.
ABSENT = object()
#: A part of an entry (`fieldsV1`).
Node = dict[str, Any]
Path = tuple[str, ...]


class Compared(NamedTuple):
    """The result of a comparison."""

    altered: bool
    #: The empty values of the manifest that the object lacks, or has a default for (`DEFAULT`), and
    #: nobody owns: the API server may have dropped them, or somebody may have removed them.
    absent: frozenset[Path] = frozenset()
    #: Whether the record stays the same if somebody changes a field again.
    vague: bool = False


def shape(manifest: dict[str, Any]) -> str:
    """Return a digest of the fields that a manifest sets, and of which of them are empty.

    The children of thousands of objects differ only in other values. Raise `RecursionError` if it
    is deeper than `DEEPEST`.
    """
    encoded = msgspec.json.encode(_outline(manifest, 0), order="sorted")
    kind = f"{manifest.get('apiVersion')} {manifest.get('kind')} "
    return sys.intern(_digest((kind.encode(), encoded)))


def _outline(part: Any, depth: int) -> Any:
    if depth > DEEPEST:
        raise RecursionError(f"it has more than {DEEPEST} levels")
    if isinstance(part, dict):
        return {
            name: _outline(value, depth + 1) if isinstance(value, dict | list) else value and 1
            for name, value in part.items()
        }
    if isinstance(part, list):
        return [_outline(item, depth + 1) for item in part]
    return part and 1


class Ownership:
    """Reads what the API server has recorded of a manager's fields.

    The annotation `written_by` is no part of what is compared.
    """

    def __init__(self, manager: str, written_by: str = "") -> None:
        self._manager, self._written_by = manager, written_by

    def compare(self, manifest: dict[str, Any], live: dict[str, Any]) -> Compared:
        """Return whether somebody has altered an object since it was made from a manifest."""
        entries = [
            entry
            for entry in live["metadata"].get("managedFields") or ()
            if entry.get("subresource") != "status"
        ]
        names = [entry.get("manager") for entry in entries if not entry.get("subresource")]
        us = self._manager if self._manager in names else _MERGED
        mine, theirs = dict[str, Any](), list[Node]()
        for entry in entries:
            fields = entry.get("fieldsV1")
            if entry.get("manager") == us and not entry.get("subresource"):
                _merge(mine, fields)
            elif isinstance(fields, dict):
                theirs.append(fields)
        ignored = ("name", "namespace", "ownerReferences", "uid", "resourceVersion")
        meta = {k: v for k, v in manifest["metadata"].items() if k not in ignored}
        if given := meta.get("annotations"):
            meta["annotations"] = {k: v for k, v in given.items() if k != self._written_by}
        rest = {k: v for k, v in manifest.items() if k not in ("apiVersion", "kind", "metadata")}
        comparison = _Comparison()
        altered = comparison.differs({"metadata": meta, **rest}, live, mine or None, theirs, ())
        return Compared(altered, frozenset(comparison.absent), comparison.vague)

    def digest(self, entries: list[ManagedFields] | None, owner: str, empties: int = 0) -> str:
        """Return a digest of all recorded fields but those of the status.

        `owner` is the uid of the object's owner, which is part of them. `empties` is the number of
        the object's empty maps and lists: one that is not recorded may be removed.
        """
        empties -= sum(bytes(entry.fields_v1).count(b"{}") for entry in entries or ())
        taken = [entry for entry in entries or () if entry.subresource != "status"]
        marks = sorted((e.manager == self._manager, bytes(e.fields_v1)) for e in taken)
        old, new = owner.encode(), b"uid"
        parts = (b"+" * ours + (text.replace(old, new) if old else text) for ours, text in marks)
        return sys.intern(_digest((*parts, b"%d" % empties)))

    def any(self, entries: list[ManagedFields] | None) -> bool:
        """Return whether the operator owns a field: a copy that somebody made has none of ours."""
        names = {self._manager, f"{self._manager}{OWNER}", _MERGED}
        return any(entry.manager in names for entry in entries or ())

    def marked(self, entries: list[ManagedFields] | None, label: str, reference: str) -> bool:
        """Return whether the operator itself has set a label, and an owner reference to this uid.

        An empty uid means none. A manager that writes another value becomes its owner.
        """
        names = {self._manager, f"{self._manager}{OWNER}"}
        labelled, referenced = False, not reference
        for entry in entries or ():
            if entry.manager in names and not entry.subresource:
                try:
                    marks = msgspec.json.decode(entry.fields_v1, type=_Owned).metadata
                except (msgspec.MsgspecError, RecursionError):  # somebody wrote invalid ones
                    continue
                labelled |= f"f:{label}" in marks.labels
                referenced |= f'k:{{"uid":"{reference}"}}' in marks.references
        return labelled and referenced

    def recorded(self, entries: list[ManagedFields] | None) -> tuple[str, ...]:
        """Return the fields of the status that `context.record` has stored."""
        ours = (e.fields_v1 for e in entries or () if e.manager == f"{self._manager}{RECORD}")
        names = (name for part in ours for name in msgspec.json.decode(part, type=_Owned).status)
        return tuple(sorted(name[2:] for name in names if name.startswith("f:")))

    def contributed(self, entries: list[ManagedFields] | None) -> str:
        """Return a digest of the fields that are the operator's contribution; empty if none are."""
        name = f"{self._manager}{CONTRIBUTION}"
        ours = [bytes(entry.fields_v1) for entry in entries or () if entry.manager == name]
        return _digest(sorted(ours)) if ours else ""

    def others(self, entries: list[ManagedFields] | None) -> str:
        """Return the names of other managers that changed an object, for an Event."""
        names = {e.manager[:64] for e in entries or () if e.subresource != "status"}
        return ", ".join(sorted(names - {self._manager, ""})[:3])


class _Marks(msgspec.Struct, rename={"labels": "f:labels", "references": "f:ownerReferences"}):
    labels: dict[str, msgspec.Raw] = {}
    references: dict[str, msgspec.Raw] = {}


class _Owned(msgspec.Struct, rename={"status": "f:status", "metadata": "f:metadata"}):
    status: dict[str, msgspec.Raw] = {}
    metadata: _Marks = msgspec.field(default_factory=_Marks)


class _Comparison:
    """Compares a manifest with an object, field by field."""

    def __init__(self) -> None:
        self.absent: list[Path] = []
        self.vague = False

    def differs(
        self, wanted: Any, live: Any, mine: Node | None, theirs: list[Node], path: Path
    ) -> bool:
        """Return whether a part of the manifest was altered.

        `live` is the object's part, or ABSENT, `mine` the part of our entry, None if we
        own nothing of it, and `theirs` the parts of those of the others who own something of it.
        """
        if not wanted or not isinstance(wanted, dict | list):
            return mine is None and self._lost(wanted, live, theirs, path)
        if (
            mine is not None
            and not mine
            and live is not ABSENT
            and live
            and not any(map(_has_parts, theirs))
        ):
            return False  # set as a whole, such as a node selector or a command
        if mine is None and theirs and live is not ABSENT and not any(map(_has_parts, theirs)):
            return True  # others have set it as a whole
        if mine is None and live is ABSENT:
            self.absent.append(path)  # all that it sets may be empty
        if isinstance(wanted, list):
            return mine is None or self._lacks(wanted, live, mine, theirs, path)
        for name, part in wanted.items():
            step = f"f:{name}"
            there = live.get(name, ABSENT) if isinstance(live, dict) else ABSENT
            owned = _part(mine, step), _parts(theirs, step)
            if self.differs(part, there, *owned, (*path, name)):
                return True
        return False

    def _lost(self, wanted: Any, live: Any, theirs: list[Node], path: Path) -> bool:
        """Return whether a value that we do not own was altered."""
        if wanted:
            return True
        if live is ABSENT:
            self.absent.append(path)
            return False
        if live == wanted:
            self.vague = self.vague or bool(theirs)
            return False
        if not theirs:
            self.absent.append((*path, DEFAULT))
            return False
        # What others put into a map or a list that only its parts belong to is theirs.
        shared = isinstance(wanted, dict | list) and any(map(_has_parts, theirs))
        return not shared

    def _lacks(
        self, wanted: list[Any], live: Any, mine: Node, theirs: list[Node], path: Path
    ) -> bool:
        """Return whether a list whose items have owners has lost one, or a part of one."""
        entries = dict(_entries(mine))
        keys = next((list(names) for _, names in entries.values() if isinstance(names, dict)), [])
        items = {_mark(item, keys): item for item in (live if isinstance(live, list) else ())}

        def is_other(item: Any, mark: str) -> bool:
            step, _ = entries[mark]
            owned = _part(mine, step), _parts(theirs, step)
            return self.differs(item, items.get(mark, ABSENT), *owned, (*path, step))

        rest = list[Any]()
        for item in wanted:
            mark = _mark(item, keys)
            if mark in entries:
                if is_other(item, mark):
                    return True
                del entries[mark]
            elif isinstance(item, dict) and not item.keys() >= set(keys):
                rest.append(item)  # a key has a default, such as a port's protocol
            else:
                return True
        for item in rest:
            for mark, (_, names) in entries.items():
                absent, vague = len(self.absent), self.vague
                if _may_name(item, names) and not is_other(item, mark):
                    del entries[mark]
                    break
                del self.absent[absent:]
                self.vague = vague
            else:
                return True
        return False


def _entries(mine: Node) -> Iterator[tuple[str, tuple[str, Any]]]:
    """Yield the mark, the step, and the keys or the value of each item of a list."""
    for step in mine:
        if step[:2] in ("k:", "v:"):
            try:
                names = msgspec.json.decode(step[2:])
            except msgspec.MsgspecError:
                continue
            if step[0] == "v" or isinstance(names, dict):
                yield _mark(names, list(names) if isinstance(names, dict) else []), (step, names)


def _mark(item: Any, keys: list[str]) -> str:
    """Return what identifies an item of a list: its keys, or itself."""
    named = [(key, item.get(key)) for key in keys] if isinstance(item, dict) else item
    return json.dumps(named, sort_keys=True)


def _may_name(item: dict[str, Any], names: Any) -> bool:
    return isinstance(names, dict) and all(item.get(key, v) == v for key, v in names.items())


def _part(node: Node | None, step: str) -> Node | None:
    found = node.get(step) if node is not None else None
    return found if isinstance(found, dict) else None


def _parts(nodes: list[Node], step: str) -> list[Node]:
    return [part for node in nodes if (part := _part(node, step)) is not None]


def _has_parts(node: Node) -> bool:
    return any(step != "." for step in node)


def _digest(parts: Iterable[bytes]) -> str:
    total = hashlib.blake2b(digest_size=12)
    for part in parts:
        total.update(part)
    return total.hexdigest()


def _merge(into: Node, more: Any) -> None:
    """Merge the fields of two entries: one from a create, one from an apply."""
    for name, part in more.items() if isinstance(more, dict) else ():
        if isinstance(part, dict):
            _merge(into.setdefault(name, {}), part)
