"""Draws classes that an author may declare as a kind, and objects of what becomes of them."""

import contextlib
import copy
import datetime
import decimal
import enum
import functools
import random
import uuid
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

import kopf_runtime as kr
from kopf_kit.crd import acceptable

_WORDS = ("a", "08", "true", "null", "", "가", "a b", "x" * 40, "10", "1e3", "~", "-1")
_PATTERNS = (
    *("^[a-z0-9]*$", "^a|b$", r"^\d{1,3}$", r"[\uac00-\ud7a3]+", "^[가-힣a]*$", r"\w+\Z", "(?i)^A"),
    *(r"(?=a)b", r"(a)\1", "a{2000}", "(?<!a)b", "(?P<x>a)(?P=x)", r"^(?:[a-z]\.)*$", "^[^\\n]*$"),
    *(r"\x41", r"[\U0001F600-\U0001F64F]", "(a{100}){100}", r"\bword\b", "[[:alpha:]]", r"a\/b"),
)
_GOOD_PATTERNS = (
    "^[a-z0-9]*$",
    r"[\uac00-\ud7a3]+",
    r"\w+\Z",
    "(?i)^A",
    r"\x41",
    r"a\/b",
    "^[^\\n]*$",
)
_EACH = "self.all(x, self.all(y, self.all(z, {})))"
_RULES = (
    *("self != 'x'", "self.size() < 9", "self.matches('^a')", "self ==", "self > 1"),
    *("size(self.y)", "self % 2 == 0 || self < 9", "self >= oldSelf", "self == oldSelf"),
    *("true", "1", "has(self.a)", "self.nope", _EACH.format("x == y || y == z")),
    _EACH.format("x.matches('a') && y.matches(z)"),
    *("self.all(x, x.size() < 9)", "self.exists(x, x.startsWith('a'))", "self.all(x, x in self)"),
)
_WHOLE = (
    "self.metadata.name.size() < 9",
    "has(self.spec)",
    "self.spec == oldSelf.spec",
    "self.x > 1",
)
_ODD_NAMES: dict[str, tuple[Any, ...]] = {
    "plural": ("Kinds", "kind_s", "1kinds", "k" * 64, "종류", "k" * 63, "k-s", "-ks"),
    "group": (
        "dev",
        "a.k8s.io",
        "Example.dev",
        "ex ample.dev",
        "a.kubernetes.io",
        "a..dev",
        "a-.b",
    ),
    "version": ("1", "V1", "v1.1", "v" * 64, "version", "foo", "v10", "v1alpha1", "v" * 63),
    "short_names": (["K"], ["k_"], ["k1"], ["k", "k"], [""], ["k" * 63], ["kinds"]),
    "categories": (["All"], ["all"], ["a" * 64], ["a.b"]),
    "kind": ("kind", "Kind_1", "종류", "K" * 63, "1K", "KindList", "K-"),
}
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_LIST, _KEYS, _MAP = (f"x-kubernetes-{name}" for name in ("list-type", "list-map-keys", "map-type"))
#: What an author may add to the schema of any type.
_MARKERS: tuple[dict[str, Any], ...] = (
    *({_LIST: kind} for kind in ("atomic", "set", "map", "other")),
    *({_MAP: kind} for kind in ("atomic", "granular", "other")),
    *({_KEYS: keys} for keys in (["a"], ["a", "a"])),
    *({"format": form} for form in ("ipv4", "int32", "uuid", "date-time", "password", "other")),
    *({_PRESERVE: True}, {"foo": 1}, {"title": "A"}, {"example": 1}, {"nullable": True}),
    *({"description": "설명: {{ a }}\n"}, {"minProperties": 1}, {"maxItems": 2}, {"maxLength": 1}),
    *({"externalDocs": {"url": "https://a.dev"}}, {"x-kubernetes-embedded-resource": True}),
    *({"enum": ["a"]}, {"minimum": 1}, {"pattern": "^a"}, {"multipleOf": 2}, {"id": "a"}),
)
_CHOICES = {"string": ("a", "08", ""), "integer": (1, 8), "number": (0.5, 8), "boolean": (True,)}
_KEYWORDS: tuple[tuple[str, Any], ...] = (
    *(("nullable", True), ("nullable", None), ("minLength", 1), ("maxLength", 2), ("minimum", 0)),
    *(("maximum", 1), ("pattern", "^a*$"), ("pattern", None), ("format", None), ("minItems", 1)),
    *(("maxItems", 1), ("multipleOf", None), ("maximum", None), ("description", "New.")),
)
#: Paths that a column or a scale may have, and titles of columns.
_ODD_PATHS = (
    *(".metadata.name", ".spec", ".spec.nope", "spec.a", "", ".status.observedGeneration"),
    *(".apiVersion", ".status.conditions", '.status.conditions[?(@.type=="A_b")].message'),
)
_TITLES = ("Size", "a b", "크기", "", "A\nB", "Ready")
Drawn = tuple[Any, Callable[[], Any]]


