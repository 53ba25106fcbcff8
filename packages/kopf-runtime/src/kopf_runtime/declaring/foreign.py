"""Kinds that others define: built-in ones, and those of the CRDs of others.

The controller of such a kind makes children, and may contribute to the object itself. The status
is somebody else's: it may have one condition of ours, if the author names it.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from kopf_runtime.declaring.objects import ObjectMeta
from kopf_runtime.declaring.parsers import LABEL

#: The end of the name of the manager of the annotation, or of the condition.
STATE = "-state"


class Foreign(msgspec.Struct, frozen=True):
    """Which objects of a kind that others define are served, and where their state is written."""

    #: The labels that they have; without any, all are served.
    labels: tuple[tuple[str, str], ...] = ()
    #: The annotation that tells the state, beside Events and metrics; empty: none does.
    annotation: str = ""
    #: The type of the condition that tells it instead.
    condition: str = ""

    def state_of(self, thing: Any) -> str:
        """Return what an object tells of the state."""
        if not self.condition:
            return str((thing.metadata.annotations or {}).get(self.annotation, ""))
        ours = [each for each in _conditions(thing.status) if each.get("type") == self.condition]
        return spelled(ours[0]) if ours else ""

    def is_by(self, manager: str, meta: ObjectMeta) -> bool:
        """Return whether an operator has written what an object tells of the state."""
        steps = ("f:status", "f:conditions", f'k:{{"type":"{self.condition}"}}')
        if not self.condition:
            steps = ("f:metadata", "f:annotations", f"f:{self.annotation}")
        for entry in meta.managed_fields or ():
            if entry.manager != f"{manager}{STATE}":
                continue
            part = msgspec.json.decode(entry.fields_v1)
            for step in steps[:-1]:
                part = part.get(step) if isinstance(part, dict) else None
            if isinstance(part, dict) and (steps[-1] in part or not part):
                return True  # some CRDs have the conditions as one value
        return False

    def of_others(self, thing: Any) -> bytes:
        """Return the rest of a status that has our condition: what we write there is no news."""
        if not self.condition:
            return b""
        theirs = [c for c in _conditions(thing.status) if c.get("type") != self.condition]
        whole = {**msgspec.to_builtins(thing.status, enc_hook=repr), "conditions": theirs}
        return msgspec.json.encode(whole, order="sorted")

    @property
    def selector(self) -> str:
        """The label selector."""
        return ",".join(f"{label}={value}" for label, value in self.labels)

    def selects(self, labels: Mapping[str, str] | None) -> bool:
        """Return whether an object with these labels is served."""
        return (labels or {}).items() >= set(self.labels)


def spelled(entry: Mapping[str, Any]) -> str:
    """Return what a condition says; a field that is empty may be left out."""
    return "{} {}: {}".format(*(entry.get(n) or "" for n in ("status", "reason", "message")))


def _conditions(status: Any) -> list[dict[str, Any]]:
    whole = msgspec.to_builtins(status, enc_hook=repr)
    listed = whole.get("conditions") if isinstance(whole, dict) else None
    return [c for c in listed if isinstance(c, dict)] if isinstance(listed, list | tuple) else []


def foreign(
    where: Mapping[str, Any] | None, annotation: str, condition: str = "", type_: Any = None
) -> Foreign:
    """Return what an author declares; raise `TypeError` or `ValueError` if it cannot be meant."""
    if odd := [name for name in where or {} if name != "labels"]:
        raise ValueError(f"where={where!r}: {odd[0]!r} selects nothing; use {{'labels': {{…}}}}")
    labels = (where or {}).get("labels", {})
    if not isinstance(labels, Mapping):
        raise TypeError(f"where={where!r}: use a mapping of labels and their values")
    for label, value in labels.items():
        if not LABEL.fullmatch(f"{label}={value}"):
            raise ValueError(f"{label}={value} of where= is no label that an object can have")
    if annotation and not LABEL.fullmatch(f"{annotation}="):
        raise ValueError(f"{annotation!r} cannot name an annotation; use such as example.org/state")
    if condition and not LABEL.fullmatch(f"{condition}="):
        raise ValueError(f"{condition!r} is no type of a condition; use such as example.org/Ready")
    if condition and annotation:
        raise ValueError("annotation= and condition= tell the same; use one of them")
    found = Foreign(tuple(labels.items()), annotation, condition)
    if condition and not _shows(found, type_):
        raise TypeError(
            "condition= needs a class whose status has the conditions, each with type, status, "
            "reason and message"
        )
    return found


def _shows(found: Foreign, type_: Any) -> bool:
    """Return whether objects of a class tell what our condition says."""
    if "status" not in getattr(type_, "__struct_fields__", ()):
        return False
    types = {field.name: field.type for field in msgspec.structs.fields(type_)}
    entry = {"type": found.condition, "status": "True", "reason": "A", "message": "b"}
    try:
        status = msgspec.convert({"conditions": [entry]}, types["status"])
    except msgspec.ValidationError:  # it needs more than conditions, and may show them
        return True
    return any(spelled(each) == "True A: b" for each in _conditions(status))
