"""Generates the CustomResourceDefinition of a kind that an author declares in Python."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from kopf_kit.crd.structural import DeclarationError, Schema, structural
from kopf_runtime import Controller
from kopf_runtime.converting.versions import Versions
from kopf_runtime.declaring import declaration
from kopf_runtime.declaring.conditions import CONDITIONS
from kopf_runtime.declaring.declaration import (
    AGE,
    READY,
    REASON,
    Column,
    CustomResource,
    validations,
)
from kopf_runtime.declaring.records import HOLDS

Manifest = dict[str, Any]

_GENERATION: Schema = {"type": "integer", "format": "int64"}

#: A column with a part of a condition.
_OF_CONDITION = re.compile(r'\.status\.conditions\[\?\(@\.type=="\w+"\)\]\.(status|reason|message)')
#: metav1.Condition, with its limits.
_CONDITION: Schema = {
    "type": "object",
    "description": "One aspect of the state.",
    "required": ["lastTransitionTime", "message", "reason", "status", "type"],
    "properties": {
        "type": {
            "type": "string",
            "description": "What the condition is about, in CamelCase, such as Ready.",
            "maxLength": 316,
            "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
            r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        },
        "status": {
            "type": "string",
            "description": "Whether the condition holds.",
            "enum": ["True", "False", "Unknown"],
        },
        "reason": {
            "type": "string",
            "description": "Why it does or does not, in one CamelCase word for programs.",
            "minLength": 1,
            "maxLength": 1024,
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        },
        "message": {
            "type": "string",
            "description": "Why it does or does not, in a sentence for people; may be empty.",
            "maxLength": 32768,
        },
        "lastTransitionTime": {
            "type": "string",
            "format": "date-time",
            "description": "When the status of the condition last changed.",
        },
        "observedGeneration": {
            **_GENERATION,
            "description": "The metadata.generation that the condition is about.",
            "minimum": 0,
        },
    },
}


def of(controller: Controller) -> Manifest:
    """Return the CustomResourceDefinition of a controller's kind; raise `DeclarationError`."""
    versions, unique = (
        Versions.of(controller.declaration),
        [index.name for index in controller.declaration.uniques.values()],
    )
    return definition(
        *(
            versions.all.values()
            if versions
            else [declaration.declared(controller.declaration.type)]
        ),
        unique=unique,
    )


def definition(
    own: CustomResource, *others: CustomResource, unique: Sequence[str] = ()
) -> Manifest:
    """Return the CustomResourceDefinition of a kind and its versions; raise `DeclarationError`.

    The names are those that the first one declares; `unique` names what no two objects may share.
    """
    kind = own.kind
    names: Manifest = {
        "kind": kind.kind,
        "listKind": f"{kind.kind[:59]}List",  # a DNS label, too, in lower case
        "plural": kind.plural,
        "singular": kind.kind.lower(),
    }
    lists = {"shortNames": own.short_names, "categories": own.categories}
    names |= {name: list(words) for name, words in lists.items() if words}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": str(kind)},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": names,
            "versions": [_version(each, bool(others), unique) for each in (own, *others)],
        },
    }


def _version(declared: CustomResource, several: bool, unique: Sequence[str]) -> Manifest:
    schema = _schema(declared, unique)
    return {
        "name": declared.kind.version,
        "served": declared.served,
        "storage": declared.storage or not several,
        "subresources": {"status": {}, **_scale(declared, schema)},
        "additionalPrinterColumns": [
            _column(column, declared, schema) for column in declared.printer_columns
        ],
        "schema": {"openAPIV3Schema": schema},
    }


# --- the schema ---------------------------------------------------------------------------------


def _schema(declared: CustomResource, unique: Sequence[str]) -> Schema:
    kind = declared.kind
    own = [
        (field.name, field.type, _default(field))
        for field in msgspec.structs.fields(declared.resource)
        if field.name not in ("metadata", "status")
    ]
    bare = msgspec.defstruct(kind.kind, own, kw_only=True, rename="camel")
    schema = structural(bare, source=declared.resource)
    # A rule may have a fieldPath only if the schema contains that field.
    scope = "its namespace" if kind.namespaced else "the cluster"
    naming = declared.naming or f"Name of the {kind.kind}, unique in {scope}."
    name = {"type": "string", "description": naming}
    return {
        "type": "object",
        **_described(declared.resource.__doc__),
        **(validations(*declared.validations) if declared.validations else {}),
        **({"required": schema["required"]} if "required" in schema else {}),
        "properties": {
            "apiVersion": {
                "type": "string",
                "description": f"Version of this schema, {kind.api_version}.",
            },
            "kind": {"type": "string", "description": f"Kind of this object, {kind.kind}."},
            "metadata": {"type": "object", "properties": {"name": name}},
            **schema["properties"],
            "status": _status(declared, unique),
        },
    }


def _described(text: str | None) -> Schema:
    """Return a description, but no empty one, which no API server would keep."""
    words = " ".join((text or "").split())
    return {"description": words} if words else {}


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.field(default_factory=field.default_factory)
    return field.default