class Observed(kr.Fields, frozen=True, kw_only=True):
    """A status as a scale needs it."""

    replicas: int = 0
    selector: str = ""


class Keyed(kr.Fields, frozen=True, kw_only=True):
    """An item of a list, each field of which may be its key, but for the last ones."""

    one: str
    two: int = 1
    three: Literal["a", "b"] = "a"
    four: bool | None = False
    five: str | None = None
    six: list[str]


class Classes:
    """Draws classes from a seed."""

    def __init__(self, seed: object) -> None:
        self.rng = random.Random(str(seed))  # noqa: S311
        self._number = 0
        #: The part of what is drawn that may be wrong: one reason for a refusal hides others.
        self._odd = self.rng.choice((0.0, 0.05, 0.05, 0.3))

    def _is_odd(self) -> bool:
        return self.rng.random() < self._odd

    def kind(self, number: int, odd: bool) -> tuple[type[kr.Resource], dict[str, Any]]:
        """Return a class of a kind, and the arguments of its declaration."""
        rng = self.rng
        name = f"Kind{number}"
        given: dict[str, Any] = {"group": "example.dev", "version": "v1"}
        given["plural"] = f"kind{number}s"
        if odd:
            key = rng.choice([*_ODD_NAMES])
            given[key] = rng.choice(_ODD_NAMES[key])
            self._odd = 0.0
        if rng.random() < 0.2:
            given["validations"] = [
                kr.ValidationRule(rng.choice(_WHOLE), "no", rng.choice(("", ".spec", ".x")))
            ]
        resource = self._resource(name)
        return resource, given | self._shown(resource)

    def versions(self, number: int, odd: bool) -> list[tuple[type[kr.Resource], dict[str, Any]]]:
        """Return the classes of a kind's versions, and the arguments of their declarations."""
        rng, first = self.rng, self.kind(number, odd)
        if rng.random() < 0.7:
            return [first]
        names = ("v1beta1", "v2", "v1alpha10", "stable") + (
            ("v1",) if odd or rng.random() < 0.2 else ()
        )
        more = []
        for version in rng.sample(names, rng.randint(1, 2)):
            resource = self._resource(f"Kind{number}")
            more.append((resource, first[1] | {"version": version} | self._shown(resource)))
        for _, given in more:
            given["served"] = rng.random() < 0.8
        stored = rng.choice([first, *more])[1]
        stored["storage"] = not odd or rng.random() < 0.8
        return [first, *more]

    def _shown(self, resource: type[kr.Resource]) -> dict[str, Any]:
        """Return the status, the columns and the scale of a declaration."""
        rng = self.rng
        given: dict[str, Any] = {"status": rng.choice((None, Observed, self.fields(1)))}
        given |= {"printer_columns": [kr.READY, kr.AGE], "scale": None}
        spec = next(f.type for f in msgspec.structs.fields(resource) if f.name == "spec")
        paths = [*_paths(spec, ".spec"), *_paths(given["status"], ".status")]

        def path(*within: str) -> str:
            fitting = [each for each, part in paths if not within or part in within]
            return rng.choice(_ODD_PATHS if self._is_odd() or not fitting else fitting)

        if rng.random() < 0.4:
            given["printer_columns"] = [
                kr.Column(title if self._is_odd() else "C", path(), title, rng.random() < 0.5)
                for title in rng.sample(_TITLES, 2)
            ]
        if rng.random() < 0.4 and any(part == "spec" for _, part in paths):
            given["status"] = Observed
            selector = rng.choice(("", ".status.selector", ".metadata.name", path("text")))
            replicas = rng.choice((*[".status.replicas"] * 4, path("spec")))
            given["scale"] = kr.Scale(path("spec"), replicas, selector)
        return given

    def _resource(self, name: str) -> type[kr.Resource]:
        within = {
            "__annotations__": {"spec": self.fields(3)},
            "__doc__": self.rng.choice(("One.", None)),
        }
        return type(name, (kr.Resource,), within, kw_only=True)

    def fields(self, depth: int) -> Any:
        """Return a class with some fields."""
        self._number += 1
        name_of_class = f"Fields{self._number}"
        fields: list[Any] = []
        for position in range(self.rng.randint(1, 4)):
            type_, default = self.type(depth)
            name = self.rng.choice(("size", "a_b", "properties", "default", "items", "x1")) + str(
                position
            )
            if self.rng.random() < 0.5:
                fields.append((name, type_))
            else:
                value = default() if self._is_odd() else self._fitting(type_, default)
                if isinstance(value, list | dict | set):  # msgspec wants a function for those
                    value = msgspec.field(default_factory=functools.partial(copy.copy, value))
                fields.append((name, type_, value))
        return msgspec.defstruct(
            name_of_class, fields, bases=(kr.Fields,), kw_only=True, frozen=True
        )

    def _fitting(self, type_: Any, default: Callable[[], Any]) -> Any:
        """Return a default that is one of the type's, or None if none is drawn."""
        for _ in range(4):
            value = default()
            with contextlib.suppress(msgspec.ValidationError, TypeError):
                msgspec.convert(msgspec.to_builtins(value, str_keys=True), type_)
                return value
        return None

    def type(self, depth: int) -> Drawn:
        """Return a type, and what draws a default of it, which may not fit."""
        rng = self.rng
        draws: list[Callable[[], Drawn]] = [
            *(self._text, self._number_, self._choice) * 2,
            self._other,
        ]
        if depth:
            within = (self._container, self._container, self._within, self._of_objects)
            draws += [functools.partial(draw, depth) for draw in within]
        type_, default = rng.choice(draws)()
        if self._is_odd():
            return Annotated[type_, Meta(extra_json_schema=rng.choice(_MARKERS))], default
        if rng.random() < 0.05:
            rule = kr.ValidationRule(rng.choice(_RULES), rng.choice(("no", "no", "", "a\nb")))
            type_ = Annotated[type_, Meta(extra_json_schema=kr.validations(rule))]
        if rng.random() < 0.25:
            return type_ | None, lambda: rng.choice((None, default()))
        return type_, default

    def _text(self) -> Drawn:
        rng, meta = self.rng, dict[str, Any]()
        if rng.random() < 0.4:
            meta["pattern"] = rng.choice(_PATTERNS if self._is_odd() else _GOOD_PATTERNS)
        if rng.random() < 0.4:
            meta |= {"max_length": rng.choice((0, 1, 3, 60)), "min_length": rng.choice((0, 0, 1))}
        return Annotated[str, Meta(**meta)] if meta else str, lambda: rng.choice(_WORDS)

    def _number_(self) -> Drawn:
        rng, meta = self.rng, dict[str, Any]()
        kind = rng.choice((int, int, float))
        values = (
            (0, 1, -1, 5, 100, 2**31, 2**40, -(2**33)) if kind is int else (0.0, 0.5, -1.5, 1e9)
        )
        if rng.random() < 0.6:
            meta |= {
                rng.choice(("ge", "gt")): rng.choice((0, 1, -5)),
                rng.choice(("le", "lt")): rng.choice((3, 2**33)),
            }
        if rng.random() < 0.2 and kind is int:
            meta["multiple_of"] = rng.choice((2, 5))
        return Annotated[kind, Meta(**meta)] if meta else kind, lambda: rng.choice(values)

    def _choice(self) -> Drawn:
        rng = self.rng
        match rng.randrange(4):
            case 0:
                words = tuple(rng.sample([word for word in _WORDS if word], 3))
                return Literal[words], lambda: rng.choice((*words, "other"))
            case 1:
                numbers = tuple(rng.sample((1, 2, 3, 8, 2**40, -1), 3))
                return Literal[numbers], lambda: rng.choice((*numbers, 7))
            case 2:
                members = {
                    f"M{n}": value for n, value in enumerate(rng.sample(("a", "08", "no", "b"), 2))
                }
                kind = enum.Enum(f"Choice{rng.random()}".replace("0.", ""), members)  # type: ignore[misc]
                return kind, lambda: rng.choice([*kind])
        return bool, lambda: rng.choice((True, False))

    def _other(self) -> Drawn:
        rng = self.rng
        day = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
        others: list[Drawn] = [
            *((bytes, lambda: b"abc"), (Annotated[datetime.datetime, Meta(tz=True)], lambda: day)),
            *((datetime.date, day.date), (uuid.UUID, lambda: uuid.UUID(int=5))),
            (int | str, lambda: rng.choice((1, "a", 2**40))),
            (kr.Quantity, lambda: rng.choice(("1Gi", 5, "-1", "x"))),
            (Any, lambda: rng.choice((None, 1, "a", [1], {"a": 1}))),
            *((dict[str, Any], lambda: {"a": [1]}), (dict[int, str], dict)),
            (datetime.timedelta, lambda: datetime.timedelta(1)),
            (decimal.Decimal, lambda: decimal.Decimal(1)),
            *((tuple[int, str], lambda: (1, "a")), (list[str] | str, lambda: "a")),
        ]
        return rng.choice(others)

    def _container(self, depth: int) -> Drawn:
        rng = self.rng
        inner, default = self.type(depth - 1)
        match rng.randrange(4):
            case 0:
                type_: Any = list[inner]  # type: ignore[valid-type]
                if rng.random() < 0.4:
                    type_ = Annotated[type_, Meta(max_length=rng.choice((1, 4)))]
                return type_, list
            case 1:
                return dict[str, inner], dict  # type: ignore[valid-type]
            case 2:
                return set[inner], set  # type: ignore[valid-type]
        return tuple[inner, ...], lambda: rng.choice(((), (default(),)))  # type: ignore[valid-type]

    def _of_objects(self, depth: int) -> Drawn:
        """Draw a list of objects that is a set, or whose items have a key."""
        rng, inner = self.rng, self.fields(depth - 1)
        names = [field.encode_name for field in msgspec.structs.fields(inner)]
        extra: dict[str, Any] = {_LIST: rng.choice(("map", "map", "set"))}
        if extra[_LIST] == "map":
            inner = inner if self._is_odd() else Keyed
            names = (
                [*names, "nope"]
                if inner is not Keyed
                else ["one", "two", "three", "three", "four", "five", "six"]
            )
            extra[_KEYS] = rng.choices(names, k=rng.choice((1, 1, 2)))
        elif not self._is_odd():
            inner = Annotated[inner, Meta(extra_json_schema={_MAP: "atomic"})]
        if self._is_odd():
            inner = inner | None
        return Annotated[list[inner], Meta(extra_json_schema=extra)], list  # type: ignore[valid-type]

    def _within(self, depth: int) -> Drawn:
        type_ = self.fields(depth - 1)

        def default() -> Any:
            try:
                return type_()
            except TypeError:  # it has fields without a default
                return None

        return type_, default


