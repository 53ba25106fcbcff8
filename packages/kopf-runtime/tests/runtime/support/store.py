"""The storage of the tests' API server: objects, the owners of their fields, and the history."""

import asyncio
import copy
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kopf_runtime.declaring.kinds import CONFIG_MAP, POD, Key, Kind

Raw = dict[str, Any]

MESSAGE = Kind("myorg.dev", "v1", "messages", "Message")
LEASE = Kind("coordination.k8s.io", "v1", "leases", "Lease")
EVENT = Kind("", "v1", "events", "Event")
#: kopf's own kinds: it checks that they are served before it calls any handler.
NAMESPACE = Kind("", "v1", "namespaces", "Namespace", namespaced=False)
CRD = Kind(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)


# --- field ownership (`metadata.managedFields`) as in the real API server ------------------------

#: A field: its steps as in `fieldsV1`, such as `f:spec`, `k:{"name":"message"}`, `f:image`.
Path = tuple[str, ...]

#: Maps that are owned only as a whole (`x-kubernetes-map-type: atomic`).
_ATOMIC = frozenset({"nodeSelector", "selector"})
#: Lists whose items a field identifies (`x-kubernetes-list-map-keys`).
_KEYED = {
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "imagePullSecrets": ("name",),
    "ownerReferences": ("uid",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "conditions": ("type",),
    "ports": ("port", "protocol"),
}
_DEFAULTS = {"protocol": "TCP"}
_SETS = frozenset({"finalizers"})
#: Fields that nobody owns, because the API server writes them.
_UNOWNED = frozenset(
    {
        "apiVersion",
        "kind",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "metadata.resourceVersion",
        "metadata.generation",
        "metadata.creationTimestamp",
        "metadata.deletionTimestamp",
        "metadata.managedFields",
    }
)


def leaves(thing: dict[str, Any]) -> dict[Path, Any]:
    """Return the fields of an object that can have an owner, with their values."""
    found: dict[Path, Any] = {}
    for name, value in thing.items():
        if name == "metadata":
            for part, inner in value.items():
                if f"metadata.{part}" not in _UNOWNED:
                    _walk(("f:metadata", f"f:{part}"), part, inner, found)
        elif name not in _UNOWNED:
            _walk((f"f:{name}",), name, value, found)
    return found


def _walk(path: Path, name: str, value: Any, found: dict[Path, Any]) -> None:
    if isinstance(value, dict) and value and name not in _ATOMIC:
        for part, inner in value.items():
            _walk((*path, f"f:{part}"), part, inner, found)
    elif isinstance(value, list) and value and name in _SETS:
        for item in value:
            found[(*path, f"v:{json.dumps(item)}")] = item
    elif isinstance(value, list) and value and name in _KEYED:
        for item in value:
            keys = {k: item.get(k, _DEFAULTS.get(k)) for k in _KEYED[name]}
            step = "k:" + json.dumps(keys, separators=(",", ":"))
            found[(*path, step, ".")] = keys
            _walk((*path, step), "", item, found)
    else:
        found[path] = value


def fields_v1(paths: set[Path]) -> dict[str, Any]:
    """Return the `fieldsV1` of these fields."""
    tree: dict[str, Any] = {}
    for path in sorted(paths):  # as the API server does
        at = tree
        for step in path:
            at = at.setdefault(step, {})
    return tree


class Owners:
    """The owners of the fields of one object."""

    def __init__(self) -> None:
        self._fields: dict[tuple[str, str], set[Path]] = {}

    def changed(
        self, before: dict[str, Any], after: dict[str, Any], manager: str, subresource: str = ""
    ) -> None:
        """Record that a manager changed an object."""
        old, new = leaves(before), leaves(after)
        lost = {path for path, value in old.items() if path not in new or new[path] != value}
        for owned in self._fields.values():
            owned -= lost
        mine = {path for path, value in new.items() if path not in old or old[path] != value}
        self._fields.setdefault((manager, subresource), set()).update(mine)

    def conflicts(self, before: dict[str, Any], given: dict[str, Any], manager: str) -> set[Path]:
        """Return the fields that others own and that an apply without force cannot change."""
        old, new = leaves(before), leaves(given)
        changed = {path for path in new if path in old and old[path] != new[path]}
        return changed & set().union(*(own for (w, _), own in self._fields.items() if w != manager))

    def applied(self, before: dict[str, Any], given: dict[str, Any], manager: str) -> set[Path]:
        """Record that a manager applied a manifest by force: it owns exactly its fields.

        Return those that it had before, and that nobody has any more.
        """
        old, new = leaves(before), leaves(given)
        for (who, _), owned in self._fields.items():
            if who != manager:
                owned -= {path for path in new if old.get(path) != new[path]}
        former = self._fields.get((manager, ""), set())
        self._fields[manager, ""] = set(new)
        return former.difference(*self._fields.values())

    def render(self) -> list[dict[str, Any]]:
        """Return `managedFields`."""
        return [
            {
                "manager": manager,
                "operation": "Update",
                "apiVersion": "v1",
                "fieldsType": "FieldsV1",
                "fieldsV1": fields_v1(paths),
                **({"subresource": subresource} if subresource else {}),
            }
            for (manager, subresource), paths in self._fields.items()
            if paths
        ]


@dataclass
class Stored:
    """An object, the owners of its fields, and a text that is sent in its place, if any.

    In the text, `VERSION` is replaced with the object's version.
    """

    raw: Raw
    owners: Owners = field(default_factory=Owners)
    text: bytes | None = None

    def encode(self) -> bytes:
        """Return the object as it is sent."""
        if self.text is not None:
            return self.text.replace(b"VERSION", self.raw["metadata"]["resourceVersion"].encode())
        shown = {**self.raw, "metadata": {**self.raw["metadata"]}}
        shown["metadata"].setdefault("managedFields", self.owners.render())
        return json.dumps(shown, ensure_ascii=False).encode()


@dataclass(frozen=True)
class Change:
    """A change in the history, which watches report."""

    version: int
    type: str
    kind: Kind
    namespace: str
    labels: dict[str, str]
    before: dict[str, str] | None  # its labels before; None if it is new
    text: bytes


class Store:
    """Objects by kind and key; `put`, `edit` and `remove` are actions of other users."""

    def __init__(self, *kinds: Kind) -> None:
        self.kinds = {POD, CONFIG_MAP, MESSAGE, LEASE, EVENT, NAMESPACE, CRD, *kinds}
        #: A function that changes created and applied objects, as a mutating webhook does.
        self.admission: Callable[[Kind, Raw], None] = lambda *_: None
        #: Whether watches miss changes, as with a bug in a server, or a proxy that loses lines.
        self.mute = False
        self.version = 1000
        self.objects: dict[tuple[Kind, Key], Stored] = {}
        self.history: list[Change] = []
        self.watches: dict[asyncio.Queue[bytes | None], Callable[[Change], bytes | None]] = {}
        self._uids = itertools.count(1)

    # --- what somebody else does --------------------------------------------------------------

    def get(self, kind: Kind, key: Key) -> Raw | None:
        """Return a stored object, or None."""
        stored = self.objects.get((kind, key))
        return copy.deepcopy(stored.raw) if stored else None

    def all(self, kind: Kind) -> list[Raw]:
        """Return all objects of a kind."""
        return [copy.deepcopy(s.raw) for (k, _), s in self.objects.items() if k == kind]

    def put(self, kind: Kind, raw: Raw, manager: str = "kubectl-create") -> Raw:
        """Create or replace an object."""
        meta = raw["metadata"]
        key = meta.get("namespace", ""), meta["name"]
        former = self.objects.get((kind, key))
        stored = Stored(copy.deepcopy(raw), former.owners if former else Owners())
        self.store(kind, key, stored, manager)
        return copy.deepcopy(stored.raw)

    def edit(
        self,
        kind: Kind,
        key: Key,
        change: Callable[[Raw], object],
        manager: str = "kubectl-edit",
        subresource: str = "",
    ) -> Raw:
        """Change an object."""
        former = self.objects[kind, key]
        raw = copy.deepcopy(former.raw)
        change(raw)
        self.store(kind, key, Stored(raw, former.owners), manager, subresource)
        return raw

    def put_text(self, kind: Kind, key: Key, text: bytes, labels: dict[str, str]) -> None:
        """Store an object whose JSON is this text, in which `VERSION` is its version."""
        self.version += 1
        raw = {
            "metadata": {
                "namespace": key[0],
                "name": key[1],
                "uid": f"uid-{next(self._uids)}",
                "resourceVersion": str(self.version),
                "labels": labels,
            }
        }
        former = self.objects.get((kind, key))
        self.objects[kind, key] = Stored(raw, text=text)
        self.tell("MODIFIED" if former else "ADDED", kind, key, former)

    def remove(self, kind: Kind, key: Key) -> None:
        """Delete an object at once."""
        stored = self.objects[kind, key]
        self.version += 1
        stored.raw["metadata"]["resourceVersion"] = str(self.version)
        self.tell("DELETED", kind, key, stored)
        del self.objects[kind, key]

    def delete(self, kind: Kind, key: Key) -> None:
        """Delete an object, or only mark it if something holds it."""
        if self.objects[kind, key].raw["metadata"].get("finalizers"):
            self.edit(kind, key, lambda raw: raw["metadata"].update(deletionTimestamp=now()))
        else:
            self.remove(kind, key)

    def snapshot(self) -> Callable[[], None]:
        """Return a function that restores the current state, like a restore of etcd."""
        objects, version = copy.deepcopy(self.objects), self.version

        def restore() -> None:
            self.objects, self.version = objects, version
            self.history = [change for change in self.history if change.version <= version]
            self.close_watches()

        return restore

    def bookmark(self) -> None:
        """Send all watches a bookmark with the version that they have seen."""
        for queue in self.watches:
            queue.put_nowait(bookmark(self.version))

    def close_watches(self) -> None:
        """End all watches, while the server continues to answer."""
        for queue in self.watches:
            queue.put_nowait(None)

    @property
    def watching(self) -> int:
        """The number of open watches."""
        return len(self.watches)

    @property
    def events(self) -> list[Raw]:
        """The posted Events."""
        return self.all(EVENT)

    # --- storage ------------------------------------------------------------------------------

    def store(
        self, kind: Kind, key: Key, stored: Stored, manager: str, subresource: str = ""
    ) -> None:
        former = self.objects.get((kind, key))
        before = former.raw if former else {"metadata": {}}
        meta = stored.raw["metadata"]
        if former is not None and stored.raw == former.raw:
            return  # nothing changes, so there is no new version
        self.version += 1
        meta.setdefault("uid", f"uid-{next(self._uids)}")
        meta.setdefault("creationTimestamp", now())
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
        self.objects[kind, key] = stored
        self.tell("MODIFIED" if former else "ADDED", kind, key, former)

    def tell(self, type_: str, kind: Kind, key: Key, former: Stored | None) -> None:
        stored = self.objects[kind, key]
        change = Change(
            self.version,
            type_,
            kind,
            key[0],
            stored.raw["metadata"].get("labels") or {},
            (former.raw["metadata"].get("labels") or {}) if former else None,
            stored.encode(),
        )
        if self.mute:
            return
        self.history.append(change)
        for queue, select in self.watches.items():
            if (line := select(change)) is not None:
                queue.put_nowait(line)


def now() -> str:
    """Return the current time in the API server's format."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def bookmark(version: int) -> bytes:
    """Return the line of a bookmark."""
    told = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}}
    return json.dumps(told).encode() + b"\n"
