"""What a status is, and how it is stored, with conditions as in the Kubernetes API conventions.

`status` writes what these functions return.
"""

import math
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

#: The CRD's limit of conditions; if there are more, the oldest ones set by others are removed.
CONDITIONS = 16
_MESSAGE = 1024  # characters


@dataclass(frozen=True, slots=True)
class Status:
    """The state of an object, as an author's `status` returns it."""

    ready: bool
    #: The condition's reason: one CamelCase word for programs.
    reason: str
    #: The condition's message: a sentence for people.
    message: str
    #: Further fields of the status, best as the class that declares them; None removes a field.
    fields: Struct | dict[str, Any] = field(default_factory=dict)
    #: Whether the state is transient: it is then written only after it has lasted for a while.
    transient: bool = False
    #: Seconds after which to requeue the object, at least one; None if that is not needed.
    requeue_after: float | None = None


def build(former: dict[str, Any], generation: int, now: Status) -> dict[str, Any]:
    """Return the new status of an object, given the former one."""
    conditions = former.get("conditions")
    listed = [c for c in conditions if isinstance(c, dict)] if isinstance(conditions, list) else []
    others = [c for c in listed if c.get("type") != "Ready"]
    if len(others) >= CONDITIONS:
        others.sort(key=lambda c: str(c.get("lastTransitionTime")), reverse=True)
        del others[CONDITIONS - 1 :]
    condition = _condition(ready(former), generation, now)
    fields = msgspec.to_builtins(now.fields, str_keys=True, order="deterministic")
    return {
        **{name: value for name, value in former.items() if name not in fields},
        **_stored(fields),
        "observedGeneration": generation,
        "conditions": [*others, condition],
    }


def _stored(value: Any) -> Any:
    """Return a value as the API server stores it: without fields that are null."""
    match value:
        case dict():
            stored = {name: _stored(part) for name, part in value.items()}
            return {name: part for name, part in stored.items() if part is not None}
        case list() | tuple():
            return [_stored(item) for item in value]
        case float() if not math.isfinite(value):
            return None
    return value


def difference(former: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON merge patch from one object to the other; empty if they are equal."""
    patch: dict[str, Any] = dict.fromkeys(former.keys() - wanted.keys())
    for name, value in wanted.items():
        known = former.get(name)
        if isinstance(known, dict) and isinstance(value, dict) and known != value:
            patch[name] = difference(known, value)
        elif known != value:
            patch[name] = value
    return patch


def _condition(former: dict[str, Any], generation: int, now: Status) -> dict[str, Any]:
    """Return the Ready condition; `lastTransitionTime` changes only with its status."""
    status = "True" if now.ready else "False"
    since = former.get("lastTransitionTime") if former.get("status") == status else None
    return {
        "type": "Ready",
        "status": status,
        # Most reasons come from the API server or the kubelet; a condition allows only one word.
        "reason": re.sub(r"[^A-Za-z0-9]", "", now.reason).lstrip("0123456789")[:256] or "Unknown",
        "message": now.message[:_MESSAGE].encode(errors="replace").decode(),  # half a character
        "observedGeneration": generation,
        "lastTransitionTime": since or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def ready(status: dict[str, Any]) -> dict[str, Any]:
    """Return a status's Ready condition, or an empty one."""
    conditions = status.get("conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, dict) and condition.get("type") == "Ready":
            return condition
    return {}