def _paths(type_: Any, above: str) -> Iterator[tuple[str, str]]:
    """Yield the paths of fields that a column can show, each with what a scale may take it for."""
    for field in msgspec.structs.fields(type_) if type_ else ():
        path, part = f"{above}.{field.encode_name}", msgspec.inspect.type_info(field.type)
        match part:
            case msgspec.inspect.StructType():
                yield from _paths(part.cls, path)
            case msgspec.inspect.DictType():
                pass
            case msgspec.inspect.IntType():
                yield path, "spec" if above.startswith(".spec") else ""
            case _:
                yield path, "text" if isinstance(part, msgspec.inspect.StrType) else ""


def altered(rng: random.Random, schema: dict[str, Any]) -> dict[str, Any]:
    """Return a structural schema as the next release may have it, changed in one place."""
    result = copy.deepcopy(schema)
    parts = [part for _, part in acceptable._parts(result, "")]
    key = rng.choice(("required", "properties", "type", "default", "enum", "enum", _PRESERVE, ""))
    fitting = [
        part for part in parts if key in part or (key == "required" and "properties" in part)
    ]
    part = rng.choice(fitting if fitting and rng.random() < 0.8 else parts)
    new: Any = None
    fields = part.get("properties", {})
    match key:
        case "required" if fields:
            new = rng.sample([*fields], rng.randint(1, len(fields)))
        case "properties":
            new = {**fields, "a": {"type": rng.choice(("string", "integer"))}}
            new.pop(rng.choice([*new]))
        case "type":
            new = rng.choice(("string", "integer", "number", "boolean"))
        case "default":
            new = rng.choice((None, *_CHOICES.get(part.get("type", ""), ())))
        case "enum":
            words: tuple[Any, ...] = _CHOICES.get(part.get("type", ""), ())
            kept = rng.sample(part.get("enum", []), rng.randint(0, len(part.get("enum", []))))
            kept += [word for word in words if word not in kept]
            new = kept[: rng.randint(1, 4)] or None
        case _ if key == _PRESERVE and rng.random() < 0.7:
            key, new = "properties", {"a": {"type": rng.choice(("string", "integer"))}}
        case "":
            key, new = rng.choice(_KEYWORDS)
    part.pop(key, None)
    if new is not None:
        part[key] = new
    return result