def _holds(kind: str, unique: Sequence[str]) -> Schema:
    """Return the schema of what the runtime records of an object's unique values."""
    values: Schema = {"type": "array", "items": {"type": "string"}}
    return {
        "type": "object",
        "description": f"What this {kind} has, and no other one can have. It is recorded by the "
        "operator alone.",
        "properties": {
            name: {"description": f"Each {name} that it has.", **values} for name in unique
        },
    }


def _status(declared: CustomResource, unique: Sequence[str]) -> Schema:
    """Return the schema of the status."""
    runtime = ("conditions", "observedGeneration", *([HOLDS] if unique else ()))
    own: Schema = {"description": "What the operator last observed."}
    if declared.status is not None:
        own = structural(declared.status, ".status")
    for name in runtime:
        if name in own.get("properties", {}):
            raise DeclarationError(f".status.{name} is the runtime's; leave it out of the class")
    return {
        "type": "object",
        **_described(own.get("description")),
        "properties": {
            **_observed(own).get("properties", {}),
            **({HOLDS: _holds(declared.kind.kind, unique)} if unique else {}),
            "observedGeneration": {
                **_GENERATION,
                "description": "The metadata.generation that this status is about. While it is "
                "lower than that, the operator has not seen the latest edit.",
                "minimum": 0,
            },
            "conditions": {
                "type": "array",
                "description": f"Details of the state. The condition Ready is True while "
                f"{declared.ready}.",
                "maxItems": CONDITIONS,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": _CONDITION,
            },
        },
    }


def _observed(schema: Schema) -> Schema:
    """Return the schema of a part of a status, without defaults: unobserved fields are absent."""
    never = ("default", "nullable", "required")
    result = {key: value for key, value in schema.items() if key not in never}
    if "properties" in schema:
        parts = schema["properties"].items()
        result["properties"] = {name: _observed(part) for name, part in parts}
    for key in ("items", "additionalProperties"):
        if key in schema:
            result[key] = _observed(schema[key])
    if "items" in schema and (keys := schema.get("x-kubernetes-list-map-keys")):
        result["items"]["required"] = keys  # they identify the items
    return result


# --- what tables and autoscalers show -------------------------------------------------------------


def _column(column: Column, declared: CustomResource, schema: Schema) -> Manifest:
    description = column.description
    if column is READY:
        description = f"Whether {declared.ready}"
    elif column is REASON:
        description = f"Why the {declared.kind.kind} is ready or not"
    kind = "date" if column is AGE else "string"
    if column not in (READY, REASON, AGE) and not _OF_CONDITION.fullmatch(column.path):
        if not column.name:
            raise DeclarationError(f"the column of {column.path} has no name; give it one")
        who = f"the column {' '.join(column.name.split())} shows"
        kind = _at(column.path, who, schema).get("type", "string")
        if kind == "object":
            raise DeclarationError(f"{who} {column.path}, which is an object; name a field in it")
        if kind == "array":
            kind = "string"  # printed as JSON
    return {
        "name": column.name,
        "type": kind,
        "jsonPath": column.path,
        **({"description": description} if description else {}),
        **({"priority": 1} if column.wide else {}),
    }


def _scale(declared: CustomResource, schema: Schema) -> Manifest:
    scale = declared.scale
    if scale is None:
        return {}
    who = "scale= names"
    for path, part in (
        (scale.spec_replicas_path, ".spec"),
        (scale.status_replicas_path, ".status"),
    ):
        if _at(path, who, schema).get("type") != "integer":
            raise DeclarationError(f"{who} {path}, which is not a whole number")
        if not path.startswith(f"{part}."):
            raise DeclarationError(f"{who} {path}, which is not a field of {part}")
    holder, _, name = scale.spec_replicas_path.rpartition(".")
    required = _at(holder, who, schema).get("required", ())
    if name not in required and "default" not in _at(scale.spec_replicas_path, who, schema):
        raise DeclarationError(
            f"{who} {scale.spec_replicas_path}, which may be missing; give it a default"
        )
    paths = {
        "specReplicasPath": scale.spec_replicas_path,
        "statusReplicasPath": scale.status_replicas_path,
    }
    if scale.label_selector_path:
        path = scale.label_selector_path
        if _at(path, who, schema).get("type") != "string":
            raise DeclarationError(f"{who} {path}, which is not a text")
        if not path.startswith((".spec.", ".status.")):
            raise DeclarationError(f"{who} {path}, which is not a field of .spec or .status")
        paths["labelSelectorPath"] = path
    return {"scale": paths}


def _at(path: str, who: str, schema: Schema) -> Schema:
    """Return the schema of a field; raise `DeclarationError` if it does not exist."""
    for name in path.removeprefix(".").split("."):
        below = schema.get("properties", {}).get(name)
        if not path.startswith(".") or below is None:
            raise DeclarationError(
                f"{who} {path}, which is not a field; fields are named as in .spec.size"
            )
        schema = below
    return schema
