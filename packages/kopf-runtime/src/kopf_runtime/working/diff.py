"""What `--dry-run` prints of a child: a diff of the live object and of what it would become.

It looks like the output of `kubectl diff`. Nothing is sent to the API server, which would fill in
its defaults: fields that the manifest does not set are taken from the live object.
"""

import difflib
import json
import re
from typing import Any

import yaml

Raw = dict[str, Any]

#: The annotation in which `kubectl apply` keeps the whole manifest.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class _Dumper(yaml.SafeDumper):
    """Quotes texts that kubectl would take for a number or a boolean, and PyYAML would not."""


_ODD = re.compile(r"([yYnN]|[-+]?(0[xob][0-9a-f_]+|[0-9._]+(e[-+]?[0-9_]+)?))$", re.IGNORECASE)
_Dumper.add_implicit_resolver("kubectl", _ODD, None)
#: Line breaks of YAML 1.1, which nothing but an escape keeps.
_BREAKS = re.compile("[\x85\u2028\u2029\ufeff]")


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if _BREAKS.search(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def diff(live: Raw | None, manifest: Raw | None, manager: str) -> str:
    """Return the diff from an object to its manifest; either may be missing."""
    target = manifest if live is None or manifest is None else _become(live, manifest, manager)
    whole = live or target or {}
    meta = whole["metadata"]
    parts = (whole["apiVersion"], whole["kind"], meta.get("namespace"), meta["name"])
    name = ".".join(part.replace("/", ".") for part in parts if part)
    texts = (_lines(_masked(live, target)), _lines(_masked(target, live, after=True)))
    return "".join(difflib.unified_diff(*texts, f"LIVE/{name}", f"MERGED/{name}"))


def _lines(manifest: Raw | None) -> list[str]:
    if manifest is None:
        return []
    meta = {k: v for k, v in manifest["metadata"].items() if k != "managedFields"}
    text = yaml.dump({**manifest, "metadata": meta}, Dumper=_Dumper, allow_unicode=True)
    return text.splitlines(keepends=True)


def _masked(manifest: Raw | None, other: Raw | None, *, after: bool = False) -> Raw | None:
    """Return a Secret without its values, as `kubectl diff` shows it.

    `kubectl apply` keeps all of them in an annotation, too.
    """
    if manifest is None or manifest["kind"] != "Secret":
        return manifest
    theirs, when = (other or {}).get("data") or {}, "after" if after else "before"
    data = {
        name: "***" if name not in theirs or theirs[name] == value else f"*** ({when})"
        for name, value in (manifest.get("data") or {}).items()
    }
    masked, notes = {**manifest, "data": data}, manifest["metadata"].get("annotations") or {}
    if LAST_APPLIED in notes:
        masked["metadata"] = {**manifest["metadata"], "annotations": {**notes, LAST_APPLIED: "***"}}
    return masked


def _become(live: Raw, manifest: Raw, manager: str) -> Raw:
    """Return what a live object becomes: what the operator set before and omits now is removed.

    What all managers own tells which parts are set as a whole, and what identifies a list's items.
    """
    owned, known = Raw(), Raw()
    for entry in live["metadata"].get("managedFields") or ():
        _add(known, entry.get("fieldsV1") or {})
        if entry.get("manager") == manager and not entry.get("subresource"):
            _add(owned, entry.get("fieldsV1") or {})
    merged: Raw = _merge(live, manifest, owned, known)
    return merged


def _add(into: Raw, more: Raw) -> None:
    for name, part in more.items():
        _add(into.setdefault(name, {}), part)


def _merge(live: Any, wanted: Any, owned: Raw, known: Raw | None) -> Any:
    """Return what becomes of a part; `known` is None if nobody owns something of it."""
    if isinstance(live, dict) and isinstance(wanted, dict) and (known is None or known or not live):
        known = known or {}
        kept = {
            name: _merge(value, wanted[name], owned.get(f"f:{name}", {}), known.get(f"f:{name}"))
            if name in wanted
            else _left(value, owned.get(f"f:{name}"), known.get(f"f:{name}"))
            for name, value in live.items()
        }
        # Up to Kubernetes 1.33, the API server itself has nulls, such as a creationTimestamp.
        kept = {n: value for n, value in kept.items() if value is not None or live[n] is None}
        new = {n: value for n, value in wanted.items() if n not in live and value is not None}
        return kept | new
    if isinstance(live, list) and isinstance(wanted, list) and known:
        keys = next((list(json.loads(step[2:])) for step in known if step.startswith("k:")), None)
        if keys is not None:
            return _merge_items(live, wanted, keys, owned, known)
        theirs = (item for item in live if f"v:{json.dumps(item)}" not in owned)
        return wanted + [item for item in theirs if item not in wanted]
    return wanted


def _left(value: Any, owned: Raw | None, known: Raw | None) -> Any:
    """Return what is left of a part that the manifest omits; None if nothing is."""
    if owned is None:  # others have set it
        return value
    parts = isinstance(value, dict | list) and owned
    return (_merge(value, type(value)(), owned, known) or None) if parts else None


def _merge_items(
    live: list[Raw], wanted: list[Raw], keys: list[str], owned: Raw, known: Raw
) -> list[Raw]:
    """Return the wanted items of a list, merged with the live ones, and those of others."""
    left, merged = list(live), list[Raw]()
    for item in wanted:
        same = (o for o in left if all(item.get(key, o.get(key)) == o.get(key) for key in keys))
        if (other := next(same, None)) is None:
            merged.append(item)
        else:
            left.remove(other)
            parts = _owned_part(other, owned) or {}, _owned_part(other, known)
            merged.append(_merge(other, item, *parts))
    return merged + [item for item in left if _owned_part(item, owned) is None]


def _owned_part(item: Raw, owned: Raw) -> Raw | None:
    """Return the owned fields of a list item, or None if it is not owned."""
    for name, part in owned.items():
        if name.startswith("k:") and json.loads(name[2:]).items() <= item.items():
            fields: Raw = part
            return fields
    return None
