"""Checks that converters lose nothing, with objects generated from what their classes allow."""

import itertools
import re
from datetime import UTC
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kopf_kit.crd import generated
from kopf_kit.testing.requests import Raw
from kopf_runtime import Controller
from kopf_runtime.converting.versions import Versions
from kopf_runtime.declaring.declaration import CustomResource

#: Letters of generated texts: also those that need more than one byte or an escape.
_LETTERS = st.characters(exclude_categories=["Cs"])
_ANYTHING = st.recursive(
    st.booleans() | st.integers(-(2**31), 2**31) | st.text(_LETTERS, max_size=5),
    lambda parts: st.lists(parts, max_size=2) | st.dictionaries(st.text("ab"), parts, max_size=2),
    max_leaves=4,
)
_METADATA = {
    "name": "one",
    "namespace": "ns",
    "uid": "u",
    "resourceVersion": "1",
    "annotations": {"theirs": "stays"},
    "managedFields": [{"manager": "m", "operation": "Update", "fieldsV1": {"f:spec": {}}}],
}


def assert_lossless(controller: Controller, *, examples: int = 100) -> None:
    """Assert that objects of each version are the same after a conversion to each other and back.

    They are generated from the CRD, without regard to its CEL rules. The error of a failure is
    hypothesis's: it has the smallest object that it happens to.
    """
    versions = Versions.of(controller.declaration)
    assert versions is not None, f"{controller.kind.kind} has one version: nothing is converted"
    for old, new in itertools.permutations(versions.all.values(), 2):
        _assert_lossless(versions, old, new, examples)


def _assert_lossless(
    versions: Versions, old: CustomResource, new: CustomResource, examples: int
) -> None:
    @settings(
        max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(objects(old))
    def check(raw: Raw) -> None:
        converted = versions.convert(raw, new.kind.api_version)
        assert _read(converted, new)
        assert '"why"' not in converted["metadata"]["annotations"].get(versions.annotation, "")
        back = versions.convert(converted, old.kind.api_version)
        assert back["metadata"] == raw["metadata"]
        assert _read(back, old) == _read(raw, old)

    check()


def _read(raw: Raw, declared: CustomResource) -> Any:
    return msgspec.json.decode(msgspec.json.encode(raw), type=declared.resource)


def objects(declared: CustomResource) -> st.SearchStrategy[Raw]:
    """Return a strategy of valid objects of one version of a kind, without a status."""
    (version,) = generated.definition(declared)["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    own = {k: v for k, v in schema["properties"].items() if k not in ("metadata", "status")}
    head = {"apiVersion": declared.kind.api_version, "kind": declared.kind.kind}
    fields = _values({**schema, "properties": {k: v for k, v in own.items() if k not in head}})
    return fields.map(lambda some: {**head, "metadata": _METADATA, **some})


def _values(schema: Raw) -> st.SearchStrategy[Any]:
    """Return a strategy of the values that a structural schema allows."""
    values = _of_type(schema)
    return st.none() | values if schema.get("nullable") else values


def _of_type(schema: Raw) -> st.SearchStrategy[Any]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return _integers(schema) | _texts(schema)
    match schema.get("type"):
        case "object":
            return _objects(schema)
        case "array":
            least, most = schema.get("minItems", 0), schema.get("maxItems", 3)
            unique = repr if schema.get("x-kubernetes-list-type") == "set" else None
            return st.lists(
                _values(schema["items"]),
                min_size=least,
                max_size=min(most, max(least, 3)),
                unique_by=unique,
            )
        case "boolean":
            return st.booleans()
        case "integer":
            return _integers(schema)
        case "number":
            return st.floats(
                schema.get("minimum"),
                schema.get("maximum"),
                allow_nan=False,
                allow_infinity=False,
                exclude_min=schema.get("exclusiveMinimum", False),
                exclude_max=schema.get("exclusiveMaximum", False),
            )
        case "string":
            return _texts(schema)
    return _ANYTHING


def _objects(schema: Raw) -> st.SearchStrategy[Raw]:
    if "properties" in schema:
        parts = {name: _values(part) for name, part in schema["properties"].items()}
        required = {name: parts.pop(name) for name in schema.get("required", ())}
        return st.fixed_dictionaries(required, optional=parts)
    values = schema.get("additionalProperties")
    return st.dictionaries(
        st.text("abc", min_size=1, max_size=3),
        _values(values) if values else _ANYTHING,
        min_size=schema.get("minProperties", 0),
        max_size=schema.get("maxProperties", 3),
    )


def _integers(schema: Raw) -> st.SearchStrategy[int]:
    low = schema.get("minimum", -(2**31)) + bool(schema.get("exclusiveMinimum"))
    high = schema.get("maximum", 2**31 - 1) - bool(schema.get("exclusiveMaximum"))
    step = schema.get("multipleOf", 1)
    return st.integers(-(-low // step), high // step).map(lambda number: number * step)


def _texts(schema: Raw) -> st.SearchStrategy[str]:
    least, most = schema.get("minLength", 0), schema.get("maxLength", 1024)
    match schema.get("format"):
        case "date-time":
            return st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.isoformat())
        case "byte":
            return st.sampled_from(["", "YQ==", "AAEC/w=="])
    if (pattern := schema.get("pattern")) is None:
        return st.text(_LETTERS, min_size=least, max_size=min(most, max(least, 8)))
    texts: st.SearchStrategy[str] = st.from_regex(re.compile(pattern))
    # Python's $ is before a newline at the end, too, and Go's is not.
    return texts.filter(lambda text: least <= len(text) <= most and not text.endswith("\n"))
