"""The versions of a kind, and the conversion of objects between them by an author's functions.

`Controller.convert` registers the functions, each between two neighbours; `Versions` checks them,
goes from any version to any other, and keeps in an annotation what a version cannot hold. Nothing
here asks the cluster: `endpoints.reviews` calls it for each object of a ConversionReview.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from kopf_runtime.converting.partial import FORGED, Raw, annotation_of, lenient, parts_of
from kopf_runtime.declaring.conditions import stored
from kopf_runtime.declaring.controller_declaration import Declaration
from kopf_runtime.declaring.declaration import CustomResource, declared
from kopf_runtime.declaring.errors import DeclarationError
from kopf_runtime.declaring.objects import Resource
from kopf_runtime.declaring.records import HOLDS

Convert = Callable[[Any], Any]
#: One on the way, with its versions; it gets the object, as raw, too, and whether it is valid.
Step = Callable[[Any, Raw, bool], Resource]
Steps = Mapping[tuple[type[Resource], type[Resource]], Convert]

#: Characters of what an author's exception says.
_MAX_REASON = 500


class ConversionError(Exception):
    """An object cannot be converted; the message says which one, and why."""


class _Metadata(Struct):
    """What conversions need of the metadata."""

    name: str = ""
    namespace: str = ""
    annotations: dict[str, str] | None = None


class Versions:
    """The versions of one kind; raise `DeclarationError` if they do not belong together."""

    def __init__(self, own: type[Resource], steps: Steps, *, holds: bool = False) -> None:
        self.kind, self._holds = declared(own).kind, holds
        self._steps = {(_version(old), _version(new)): step for (old, new), step in steps.items()}
        self.all: dict[str, CustomResource] = {}
        for type_ in (own, *(type_ for pair in steps for type_ in pair)):
            self._add(declared(type_))
        self._paths = {version: dict(self._reached(version)) for version in self.all}
        self._check()
        marked = [resource.kind.version for resource in self.all.values() if resource.storage]
        self.stored = self._only(marked) if len(self.all) > 1 else _version(own)
        #: The annotation with what the version that an object has cannot hold.
        self.annotation = annotation_of(self.kind.group)

    @classmethod
    def of(cls, declaration: Declaration) -> "Versions | None":
        """Return the versions of a declared kind, or None if it has one; raise as the class."""
        steps = dict(declaration.conversions)
        return cls(declaration.type, steps, holds=bool(declaration.uniques)) if steps else None

    # --- what is declared -------------------------------------------------------------------------

    def _add(self, new: CustomResource) -> None:
        version = new.kind.version
        if (old := self.all.setdefault(version, new)).resource is not new.resource:
            first, second = old.resource, new.resource
            raise DeclarationError(
                f"{first.__module__}.{first.__qualname__} and {second.__module__}."
                f"{second.__qualname__} are both {new.kind.api_version}; give one another version"
            )
        if new.kind._replace(version=self.kind.version) != self.kind:
            raise DeclarationError(
                f"{new.kind.api_version} {new.kind.kind} ({new.kind}) is not a version of "
                f"{self.kind.kind} ({self.kind}); group, plural, scope and kind= must be the same"
            )

    def _reached(self, start: str) -> Iterator[tuple[str, list[Step]]]:
        """Yield each version that can be reached, with the functions that lead there."""
        queue, visited = [(start, list[Step]())], {start}
        for version, path in queue:
            yield version, path
            for (old, new), step in self._steps.items():
                if old == version and new not in visited:
                    visited.add(new)
                    queue.append((new, [*path, functools.partial(self._step, step, old, new)]))

    def _check(self) -> None:
        kind = self.kind
        for old, new in self._steps:
            if (new, old) not in self._steps:
                raise DeclarationError(
                    f"nothing converts {kind.kind} from {new} back to {old}; register that "
                    "function with @controller.convert, too"
                )
        if away := self.all.keys() - self._paths[kind.version].keys():
            raise DeclarationError(
                f"no functions lead from {kind.version} of {kind.kind} to {min(away)}; register "
                "them with @controller.convert"
            )
        if len(self._steps) > 2 * (len(self.all) - 1):
            raise DeclarationError(
                f"the converters of {kind.kind} are a circle ({', '.join(self.all)}); leave out "
                "those between two of them, so that one way leads from each version to each other"
            )
        if not self.all[kind.version].served:
            raise DeclarationError(
                f"{kind.version} of {kind.kind} is not served, but its controller reads it; leave "
                "out served=False, or make the controller for another version"
            )

    def _only(self, marked: list[str]) -> str:
        kind = self.kind.kind
        if len(marked) != 1:
            raise DeclarationError(
                f"{len(marked)} of the versions {', '.join(self.all)} of {kind} are stored; put "
                "storage=True on one of them"
            )
        if not self.all[marked[0]].served:
            raise DeclarationError(
                f"{marked[0]} of {kind} is stored, but not served, so nobody could rewrite what is "
                "stored; leave out served=False until another version is stored"
            )
        return marked[0]

    # --- one object -------------------------------------------------------------------------------

    def convert(self, raw: Raw, api_version: str) -> Raw:
        """Return an object in another version; raise `ConversionError`.

        If it cannot be converted from what may be stored, it is shown as far as possible: it must
        not make the list of all others fail. Its annotation then says why, and holds it. Once the
        controller's version is stored, the version before may still be, so nothing is refused.
        """
        old, new = self._of(raw.get("apiVersion")), self._of(api_version)
        metadata: Any = raw.get("metadata")
        try:
            msgspec.convert(metadata, _Metadata)  # not only the API server may ask
        except msgspec.ValidationError as error:
            subject = f"the metadata of an object of {raw['apiVersion']}"
            raise ConversionError(f"{subject} cannot be read: {error}") from error
        if old == new:
            return raw
        original, former = raw, self._kept(metadata)
        refuses = self.stored not in (old, self.kind.version)
        kept = dict(former)
        try:
            raw, old = self._original(raw, old, kept)
            former = dict(kept)
            fields = _fields_of(raw) if old == new else self._converted(raw, old, new, kept)
            fields = self._as_held(fields, original)
        except Exception as error:
            name = "/".join(filter(None, (metadata.get("namespace"), metadata.get("name"))))
            text = f"{original.get('kind')} {name} cannot be converted from {old} to {new}"
            why = f"{text}: {_said(error)[:_MAX_REASON]}"
            if refuses:
                raise ConversionError(why) from error
            fields = self._shown(raw, new)
            kept = former | {old: {"why": why, "whole": _fields_of(raw)}}
        metadata = {**metadata, "annotations": {**(metadata.get("annotations") or {})}}
        metadata["annotations"].pop(self.annotation, None)
        if kept:
            metadata["annotations"][self.annotation] = msgspec.json.encode(kept).decode()
        elif not metadata["annotations"]:
            del metadata["annotations"]
        kind = original.get("kind")
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}

    def _as_held(self, fields: Raw, raw: Raw) -> Raw:
        """Return fields with the unique values that an object has, in place of any others.

        Neither a function nor the annotation, into which others may write, gives it some.
        """
        if not self._holds:
            return fields
        status = {n: part for n, part in (fields.get("status") or {}).items() if n != HOLDS}
        before = raw.get("status") or {}
        status |= {n: part for n, part in before.items() if n == HOLDS}
        return {**fields, "status": status} if status or "status" in fields else fields

    def _of(self, api_version: Any) -> str:
        group, _, version = str(api_version).rpartition("/")
        if version not in self.all or group != self.all[version].kind.group:
            raise ConversionError(f"{api_version!r:.100} is not one of {', '.join(self.all)}")
        return version

    def _kept(self, metadata: Raw) -> dict[str, Raw]:
        """Return what the annotation holds, by version; others may write into it."""
        parts = parts_of(metadata.get("annotations") or {}, self.annotation)
        return {key: part for key, part in parts.items() if key in self.all or "whole" in part}

    def _converted(self, raw: Raw, old: str, new: str, kept: dict[str, Raw]) -> Raw:
        """Return the fields of an object in another version, and change what is kept."""
        mine, valid = self._read(old, raw)
        converted = self._along(old, new, mine, raw, valid)
        if (lost := kept.pop(new, {}).get("lost")) is not None:
            with contextlib.suppress(*FORGED):
                whole = _body(_restored(_fields(converted), lost), raw)
                converted = self._read(new, whole, valid=True)[0]
        result, before = _fields(converted), _fields(mine)
        again = _fields(self._along(new, old, converted, raw, valid))
        kept.pop(old, None)
        if lost := _lost(before, again):
            kept[old] = {"lost": lost}
        lean = stored(result)  # without what is null and may be left out
        same = lean == result or _fields(self._read(new, _body(lean, raw))[0]) == result
        return lean if same else result

    def _along(self, old: str, new: str, thing: Resource, raw: Raw, valid: bool) -> Resource:
        """Return an object after each function on the way to another version."""
        for step in self._paths[old][new]:
            thing = step(thing, raw, valid)
        return thing

    def _step(
        self, convert: Convert, old: str, new: str, thing: Resource, raw: Raw, valid: bool
    ) -> Resource:
        other, name = convert(thing), getattr(convert, "__name__", "the function")
        if not isinstance(other, type_ := self._type(new)):
            raise TypeError(f"{name} returned {type(other).__name__}, not {type_.__name__} ({new})")
        if other.metadata != thing.metadata:
            raise ValueError(f"{name} changed the metadata; pass it on as it is")
        fields = _fields(other)
        if not fields.get("status"):  # most kinds have one status in all versions
            fields["status"] = thing.status
        try:
            result: Resource = self._read(new, _body(fields, raw), valid)[0]
        except msgspec.MsgspecError as error:
            raise ValueError(f"{name} returned what is invalid in {new}: {error}") from error
        return result

    def _type(self, version: str) -> type[Resource]:
        return self.all[version].resource

    def _read(self, version: str, raw: Raw, valid: bool = False) -> tuple[Any, bool]:
        """Return an object of the version's class, and whether it is valid.

        Raise if it has to be `valid`, and is not. Server-side apply converts objects without
        required fields, and bounds may have been wider when an object was stored. What is missing
        is then `msgspec.UNSET`, and stays missing.
        """
        try:
            return msgspec.convert(_body(raw, raw), _strict(self._type(version))), True
        except msgspec.MsgspecError:
            if valid:
                raise
            return msgspec.convert(_body(raw, raw), lenient(self._type(version))), False

    def _shown(self, raw: Raw, version: str) -> Raw:
        """Return those fields of an object that fit another version as they are."""
        for fields in (_fields_of(raw), {"status": raw.get("status")}, {}):
            try:
                return _fields(self._read(version, _body(fields, raw))[0])
            except msgspec.MsgspecError:
                continue
        return {}

    def _original(self, raw: Raw, here: str, kept: dict[str, Raw]) -> tuple[Raw, str]:
        """Return the original that an object shows a part of, and its version; else the object.

        Raise `ConversionError` if somebody has changed what is shown. In the stored version that is
        allowed, and the annotation may be somebody's own: then it counts for nothing.
        """
        claims = [claim for claim in kept if claim in self.all and "whole" in kept[claim]]
        for version in (claim for claim in claims if claim != here):
            if (original := self._unchanged(raw, here, version, kept[version]["whole"])) is None:
                continue
            del kept[version]
            return original, version
        for version in claims:
            if here not in (version, self.stored):
                raise ConversionError(f"it is shown in part; change it as {version}")
            del kept[version]
        return raw, here

    def _unchanged(self, raw: Raw, here: str, version: str, whole: Any) -> Raw | None:
        """Return the original of an object, with the present status; None if it was changed."""
        with contextlib.suppress(*FORGED):
            shown = self._shown(_body(whole, raw), here)
            now = _fields(self._read(here, raw)[0])
            original = _body({**whole, "status": raw.get("status") or {}}, raw)
            self._read(version, original, valid=True)
            if shown | {"status": None} == now | {"status": None}:
                return original
        return None


def _version(type_: type[Resource]) -> str:
    return declared(type_).kind.version


def _said(error: Exception) -> str:
    if isinstance(error, msgspec.MsgspecError | ConversionError):
        return str(error)
    return f"{type(error).__name__}: {error}"


def _fields_of(raw: Raw) -> Raw:
    return {k: part for k, part in raw.items() if k not in ("apiVersion", "kind", "metadata")}


def _fields(thing: Struct) -> Raw:
    """Return the fields of an object except its metadata."""
    parts = {name: getattr(thing, own) for own, name in _names(type(thing))}
    parts = {name: part for name, part in parts.items() if part is not UNSET}
    whole: Raw = msgspec.to_builtins(parts, str_keys=True, order="deterministic")
    return whole


@functools.cache
def _names(type_: type[Struct]) -> list[tuple[str, str]]:
    """Return the names of a class's fields except the metadata, in Python and in the API."""
    fields = msgspec.structs.fields(type_)
    return [(field.name, field.encode_name) for field in fields if field.name != "metadata"]


