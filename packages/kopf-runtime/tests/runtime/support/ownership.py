"""Field ownership (`metadata.managedFields`) as in the real API server, for `api_server`."""

import json
from typing import Any

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
