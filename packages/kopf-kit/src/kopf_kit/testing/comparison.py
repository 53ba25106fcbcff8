"""Compares a child with its manifest, as an operator plans it, and with other children."""

import base64
import json
from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from kopf_kit.testing.requests import Raw
from kopf_runtime import Kind
from kopf_runtime.working.templates import Marks

#: Parts of an object that are not its content: who it is, and how it fares.
_NO_CONTENT = ("apiVersion", "kind", "metadata", "status")
#: Parts that get no defaults, so nothing may be there that was not planned.
_WHOLE = ("data", "binaryData")
#: Fields that Kubernetes chooses for each object.
_CHOSEN = ("clusterIP", "clusterIPs", "healthCheckNodePort", "nodeName", "nodePort", "volumeName")


def as_stored(manifest: Raw) -> Raw:
    """Return a manifest as the API server stores it: in JSON, and a Secret's texts encoded."""
    stored: Raw = msgspec.json.decode(msgspec.json.encode(manifest))
    texts: dict[str, str] = stored.pop("stringData", {}) if stored["kind"] == "Secret" else {}
    if texts:
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        stored["data"] = {**stored.get("data", {}), **encoded}
    return stored


def content(manifest: Raw) -> Raw:
    """Return what somebody wants of an object, with its labels and annotations."""
    given = manifest["metadata"]
    metadata = {part: given[part] for part in ("labels", "annotations") if given.get(part)}
    parts = {part: value for part, value in manifest.items() if part not in _NO_CONTENT}
    return {**parts, "metadata": metadata}


def compared(child: Raw, manifest: Raw) -> dict[str, tuple[Any, Any]]:
    """Return the actual and the planned value of each field that a manifest sets, by its path."""
    actual = content(child)
    return {
        path: values
        for part, planned in content(manifest).items()
        for path, values in _compared(part, actual.get(part), planned)
    }


def _compared(path: str, actual: Any, planned: Any) -> Iterator[tuple[str, tuple[Any, Any]]]:
    if path in _WHOLE:
        yield path, (actual or {}, planned or {})
    elif isinstance(planned, dict):
        fields = actual if isinstance(actual, dict) else {}
        for name, value in planned.items():
            yield from _compared(f"{path}.{name}", fields.get(name), value)
    elif isinstance(planned, list) and isinstance(actual, list) and len(actual) == len(planned):
        for number, (mine, value) in enumerate(zip(actual, planned, strict=True)):
            yield from _compared(f"{path}[{number}]", mine, value)
    elif actual is not None or planned:  # else it is empty, which is not always stored
        yield path, (actual, planned)


def owners(child: Raw, kind: Kind) -> list[str]:
    """Return the uids of a child's owners, or of the object that keeps it without a reference."""
    meta = child["metadata"]
    kept = (meta.get("labels") or {}).get(Marks("", kind).uid, "")
    return [owner["uid"] for owner in meta.get("ownerReferences") or [{"uid": kept}]]


def is_foreign(child: Raw, kind: Kind, uids: Collection[str]) -> bool:
    """Return whether an object is no child of a kind's objects, which have these uids.

    It has an owner of another kind, or outlives its own, as `deletion_policy=kr.RETAIN` wants.
    """
    if references := child["metadata"].get("ownerReferences"):
        return all(owner["kind"] != kind.kind for owner in references)
    return owners(child, kind)[0] not in ("", *uids)


def essence(child: Raw, kind: Kind) -> Raw:
    """Return a child's content and labels, without what differs between equal children."""
    metadata = child["metadata"]
    kept = (metadata.get("annotations") or {}).get(Marks("", kind).name, "")
    names = [owner["name"] for owner in metadata.get("ownerReferences") or [{"name": kept}]]
    known = {**content(child), "metadata": {"labels": metadata.get("labels")}}
    text = json.dumps(_without_chosen(known))
    for own in filter(None, (metadata["uid"], *owners(child, kind), *names)):
        text = text.replace(own, "its-own")
    essence: Raw = json.loads(text)
    return essence


def _without_chosen(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_chosen(v) for name, v in value.items() if name not in _CHOSEN}
    return [_without_chosen(item) for item in value] if isinstance(value, list) else value