def value(rng: random.Random, schema: dict[str, Any]) -> Any:
    """Return a value that a structural schema allows, or raise LookupError where none is known."""
    if schema.get("nullable") and rng.random() < 0.2:
        return None
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return rng.choice((1, "1")) if "pattern" not in schema else 1
    match schema.get("type"):
        case "object":
            return _object(rng, schema)
        case "array":
            count = rng.randint(schema.get("minItems", 0), min(schema.get("maxItems", 2), 2))
            items = [value(rng, schema["items"]) for _ in range(count)]
            return items[:1] if schema.get("x-kubernetes-list-type") in ("set", "map") else items
        case "boolean":
            return rng.choice((True, False))
        case "integer" | "number":
            low = schema.get("minimum", -9) + bool(schema.get("exclusiveMinimum"))
            high = schema.get("maximum", 9) - bool(schema.get("exclusiveMaximum"))
            step = schema.get("multipleOf", 1)
            return rng.choice(
                [n for n in range(int(low), int(low) + 9) if n <= high and not n % step]
            )
        case "string":
            return _text(rng, schema)
    return rng.choice((1, "a", {"a": [1]}))


def _object(rng: random.Random, schema: dict[str, Any]) -> dict[str, Any]:
    if "properties" in schema:
        return {
            name: value(rng, part)
            for name, part in schema["properties"].items()
            if name in schema.get("required", ()) or rng.random() < 0.6
        }
    parts = schema.get("additionalProperties")
    return {
        key: value(rng, parts) if isinstance(parts, dict) else 1
        for key in rng.choice(("", "a", "ab"))
    }


def _text(rng: random.Random, schema: dict[str, Any]) -> str:
    formats = {"date-time": "2026-01-01T00:00:00Z", "date": "2026-01-01", "byte": "YWJj"}
    formats |= {"ipv4": "10.0.0.1", "uuid": str(uuid.UUID(int=5))}
    text = formats.get(schema.get("format", ""))
    if text and not {"maxLength", "pattern"} & schema.keys():
        return text
    if text or "pattern" in schema:
        raise LookupError(schema)
    words = [
        w for w in _WORDS if schema.get("minLength", 0) <= len(w) <= schema.get("maxLength", 99)
    ]
    return rng.choice(words)
