"""Converts a class to a structural schema, the only kind that an API server accepts.

msgspec generates the JSON schema; here its references are resolved, and its keywords are replaced
with those of Kubernetes. A type that no structural schema can express is refused with a sentence.
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema
"""

import ast
import functools
import itertools
import re
import textwrap
from collections.abc import Iterator, Mapping
from inspect import getsource
from typing import Any

import msgspec
from msgspec import inspect

from kopf_kit.rig.run import KitError

Schema = dict[str, Any]

INT_OR_STRING = "x-kubernetes-int-or-string"
ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}

#: A readable order of a schema's keywords.
_ORDER = (
    "type",
    "format",
    "description",
    "nullable",
    "default",
    "enum",
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "required",
)
_LAST = ("items", "additionalProperties", "properties")
_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}
#: A character's number, which Go's regular expressions write otherwise than Python's.
_NUMBERED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(Z)|(.))", re.DOTALL)
#: Keywords that restrict no value (title, examples), or that `convert` replaces.
_ELSEWHERE = ("title", "examples", "required")
_INT32 = 2**31
_POSIX = re.compile(r"\[:\^?[a-z]+:\]")
#: msgspec's words for a limit that not all types of a union have, or that is put on the union.
_CONSTRAINED_UNION = re.compile(r"Can only set .* \| ")
_ANY_KEY = inspect.StrType(), inspect.AnyType()
#: Types that decoding reads in another format than the API server validates, and the alternative.
_OTHERWISE_READ: dict[type[inspect.Type], tuple[str, str]] = {
    inspect.TimeType: ("is a time of day", "use a str with a pattern"),
    inspect.TimeDeltaType: (
        "is a timedelta",
        "use an int whose name says the unit, such as timeout_seconds",
    ),
    inspect.DecimalType: ("is a Decimal", "use an int of a smaller unit, or a str with a pattern"),
}


class DeclarationError(KitError):
    """A class declares something that a CRD cannot express; the message names the field."""


def structural(type_: type, path: str = "", source: type | None = None) -> Schema:
    """Return the schema of a class; raise `DeclarationError`, which begins with the field.

    `source` is the class whose source code describes the fields, if it is another one.
    """
    try:
        (schema,), components = msgspec.json.schema_components([type_])
    except KeyError as error:
        twice = getattr(error.args[0], "__qualname__", error.args[0])
        raise DeclarationError(
            f"{path or type_.__name__} has two classes {twice}; rename one"
        ) from error
    except TypeError as error:
        where, reason = _without_schema(type_, path) or (path, str(error))
        text = f"{where or type_.__name__} has no schema: {' '.join(reason.split())}"
        if _CONSTRAINED_UNION.search(text):
            text += "; put Meta on the type that it limits, as in Annotated[str, Meta(…)] | None"
        raise DeclarationError(text) from error
    info = inspect.type_info(type_)
    _refuse_otherwise_read(info, path, ())
    for cls, fields in _classes(info, {}).items():
        texts = _docstrings(source if source is not None and cls is type_ else cls)
        full = f"{cls.__module__}.{cls.__qualname__}"  # where two classes have the same name
        component = components.get(cls.__name__) or components.get(full, {})
        for field in fields:
            own = component.get("properties", {}).get(field.encode_name)
            if own is None:
                continue
            if field.name in texts:
                own["description"] = texts[field.name]
            if field.default_factory is not msgspec.NODEFAULT:
                own["default"] = _factory_default(field, cls)
    return _Converter(components).convert(schema, path, ())


def _classes(type_: Any, known: dict[type, Any]) -> dict[type, Any]:
    """Return the classes within a type, each with its fields, in addition to those known."""
    if hasattr(type_, "fields"):
        if type_.cls in known:
            return known
        known[type_.cls] = type_.fields
    for part, _ in _parts(type_):
        _classes(part, known)
    return known


def _factory_default(field: Any, cls: type) -> Any:
    """Return what a field's function makes as its default, which msgspec leaves out."""
    first, second = (msgspec.to_builtins(field.default_factory(), str_keys=True) for _ in range(2))
    if first != second:
        raise _refusal(f"{cls.__name__}.{field.name}", "has another default each time", "use None")
    return first


