"""Objects that are only shown in part, because they could not be converted, and how they are read.

Every controller reads its kind in this way; `versions` converts, if an author has declared that.
"""

import functools
import types
from collections.abc import Mapping
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Struct, UnsetType

from kopf_runtime.declaring.objects import Resource

Raw = dict[str, Any]

#: What an annotation may raise that somebody else wrote: it may bring nothing that is invalid.
FORGED = (msgspec.MsgspecError, TypeError, ValueError, LookupError, AttributeError, RecursionError)


class Complete:
    """Decodes objects of a class, but refuses those that are only shown in part.

    The caches decode with it, so that nothing acts on an object that could not be converted; also
    if the version has gone that it could not be converted from. Everybody who may write an object
    may claim that of it, which hits only this object.
    """

    def __init__(self, type_: type[Resource], group: str) -> None:
        self._type, self._annotation = type_, annotation_of(group)
        self._decoder = msgspec.json.Decoder(type_)

    @functools.cached_property
    def _loose_decoder(self) -> msgspec.json.Decoder[Resource]:
        return msgspec.json.Decoder(lenient(self._type))

    def decode(self, payload: bytes | msgspec.Raw) -> Resource:
        """Decode an object; raise `MsgspecError`."""
        try:
            thing, error = self._decoder.decode(payload), None
        except msgspec.ValidationError as caught:
            if self._annotation.encode() not in bytes(payload):
                raise
            thing, error = self._loose_decoder.decode(payload), caught
        if self._annotation in (annotations := thing.metadata.annotations or {}):
            for part in parts_of(annotations, self._annotation).values():
                if "whole" in part:
                    raise msgspec.ValidationError(str(part.get("why") or self._claimed))
        if error is not None:
            raise error
        return thing

    @property
    def _claimed(self) -> str:
        named = f"its annotation {self._annotation}"
        return f"{named} says that it is shown in part; remove that if it is complete"


def annotation_of(group: str) -> str:
    """Return the annotation with what the version that an object has cannot hold."""
    return f"{group}/conversion"


def parts_of(annotations: Mapping[str, str], name: str) -> dict[str, Raw]:
    """Return what an annotation holds, by version; nothing of what somebody else has broken."""
    try:
        return msgspec.json.decode(annotations.get(name, "{}"), type=dict[str, Raw])
    except FORGED:
        return {}


@functools.cache
def lenient(type_: Any) -> Any:
    """Return a subclass in which no field is required, and no bound applies."""
    fields: list[tuple[str, Any, Any]] = []
    for field in msgspec.structs.fields(type_):
        loosened = _loosened(field.type)
        options: dict[str, Any] = {"default": field.default}
        if field.default_factory is not msgspec.NODEFAULT:
            options = {"default_factory": field.default_factory}
        elif field.required:
            loosened, options = Union[loosened, UnsetType], {"default": UNSET}  # noqa: UP007
        fields.append((field.name, loosened, msgspec.field(name=field.encode_name, **options)))
    return msgspec.defstruct(type_.__name__, fields, bases=(type_,), kw_only=True)


def _loosened(hint: Any) -> Any:
    """Return a type with the classes in it loosened, and without its bounds."""
    if isinstance(hint, type) and not get_args(hint) and issubclass(hint, Struct):
        return lenient(hint)
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _loosened(parts[0])
    if origin in (Union, types.UnionType):
        return Union[tuple(map(_loosened, parts))]  # noqa: UP007
    if origin in (list, dict, set, frozenset, tuple):
        return origin[tuple(map(_loosened, parts))]
    return hint
