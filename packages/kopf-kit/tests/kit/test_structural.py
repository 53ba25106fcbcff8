"""A class becomes a schema that an API server takes, or is refused in a sentence.

That a real API server takes them is shown by tests/api/test_classes.py.
"""

import datetime
import enum
import itertools
import uuid
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

import kopf_runtime as kr
from kopf_kit.crd import acceptable
from kopf_kit.crd.structural import DeclarationError, Schema, structural


class Color(enum.Enum):
    """A color."""

    RED = "red"
    BLUE = "blue"


class Inner(kr.Fields, frozen=True):
    """What is inside."""

    a_size: Annotated[int, Meta(gt=0, description="How large.")] = 3
    note: str | None = None


def schema_of(type_: Any, default: Any = msgspec.NODEFAULT) -> Schema:
    """Return the schema of a field of this type."""
    one = msgspec.defstruct("One", [("field", type_, default)])
    schema: Schema = structural(one, ".spec")["properties"]["field"]
    return schema


SMALL, TEXT = Annotated[int, Meta(ge=0, le=5)], {"type": "string"}


@pytest.mark.parametrize(
    ("type_", "schema"),
    [
        (bytes, {**TEXT, "format": "byte"}),
        (int, {"type": "integer", "format": "int64"}),
        (SMALL, {"type": "integer", "format": "int32", "minimum": 0, "maximum": 5}),
        (Literal["a", None], {**TEXT, "enum": ["a"]}),
        (Literal["a"] | None, {**TEXT, "enum": ["a"]}),
        (Color, {**TEXT, "enum": ["blue", "red"], "description": "A color."}),
        (set[str], {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"}),
        (list[Any], {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}}),
        (dict[str, Any], {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        (Annotated[str, Meta(title="One", examples=["a"])], TEXT),
        (
            Annotated[int, Meta(gt=0)] | Annotated[str, Meta(max_length=5, pattern="^a")],
            {"x-kubernetes-int-or-string": True, "minimum": 0, "exclusiveMinimum": True}
            | {"maxLength": 5, "pattern": "^a"},
        ),
    ],
    ids=str,
)
def test_w1_a_type_becomes_what_an_api_server_takes(type_: Any, schema: Schema) -> None:
    """What else becomes of a type, tests/api/test_classes.py asks an API server."""
    assert schema_of(type_) == schema


def test_a_class_within_stands_in_its_place_with_its_own_defaults() -> None:
    size = {
        "type": "integer",
        "format": "int64",
        "description": "How large.",
        "default": 3,
        "minimum": 0,
        "exclusiveMinimum": True,
    }
    inner = {"aSize": size, "note": {"type": "string", "nullable": True}}

    assert schema_of(Inner, Inner()) == {
        "type": "object",
        "description": "What is inside.",
        "default": {},
        "properties": inner,
    }
    assert schema_of(Inner, Inner(7, "n"))["default"] == {"aSize": 7, "note": "n"}
    assert "default" not in schema_of(Inner | None, None)
    assert schema_of(list[Inner])["items"]["properties"] == inner


def test_a_set_by_default_is_always_written_in_the_same_order() -> None:
    letters = list("gfedcba")

    assert schema_of(frozenset[str], frozenset(letters))["default"] == sorted(letters)


def test_a_default_that_a_function_makes_is_one_and_must_always_be_the_same() -> None:
    letters = schema_of(list[str], msgspec.field(default_factory=lambda: ["a"]))
    inner = schema_of(Inner, msgspec.field(default_factory=lambda: Inner(7)))

    assert (letters["default"], inner["default"]) == (["a"], {"aSize": 7})
    count = itertools.count()
    with pytest.raises(DeclarationError, match=r"One\.field has another default each time"):
        schema_of(int, msgspec.field(default_factory=lambda: next(count)))


class Named(kr.Fields, frozen=True):
    """What has a name."""

    first_name: Annotated[str, Meta(max_length=9, description="Something else.")] = ""
    """The name
    that was given."""
    number: int = 0


class Grouped(Named, frozen=True):
    """What is in a group."""

    leader: Inner | None = None
    """The first of them."""
    others: tuple[Named, ...] = ()
    """All others."""


def test_the_docstring_of_a_field_describes_it_wherever_its_class_is() -> None:
    fields = structural(Grouped)["properties"]
    given = {"type": "string", "description": "The name that was given.", "maxLength": 9}

    assert fields["firstName"] == {**given, "default": ""}
    assert fields["others"]["items"]["properties"]["firstName"] == {**given, "default": ""}
    assert [fields[name].get("description") for name in ("number", "leader", "others")] == [
        None,
        "The first of them.",
        "All others.",
    ]
    assert schema_of(Inner)["description"] == "What is inside.", "only there it is another text"


class Endless(msgspec.Struct):
    """Contains itself."""

    more: list["Endless"] = []


class Tagged(msgspec.Struct, tag=True):
    """One of two."""


class Limited(msgspec.Struct):
    """Its name may be null, and only then it has no pattern."""

    name: Annotated[str | None, Meta(pattern="^a")] = None


class Other(msgspec.Struct, tag=True):
    """One of two."""


@pytest.mark.parametrize(
    ("type_", "complaint"),
    [
        (Tagged | Other, ".spec.field may be of several types"),
        (int | bool, ".spec.field may be of several types"),
        (list[Tagged | int], ".spec.field[] may be of several types"),
        (Endless, ".spec.field.more[] contains itself (Endless > Endless)"),
        (Literal[1, "a"], ".spec.field has choices of several types"),
        (dict[Annotated[str, Meta(max_length=3)], str], ".spec.field restricts its keys"),
        (uuid.UUID | int, ".spec.field may be of several types"),
        (datetime.datetime, ".spec.field may lack its time zone"),
        (datetime.datetime | int, ".spec.field may lack its time zone"),
        (datetime.time, ".spec.field is a time of day"),
        (None, ".spec.field is always null"),
        (Annotated[float, Meta(multiple_of=0.5)], ".spec.field has a multiple_of with a fraction"),
        (frozenset[Inner], ".spec.field is a set of objects"),
        (set[str | None], ".spec.field is a set of objects"),
        (object, ".spec.field has no schema: "),
        (Limited, ".spec.field.name has no schema: Can only set `pattern` on a str type"),
    ],
    ids=str,
)
def test_what_no_definition_can_say_is_refused_in_a_sentence(type_: Any, complaint: str) -> None:
    with pytest.raises(DeclarationError) as error:
        schema_of(type_)

    assert str(error.value).startswith(complaint)
    assert "\n" not in str(error.value)


class Keyed(kr.Fields, frozen=True):
    """An item that its name identifies."""

    name: str | None = "a"


@pytest.mark.parametrize(("item", "why"), [(Keyed, "may be null"), (Keyed | None, "null is among")])
def test_b15_what_identifies_the_items_of_a_list_is_never_null(item: Any, why: str) -> None:
    merged = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    schema = schema_of(Annotated[list[item], Meta(extra_json_schema=merged)])

    assert why in " ".join(acceptable._listed(".spec", schema))


@pytest.mark.parametrize(
    ("key", "taken"),
    [
        ({"x-kubernetes-int-or-string": True}, True),
        ({"type": "integer", "uniqueItems": False}, True),
        ({"type": "array", "items": {"type": "string"}}, False),
        ({"type": "string", "uniqueItems": True}, False),
        (None, False),
    ],
)
def test_b15_what_an_api_server_takes_of_keys_is_taken(key: Schema | None, taken: bool) -> None:
    fields = {} if key is None else {"a": key}
    items = {"type": "object", "required": ["a"], "properties": fields}
    merged = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}
    schema = {"type": "array", "items": items, **merged}

    parts = acceptable._parts(schema, "")
    told = [why for path, part in parts for why in acceptable._keywords(path, part, {})]

    assert (told == []) == taken


def test_b15_a_range_of_hangul_is_written_as_go_reads_it() -> None:
    hangul = Annotated[str, Meta(pattern=r"^[\uac00-\ud7a3]+\\u\Z")]

    assert schema_of(hangul)["pattern"] == r"^[가-힣]+\\u\z"
    assert schema_of(hangul | int)["pattern"] == r"^[가-힣]+\\u\z"


def test_b15_a_class_of_posix_means_something_else_in_python() -> None:
    letters = Annotated[str, Meta(pattern="^[[:alpha:]]+$")]

    with pytest.raises(DeclarationError, match=r"has \[:alpha:\] in its pattern"):
        schema_of(letters)


def test_a_limit_on_a_union_is_refused_with_what_to_write_instead() -> None:
    with pytest.raises(DeclarationError, match=r"as in Annotated\[str, Meta\(…\)\] \| None$"):
        schema_of(Limited)

    assert schema_of(Annotated[str, Meta(pattern="^a")] | None)["pattern"] == "^a"