@functools.lru_cache(maxsize=256)
def _docstrings(cls: type) -> dict[str, str]:
    """Return the texts below the fields in the source code of a class and its bases."""
    texts: dict[str, str] = {}
    for base in reversed(getattr(cls, "__mro__", ())):  # Class[int] has none
        try:
            source = textwrap.dedent(getsource(base))
        except (OSError, TypeError):  # nobody wrote it, or not in Python
            continue
        [node] = ast.parse(source).body
        for field, text in itertools.pairwise(getattr(node, "body", ())):
            match field, text:
                case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(words))):
                    texts[name] = words
    return texts


def _without_schema(type_: type, path: str) -> tuple[str, str] | None:
    """Return the first field for which msgspec has no schema, and why, or None."""
    for field in msgspec.structs.fields(type_) if issubclass(type_, msgspec.Struct) else ():
        name = f"{path}.{field.encode_name}"
        try:
            msgspec.json.schema_components([field.type])
        except TypeError as error:
            within = _without_schema(field.type, name) if isinstance(field.type, type) else None
            return within or (name, str(error))
    return None


def _refuse_otherwise_read(type_: inspect.Type, path: str, within: tuple[Any, ...]) -> None:
    """Refuse types for which the API server would accept values that decoding refuses."""
    if any(type_ is outer for outer in within):
        return
    if (refusal := _OTHERWISE_READ.get(type(type_))) is not None:
        raise _refusal(path, *refusal)
    if isinstance(type_, inspect.DateTimeType) and not type_.tz:
        raise _refusal(path, "may lack its time zone", "use Annotated[datetime, Meta(tz=True)]")
    if isinstance(type_, inspect.DictType) and type_.key_type not in _ANY_KEY:
        raise _refusal(
            path, "restricts its keys", "use dict[str, …], or kr.validations(…) for that"
        )
    for part, name in _parts(type_):
        _refuse_otherwise_read(part, path + name, (*within, type_))


def _parts(type_: Any) -> Iterator[tuple[inspect.Type, str]]:
    """Return the types within a type, each with its part of the path."""
    for field in getattr(type_, "fields", ()):
        yield field.type, f".{field.encode_name}"
    for part in getattr(type_, "types", ()):
        yield part, ""
    for name, step in (("type", ""), ("item_type", "[]"), ("value_type", "[]")):
        if isinstance(part := getattr(type_, name, None), inspect.Type):
            yield part, step


class _Converter:
    """Converts schemas with references to these components."""

    def __init__(self, components: Mapping[str, Schema]) -> None:
        self._components = components

    def convert(self, schema: Schema, path: str, within: tuple[str, ...]) -> Schema:
        """Return the schema of a field; `within` are the classes around the field."""
        if (reference := schema.get("$ref")) is not None:
            name = reference.rpartition("/")[2]
            if name in within:
                circle = " > ".join((*within[within.index(name) :], name))
                raise _refusal(path, f"contains itself ({circle})", "bound its depth by classes")
            schema = {**self._components[name], **schema}
            del schema["$ref"]
            return self.convert(schema, path, (*within, name))
        result = {key: value for key, value in schema.items() if key not in _ELSEWHERE}
        if "description" in result:
            result["description"] = " ".join(result["description"].split())
        if None in result.get("enum", ()):
            result["enum"] = [choice for choice in result["enum"] if choice is not None]
        if "anyOf" in result:
            return self._either(result, path, within)
        self._check(result, path)
        if required := schema.get("required"):
            result["required"] = required
        self._convert_parts(result, path, within)
        return _ordered(_in_kubernetes_words(result))

    def _convert_parts(self, schema: Schema, path: str, within: tuple[str, ...]) -> None:
        """Replace the schemas of the parts with ones that an API server accepts."""
        if "properties" in schema:
            schema.pop("additionalProperties", None)  # unknown fields are pruned
            schema["properties"] = {
                name: self.convert(field, f"{path}.{name}", within)
                for name, field in schema["properties"].items()
            }
        for key in ("items", "additionalProperties"):
            if isinstance(schema.get(key), dict):
                schema[key] = self.convert(schema[key], f"{path}[]", within)
        items = schema.get("items", {})
        if "uniqueItems" in schema and (
            items.get("type") in ("object", "array") or "nullable" in items
        ):
            raise _refusal(path, "is a set of objects, lists or null", "use a list")

    def _either(self, schema: Schema, path: str, within: tuple[str, ...]) -> Schema:
        """Return the schema of a field of several types: nullable, or a number or text."""
        choices = schema.pop("anyOf")
        options = [option for option in choices if option.get("type") != "null"]
        if len(options) < len(choices):
            schema["nullable"] = True
        if len(options) == 1:
            return self.convert({**options[0], **schema}, path, within)
        types = sorted(option.pop("type", "") for option in options)
        if types == ["integer", "string"] and not any("format" in option for option in options):
            number, text = options  # the limits of each apply only to values of its type
            schema = {INT_OR_STRING: True, **number, **text, **schema}
            self._check(schema, path)
            if "pattern" in schema:
                schema["pattern"] = _NUMBERED.sub(_in_go, schema["pattern"])
            return _ordered(_without_none(_bounded(schema)))
        raise _refusal(path, "may be of several types", "choose one, or int | str")

    def _check(self, schema: Schema, path: str) -> None:
        if schema.get("multipleOf", 1) % 1:  # it would reject 1 as a multiple of 0.5
            raise _refusal(path, "has a multiple_of with a fraction", "use kr.validations(…)")
        if "prefixItems" in schema:
            raise _refusal(
                path, "is a tuple, whose items differ", "use a list, or a class with fields"
            )
        if schema.get("type") == "null":
            raise _refusal(path, "is always null", "leave it out")
        if named := _POSIX.search(schema.get("pattern", "")):
            raise DeclarationError(
                f"{path} has {named[0]} in its pattern, which Go takes for a class and Python for "
                "the characters themselves; list them, as in [A-Za-z]"
            )
        if len({type(value) for value in schema.get("enum", ())}) > 1:
            raise _refusal(path, "has choices of several types", "use choices of one type")


