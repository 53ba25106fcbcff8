"""Models of other libraries, as the children that `desired` yields and as the type of what is seen.

Each is known by the methods that it has, so none of these libraries is imported here: pydantic's
(with them the models of the official client and of cloudcoil), lightkube's, dataclasses, and
classes of msgspec.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeVar, cast

import msgspec
from msgspec import Raw, Struct

from kopf_runtime.declaring.conditions import stored
from kopf_runtime.declaring.objects import Object, parse

F = TypeVar("F", bound=Callable[[Any], Any] | None)
#: The methods that return a model of an object as JSON values: pydantic's and lightkube's.
_LOADS = ("model_validate", "from_dict")


class _Pydantic(Protocol):
    def model_dump(self) -> dict[str, Any]: ...


class _Convertible(Protocol):
    def to_dict(self) -> dict[str, Any]: ...


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


#: What `desired` may yield for a child: its manifest, or a model of it.
Manifest = dict[str, Any] | _Pydantic | _Convertible | _Dataclass | Struct


def manifest(given: Any) -> Any:
    """Return a manifest as JSON values without nulls; what is no model is returned as it is."""
    if isinstance(given, dict):
        return given
    if callable(dump := getattr(given, "model_dump", None)):
        return dump(mode="json", by_alias=True, exclude_none=True)
    if hasattr(given, "attribute_map"):  # the official client before version 35
        return stored(msgspec.to_builtins(given.to_dict(serialize=True)))
    if callable(to_dict := getattr(given, "to_dict", None)):
        return stored(msgspec.to_builtins(to_dict()))
    if isinstance(given, Struct) or dataclasses.is_dataclass(given):
        return stored(msgspec.to_builtins(given))
    return given


def is_model(type_: Any) -> bool:
    """Return whether a class is a model of another library; raise `TypeError` if it is nothing."""
    if not isinstance(type_, type):
        raise TypeError(f"{type_!r} is not a class of objects")
    if issubclass(type_, Object):
        return False
    loads = any(callable(getattr(type_, name, None)) for name in _LOADS)
    if loads or dataclasses.is_dataclass(type_):
        return True
    raise TypeError(f"{type_.__name__} can read no object: derive it from kr.Object")


class Decoder:
    """Decodes objects into one class, and into a model of another, which `model_of` returns."""

    def __init__(self, model: type[Any], decode: Callable[[bytes | Raw], Any]) -> None:
        self._model, self._decode = model, decode

    def decode(self, payload: bytes | Raw, /) -> Any:
        """Return an object; raise `MsgspecError`."""
        thing, raw = self._decode(payload), parse(_ANY, payload)
        try:
            vars(thing.metadata)["model"] = self._load(raw)
        except msgspec.MsgspecError:
            raise
        except Exception as error:  # as each library has its own
            raise msgspec.ValidationError(" ".join(str(error).split())[:500]) from error
        return thing

    def _load(self, raw: Any) -> Any:
        if load := getattr(self._model, "model_validate", None):
            # A newer API server has fields that the model does not know, and may be made to refuse.
            return load(raw, extra="ignore")
        if load := getattr(self._model, "from_dict", None):
            return load(raw)
        return msgspec.convert(raw, self._model, strict=False)


_ANY = msgspec.json.Decoder(dict[str, Any])


def decoder(type_: type[Any]) -> Any:
    """Return what decodes objects of a class, which may be a model of another library."""
    if not is_model(type_):
        return msgspec.json.Decoder(type_)
    return Decoder(type_, msgspec.json.Decoder(Object).decode)


def of_models(type_: Any, function: F) -> F:
    """Return a function of an object that calls one of its model, if its class is one."""
    if function is None or type_ is None or not is_model(type_):
        return function
    return cast("F", lambda thing: function(vars(thing.metadata)["model"]))
