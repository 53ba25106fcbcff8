"""What a status is, and how it is stored, with conditions as in the Kubernetes API conventions.

`reporting` writes what these functions return.
"""

import functools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct

from kopf_runtime.declaring.objects import timestamp

#: The CRD's limit of conditions; if there are more, the oldest ones set by others are removed.
CONDITIONS = 16
_MESSAGE = 1024  # characters


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of an author's own; `Ready` is the runtime's.

    `type` and `reason` are CamelCase words, such as `Available`, and `message` is a sentence for
    people. `status` says whether the condition holds; None if that is unknown.
    """

    type: str
    status: bool | None
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Status:
    """The state of an object, as an author's `status` returns it.

    `ready` is the status of the condition `Ready`, `reason` one CamelCase word for programs, and
    `message` a sentence for people. `fields` are further fields of the status, best as the class
    that declares them; None removes a field. A `transient` state is written only after it has
    lasted a second. `requeue_after` is the number of seconds, at least one, after which to requeue
    the object. `conditions` are those beside `Ready`; one that is not returned stays as it was.
    """

    ready: bool
    reason: str
    message: str
    fields: Struct | dict[str, Any] = field(default_factory=dict)
    transient: bool = False
    requeue_after: float | None = None
    conditions: Sequence[Condition] = ()


def build(former: dict[str, Any], generation: int, now: Status) -> dict[str, Any]:
    """Return the new status of an object, given the former one; raise `ValueError`."""
    whole = Condition("Ready", now.ready, now.reason, now.message)
    ours = {condition.type: condition for condition in (*now.conditions, whole)}
    fields = merged(former, now.fields)
    if len(ours) <= len(now.conditions) or fields.get("conditions") != former.get("conditions"):
        raise ValueError(
            "each condition needs a type of its own, other than Ready; return conditions in "
            "kr.Status(conditions=…), not in fields"
        )
    if texts := [name for name, condition in ours.items() if isinstance(condition.status, str)]:
        raise TypeError(f"the condition {texts[0]} has a text for its status, not a bool or None")
    conditions = former.get("conditions")
    listed = [
        c
        for c in (conditions if isinstance(conditions, list) else ())
        if isinstance(c, dict) and isinstance(c.get("type"), str)  # a CRD may allow anything
    ]
    others = [c for c in listed if c["type"] not in ours]
    if len(others) > (most := max(0, CONDITIONS - len(ours))):
        others.sort(key=lambda c: str(c.get("lastTransitionTime")), reverse=True)
        del others[most:]
    before = {c["type"]: c for c in listed if c["type"] in ours}
    mine = [written(before.get(name, {}), generation, new) for name, new in ours.items()]
    return {**fields, "observedGeneration": generation, "conditions": [*others, *mine]}


def merged(former: dict[str, Any], fields: Struct | dict[str, Any]) -> dict[str, Any]:
    """Return a status with these fields of the author's; None removes one."""
    given = msgspec.to_builtins(fields, str_keys=True, order="deterministic")
    return {**{name: part for name, part in former.items() if name not in given}, **stored(given)}


def stated(fields: Struct) -> dict[str, Any]:
    """Return the fields of an instance that are not at their defaults, by their names in the API.

    Raise `ValueError` if all of them are: it says nothing.
    """
    whole = msgspec.to_builtins(fields, str_keys=True, order="deterministic")
    names = {
        field.encode_name
        for field in msgspec.structs.fields(fields)
        if getattr(fields, field.name) != _default(field)
    }
    if not names:
        raise ValueError(
            f"each field of this {type(fields).__name__} has its default, so nothing would be "
            "stored; to store a default, use a dict with the field's name"
        )
    return {name: value for name, value in whole.items() if name in names}


def _default(field: msgspec.structs.FieldInfo) -> Any:
    factory = field.default_factory
    return field.default if factory is msgspec.NODEFAULT else factory()


def stored(value: Any) -> Any:
    """Return a value as the API server stores it: without fields that are null."""
    match value:
        case dict():
            parts = {name: stored(part) for name, part in value.items()}
            return {name: part for name, part in parts.items() if part is not None}
        case list() | tuple():
            return [stored(item) for item in value]
        case float() if not math.isfinite(value):
            return None
    return value


def difference(former: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON merge patch from one object to the other; empty if they are equal."""
    patch: dict[str, Any] = dict.fromkeys(former.keys() - wanted.keys())
    for name, value in wanted.items():
        before = former.get(name)
        if isinstance(before, dict) and isinstance(value, dict) and before != value:
            patch[name] = difference(before, value)
        elif before != value:
            patch[name] = value
    return patch


def written(former: dict[str, Any], generation: int, now: Condition) -> dict[str, Any]:
    """Return a condition; its `lastTransitionTime` changes only with its status."""
    status = "Unknown" if now.status is None else str(bool(now.status))
    since = former.get("lastTransitionTime") if former.get("status") == status else None
    return {
        "type": now.type,
        "status": status,
        # Most reasons come from the API server or the kubelet; a condition allows only one word.
        "reason": _word(now.reason),
        "message": now.message[:_MESSAGE].encode(errors="replace").decode(),  # half a character
        "observedGeneration": generation,
        "lastTransitionTime": since or timestamp(),
    }


@functools.lru_cache(maxsize=256)
def _word(reason: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "", reason).lstrip("0123456789")[:256] or "Unknown"


def condition(status: dict[str, Any], type_: str) -> dict[str, Any]:
    """Return a status's condition of a type, or an empty one."""
    conditions = status.get("conditions")
    for entry in conditions if isinstance(conditions, list) else ():
        if isinstance(entry, dict) and entry.get("type") == type_:
            return entry
    return {}