def _refusal(path: str, what: str, instead: str) -> DeclarationError:
    return DeclarationError(f"{path} {what}, which no CustomResourceDefinition can say; {instead}")


def _in_kubernetes_words(schema: Schema) -> Schema:
    """Return a schema with JSON Schema's keywords replaced with the API server's."""
    if "enum" in schema:
        schema["type"] = _TYPES[type(schema["enum"][0])]
        schema.pop("nullable", None)  # null is in no enum; if it is not allowed, it is pruned
    schema = _bounded(schema)
    if "pattern" in schema:
        schema["pattern"] = _NUMBERED.sub(_in_go, schema["pattern"])
    match schema.get("type"):
        case "integer":
            schema.setdefault("format", _width(schema))
        case "string" if schema.pop("contentEncoding", None):
            schema["format"] = "byte"
        case "array":
            schema.setdefault("items", ANYTHING)
            if schema.pop("uniqueItems", False):
                schema["x-kubernetes-list-type"] = "set"
                if schema.get("default"):  # the same text each time
                    schema["default"] = sorted(schema["default"])
        case "object" | None if not {"properties", "additionalProperties"} & schema.keys():
            schema |= ANYTHING
    return _without_none(schema)


def _in_go(match: re.Match[str]) -> str:
    """Return an escape as Go has it: `uac00`, a number, is the character itself there."""
    short, long, end, _ = match.groups()
    if end:
        return r"\z"
    return re.escape(chr(int(short or long, 16))) if short or long else match[0]


def _bounded(schema: Schema) -> Schema:
    """Return a schema with exclusive limits in Kubernetes' form."""
    for bound in ("Minimum", "Maximum"):
        if (value := schema.pop(f"exclusive{bound}", None)) is not None:
            schema |= {bound.lower(): value, f"exclusive{bound}": True}
    return schema


def _width(schema: Schema) -> str:
    low, high = schema.get("minimum", -_INT32 - 1), schema.get("maximum", _INT32)
    return "int32" if low >= -_INT32 and high < _INT32 else "int64"


def _without_none(schema: Schema) -> Schema:
    """Return a schema whose default omits nulls, and fields that have a default themselves."""
    if "default" in schema:
        schema["default"] = _lean(schema["default"], schema)
        if schema["default"] is None:
            del schema["default"]
    return schema


def _lean(value: Any, schema: Schema) -> Any:
    fields = schema.get("properties")
    if not isinstance(value, dict) or fields is None:
        return value
    lean = {name: _lean(part, fields[name]) for name, part in value.items()}
    return {
        name: part
        for name, part in lean.items()
        if part is not None and part != fields[name].get("default")
    }


def _ordered(schema: Schema) -> Schema:
    places = {name: place for place, name in enumerate((*_ORDER, *_LAST))}
    extension = len(_ORDER) - 0.5  # x-kubernetes-…
    return dict(sorted(schema.items(), key=lambda item: places.get(item[0], extension)))
