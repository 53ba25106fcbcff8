"""Field ownership: decides whether somebody has altered a field that the operator set.

The API server records who set which field (`metadata.managedFields`). A child is altered exactly if
the operator no longer owns a field of its manifest: when somebody else changes a field, they own
it; when somebody removes it, nobody does. Changes by an admission webhook during the creation
belong to the creator, and fields added by others belong to them. So neither a default nor a
rewritten image nor a label added by others makes a child look altered.

Used by `reader`, for each event of a child; see
https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management.
"""

import hashlib
from collections import OrderedDict
from typing import Any

import msgspec

from kopf_runtime.declaring.objects import ManagedFields

#: Cached verdicts and shapes; the children of a thousand objects usually share one.
_REMEMBERED = 256
_shapes: dict[bytes, bytes] = {}

#: Largest encoded shape in bytes; larger manifests are compared only by template hash and owner.
_LARGEST = 16384
#: The manager of the entries that the API server has merged.
_MERGED = "ancient-changes"
#: The end of the name of the manager of what `context.record` stores.
RECORD = "-record"
#: The same for the owner and the marks of what is created once, which are set on their own: by one
#: manager, an apply would remove what the other has created.
OWNER = "-owner"
#: The fields that identify the items of Kubernetes' lists (`x-kubernetes-list-map-keys`).
KEYS = frozenset(
    {
        "name",
        "type",
        "key",
        "ip",
        "uid",
        "port",
        "protocol",
        "containerPort",
        "mountPath",
        "devicePath",
        "topologyKey",
        "whenUnsatisfiable",
    }
)

#: The fields that a manifest sets, without values: dictionaries, lists of items, None for a value.
Shape = Any


def shape(manifest: dict[str, Any], *, applied: bool = False) -> bytes:
    """Return the encoded shape of a manifest, or an empty one if it is too large or too deep.

    Manifests of the same shape get the same object, because thousands of children have one.

    It omits kind and name, empty values, and the owner reference, which is compared separately. If
    the manifest is `applied`, 0 and false stay, because the API server records who set them.
    """
    ignored = ("name", "namespace", "ownerReferences")
    meta = {k: v for k, v in manifest["metadata"].items() if k not in ignored}
    rest = {k: v for k, v in manifest.items() if k not in ("apiVersion", "kind", "metadata")}
    try:
        encoded = msgspec.json.encode(_shape({"metadata": meta, **rest}, applied))
    except RecursionError:
        return b""
    if len(_shapes) > _REMEMBERED:
        _shapes.clear()
    return _shapes.setdefault(encoded, encoded) if len(encoded) <= _LARGEST else b""


def _shape(part: Any, applied: bool) -> Shape:
    """Return a part's shape without empty values, which the API mostly treats as absent."""
    if isinstance(part, dict):
        return {
            name: _shape(value, applied)
            for name, value in part.items()
            if value or (applied and value == 0)
        }
    if isinstance(part, list):
        return [(_names(item), _shape(item, applied)) for item in part]
    return None


def _names(item: Any) -> Any:
    """Return what identifies a list item: its key fields (map lists), or the item (sets)."""
    if isinstance(item, dict):
        return {name: value for name, value in item.items() if name in KEYS}
    return item


def covers(owned: Any, wanted: Shape) -> bool:
    """Return whether the owned fields (`fieldsV1`) include all fields of the shape."""
    if not owned:  # a value, or an atomic field, such as a node selector
        return True
    if isinstance(wanted, dict):
        return all(
            f"f:{name}" in owned and covers(owned[f"f:{name}"], part)
            for name, part in wanted.items()
        )
    if isinstance(wanted, list):
        return _cover_items(owned, wanted)
    return True


def _cover_items(owned: dict[str, Any], wanted: list[tuple[Any, Shape]]) -> bool:
    """Return whether each wanted item of a list is owned."""
    entries = [
        (msgspec.json.decode(name[2:], type=dict[str, Any] if name[0] == "k" else Any), part)
        for name, part in owned.items()
        if name[:2] in ("k:", "v:")
    ]
    vague = []
    for names, item in wanted:
        matches = [part for named, part in entries if _names_exactly(names, named)]
        if not matches:
            vague.append((names, item))
        elif not covers(matches[0], item):
            return False
    # Each of the others needs an entry of its own; the largest item has the fewest to choose from.
    exact = [names for names, _ in wanted]
    left = [
        entry for entry in entries if not any(_names_exactly(names, entry[0]) for names in exact)
    ]
    left.sort(key=lambda entry: _size(entry[1]))
    for names, item in sorted(vague, key=lambda pair: _size(pair[1]), reverse=True):
        fits = (entry for entry in left if _may_name(names, entry[0]) and covers(entry[1], item))
        if (entry := next(fits, None)) is None:
            return False
        left.remove(entry)
    return True