def _body(fields: Raw, raw: Raw) -> Raw:
    """Return fields with an object's metadata, but without what tells whose they are."""
    return {**fields, "metadata": {**raw["metadata"], "managedFields": None}}


def _lost(before: Raw, again: Raw) -> Raw:
    """Return what differs between an object and what came back of it: both, for each field."""
    lost: Raw = {}
    for name in sorted(before.keys() | again.keys()):
        mine, theirs = before.get(name), again.get(name)
        if isinstance(mine, dict) and isinstance(theirs, dict):
            if part := _lost(mine, theirs):
                lost[name] = part
        elif _field(again, name) != _field(before, name):
            lost[name] = [_field(again, name), _field(before, name)]
    return lost


def _restored(now: Raw, lost: Raw) -> Raw:
    """Return fields with those that were lost, except where somebody has changed them since."""
    result = dict(now)
    for name, part in lost.items():
        if isinstance(part, dict):
            if isinstance(now.get(name), dict):
                result[name] = _restored(now[name], part)
            continue
        came_back, was = part
        if _field(now, name) == came_back:
            result.pop(name, None)
            if was:
                result[name] = was[0]
    return result


def _field(fields: Raw, name: str) -> list[Any]:
    """Return a field's value, or nothing."""
    return [fields[name]] if name in fields else []


@functools.cache
def _strict(type_: type[Resource]) -> type[Resource]:
    """Return the class with metadata of which nothing is required: a new object has no uid."""
    metadata = next(info.type for info in msgspec.structs.fields(type_) if info.name == "metadata")
    fields = [("metadata", lenient(metadata))]
    strict: Any = msgspec.defstruct(type_.__name__, fields, bases=(type_,), kw_only=True)
    return strict  # type: ignore[no-any-return]
