"""Checks whether OLM v1 would upgrade the CRD of one release to that of the next.

https://operator-framework.github.io/operator-controller/concepts/crd-upgrade-safety/ lists what it
refuses. OLM v1 uses https://github.com/kubernetes-sigs/crdify, which refuses every change for which
it has no rule, and so does this module. `kopf_kit.pack.crd_history` compares the CRDs with those of
the last release.
"""

import json
from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]

_LEAST = ("minimum", "minLength", "minProperties", "minItems")
_MOST = ("maximum", "maxLength", "maxProperties", "maxItems")

#: Keywords that may change or that have a rule of their own.
_RULED = {
    *("description", "type", "default", "required", "enum", *_LEAST, *_MOST),
    *("properties", "items"),
}


def unsafe(old: Schema, new: Schema) -> Iterator[str]:
    """Yield a sentence for each change that is refused; it begins with the field."""
    if old["spec"]["scope"] != new["spec"]["scope"]:
        yield f"spec.scope: {old['spec']['scope']} may not become {new['spec']['scope']}"
    versions = {version["name"]: version for version in new["spec"]["versions"]}
    for version in old["spec"]["versions"]:
        name = version["name"]
        if name not in versions:
            # Any version that is served may have been stored. One that is not was given up before.
            if version["served"]:
                yield f"spec.versions: {name} may not be removed while it is served"
            continue
        schemas = [served["schema"]["openAPIV3Schema"] for served in (version, versions[name])]
        yield from _fields(schemas[0], schemas[1], name)


def _fields(old: Schema, new: Schema, where: str) -> Iterator[str]:
    """Yield the refused changes of a field and of the fields below it."""
    yield from _field(old, new, where)
    before, after = _below(old), _below(new)
    for name, field in before.items():
        if name in after:
            yield from _fields(field, after[name], f"{where}.{name}")
        else:
            yield f"{where}.{name}: may not be removed"


def _below(schema: Schema) -> dict[str, Schema]:
    below = dict(schema.get("properties", {}))
    if "items" in schema:
        below["items"] = schema["items"]
    if isinstance(schema.get("additionalProperties"), dict):
        below["additionalProperties"] = schema["additionalProperties"]
    return below


def _field(old: Schema, new: Schema, where: str) -> Iterator[str]:
    """Yield the refused changes of the field itself."""
    if old.get("type") != new.get("type"):
        yield f"{where}: type {old.get('type')} may not become {new.get('type')}"
    if old.get("default") != new.get("default"):
        yield f"{where}: default {old.get('default')!r} may not become {new.get('default')!r}"
    if added := sorted(set(new.get("required", [])) - set(old.get("required", []))):
        yield f"{where}: {', '.join(added)} may not become required"
    if "enum" in new and "enum" not in old:
        yield f"{where}: may not be restricted to an enum"
    elif lost := [choice for choice in _choices(old) if choice not in _choices(new)]:
        yield f"{where}: enum may not lose {', '.join(sorted(lost))}"
    for bounds, tighter in ((_LEAST, 1), (_MOST, -1)):
        for bound in bounds:
            if bound in new and (bound not in old or (new[bound] - old[bound]) * tighter > 0):
                yield f"{where}: {bound} {old.get(bound)} may not become {new[bound]}"
    yield from _others(old, new, where)


def _choices(schema: Schema) -> list[str]:
    """Return the values of an enum as JSON: they may be of any type, and 1 is not true."""
    return [
        json.dumps(choice, ensure_ascii=False, sort_keys=True) for choice in schema.get("enum", [])
    ]


def _others(old: Schema, new: Schema, where: str) -> Iterator[str]:
    """Yield the changes of a field that no other rule covers."""
    for key in sorted((old.keys() | new.keys()) - _RULED):
        values = [old.get(key), new.get(key)]
        schemas = key == "additionalProperties" and all(isinstance(value, dict) for value in values)
        if not schemas and values[0] != values[1]:
            yield f"{where}: {key} may not change"