def _names_exactly(names: Any, named: Any) -> bool:
    """Return whether the known keys of a wanted item include all that identify an owned one."""
    if isinstance(names, dict) and isinstance(named, dict):
        return named.items() <= names.items()
    return bool(names == named)


def _may_name(names: Any, named: Any) -> bool:
    """Return whether a wanted item may be an owned one.

    The manifest may omit a key that has a default, such as a port's protocol, and a custom resource
    has keys of its own.
    """
    if not isinstance(names, dict) or not isinstance(named, dict):
        return False
    return all(names.get(key, value) == value for key, value in named.items())


def _size(part: Any) -> int:
    return len(msgspec.json.encode(part))


class _Marks(msgspec.Struct, rename={"labels": "f:labels", "references": "f:ownerReferences"}):
    labels: dict[str, msgspec.Raw] = {}
    references: dict[str, msgspec.Raw] = {}


class _Owned(msgspec.Struct, rename={"status": "f:status", "metadata": "f:metadata"}):
    status: dict[str, msgspec.Raw] = {}
    metadata: _Marks = msgspec.field(default_factory=_Marks)


class Ownership:
    """Caches verdicts, because most children of a kind have the same fields."""

    def __init__(self, manager: str) -> None:
        self._manager = manager
        self._verdicts: OrderedDict[tuple[bytes, bytes], bool] = OrderedDict()

    def intact(self, entries: list[ManagedFields] | None, owner: str, wanted: bytes) -> bool:
        """Return whether the operator still owns all fields of an encoded shape.

        `owner` is the uid of the object's owner, which is part of the owned fields.
        """
        mine = self._mine(entries)
        mark = _digest(mine, owner), wanted
        verdict = self._verdicts.pop(mark, None)
        if verdict is None:
            verdict = not wanted or _decide(mine, wanted)
        self._verdicts[mark] = verdict
        if len(self._verdicts) > _REMEMBERED:
            self._verdicts.popitem(last=False)
        return verdict

    def digest(self, entries: list[ManagedFields] | None, owner: str) -> bytes:
        """Return a digest of the fields that the operator owns."""
        return _digest(self._mine(entries), owner)

    def _mine(self, entries: list[ManagedFields] | None) -> list[bytes]:
        """Return the operator's fields.

        The API server keeps ten entries of updates, and merges the oldest ones.
        """
        for manager in (self._manager, _MERGED):
            mine = [
                bytes(entry.fields_v1)
                for entry in entries or ()
                if entry.manager == manager and not entry.subresource
            ]
            if mine:
                return mine
        return []

    def any(self, entries: list[ManagedFields] | None) -> bool:
        """Return whether the operator owns a field: a copy that somebody made has none of ours."""
        names = {self._manager, f"{self._manager}{OWNER}", _MERGED}
        return any(entry.manager in names for entry in entries or ())

    def marked(self, entries: list[ManagedFields] | None, label: str, reference: str) -> bool:
        """Return whether the operator itself has set a label, and an owner reference to this uid.

        An empty uid means that there is none. Whoever writes another value becomes its manager.
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

    def others(self, entries: list[ManagedFields] | None) -> str:
        """Return the names of other managers that changed an object, for an Event."""
        names = {e.manager[:64] for e in entries or () if e.subresource != "status"}
        return ", ".join(sorted(names - {self._manager, ""})[:3])


def _digest(mine: list[bytes], owner: str) -> bytes:
    total = hashlib.blake2b(digest_size=16)
    for fields in mine:
        total.update(fields.replace(owner.encode(), b"uid"))
    return total.digest()


def _decide(mine: list[bytes], wanted: bytes) -> bool:
    owned: dict[str, Any] = {}
    try:
        for fields in mine:
            _merge(owned, msgspec.json.decode(fields))
        return bool(owned) and covers(owned, msgspec.json.decode(wanted))
    except (msgspec.MsgspecError, RecursionError):  # somebody wrote invalid managed fields
        return False


def _merge(into: dict[str, Any], more: Any) -> None:
    """Merge the fields of two entries: one from a create, one from an apply."""
    for name, part in more.items() if isinstance(more, dict) else ():
        if isinstance(part, dict):
            _merge(into.setdefault(name, {}), part)
