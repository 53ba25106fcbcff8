"""What is made of the comments in the chart's values.yaml: its schema and its README.

`hack.generate` calls it. The comments' form is explained at the top of values.yaml.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from hack import paths

CHART = paths.CHECKOUT / "charts" / "message-operator"

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_OBJECT: Schema = {"type": "object"}
_OBJECTS: Schema = {"type": "array", "items": _OBJECT}
_PORT: Schema = {"type": "integer", "minimum": 1, "maximum": 65535}
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_COUNT_OR_PERCENTAGE: Schema = {
    "type": ["integer", "string"],
    "minimum": 0,
    "pattern": "^[0-9]{1,3}%$",
}
_QUANTITIES: Schema = {"type": "object", "additionalProperties": {"type": ["string", "number"]}}


def _closed(**properties: Schema) -> Schema:
    """Return an object that has these properties and no others."""
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _items(*required: str) -> Schema:
    """Return a list of objects, each of which has these properties at least."""
    return {"type": "array", "items": {"type": "object", "required": list(required)}}


_SECRETS: Schema = {
    "type": "array",
    "items": {**_closed(name={"type": "string", "minLength": 1}), "required": ["name"]},
}

#: What `# @schema <kind>` stands for.
KINDS: dict[str, Schema] = {
    "affinity": _closed(nodeAffinity=_OBJECT, podAffinity=_OBJECT, podAntiAffinity=_OBJECT),
    "alerts": {
        "type": "array",
        "uniqueItems": True,
        "items": {
            "enum": [
                "MessageOperatorDown",
                "MessageOperatorRestarting",
                "MessageOperatorNoLeader",
                "MessageOperatorReconcileErrors",
                "MessageOperatorQueueStuck",
                "MessageOperatorApiErrors",
                "MessageOperatorForbidden",
                "MessageOperatorWatchMisses",
                "MessageOperatorSweepsFail",
                "MessageOperatorUnserved",
                "MessageOperatorUnreadableObjects",
                "MessageOperatorMessagesFailed",
                "MessageOperatorMessagesPending",
            ]
        },
    },
    "countOrPercentage": {**_COUNT_OR_PERCENTAGE, "pattern": "^([0-9]{1,3}%)?$"},
    "digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
    "duration": {"type": "string", "pattern": "^([0-9]+(ms|[smhdwy]))*$"},
    "extraObjects": {"type": "array", "items": {"type": ["object", "string"]}},
    "global": {
        "type": ["object", "null"],
        "properties": {
            "imageRegistry": {
                "type": "string",
                "description": "Registry that goes before those of all images",
            },
            "imagePullSecrets": {
                "type": "array",
                "items": _OBJECT,
                "description": "Secrets to pull the images with, as `[{name: …}]`; added to the "
                "chart's own",
            },
        },
    },
    "issuer": {
        **_closed(name={"type": "string", "minLength": 1}, kind=_TEXT, group=_TEXT),
        "dependencies": {"kind": ["name"], "group": ["name"]},
    },
    "name": {"type": "string", "pattern": f"^({_LABEL})?$"},
    "named": _items("name"),
    "namespaces": {
        "type": "array",
        "uniqueItems": True,
        "items": {"type": "string", "maxLength": 63, "pattern": f"^{_LABEL}$"},
    },
    "objects": _OBJECTS,
    # The API server sees what message Pods are given only once there is a Message, so their fields
    # are listed here. The user has a value of its own.
    "podSecurityContext": _closed(
        appArmorProfile=_OBJECT,
        fsGroup={"type": "integer"},
        fsGroupChangePolicy=_TEXT,
        runAsGroup={"type": "integer"},
        runAsNonRoot={"type": "boolean"},
        seLinuxChangePolicy=_TEXT,
        seLinuxOptions=_OBJECT,
        seccompProfile=_OBJECT,
        supplementalGroups={"type": "array", "items": {"type": "integer"}},
        supplementalGroupsPolicy=_TEXT,
        sysctls=_OBJECTS,
    ),
    "port": _PORT,
    "ports": {"type": "array", "uniqueItems": True, "items": _PORT},
    "pullSecrets": _SECRETS,
    "resources": _closed(requests=_QUANTITIES, limits=_QUANTITIES, claims=_OBJECTS),
    "securityContext": _closed(
        allowPrivilegeEscalation={"type": "boolean"},
        appArmorProfile=_OBJECT,
        capabilities=_OBJECT,
        privileged={"type": "boolean"},
        procMount=_TEXT,
        readOnlyRootFilesystem={"type": "boolean"},
        runAsGroup={"type": "integer"},
        runAsNonRoot={"type": "boolean"},
        seLinuxOptions=_OBJECT,
        seccompProfile=_OBJECT,
    ),
    "strategy": _closed(
        type={"enum": ["RollingUpdate", "Recreate"]},
        rollingUpdate=_closed(maxSurge=_COUNT_OR_PERCENTAGE, maxUnavailable=_COUNT_OR_PERCENTAGE),
    ),
    "subdomain": {"type": "string", "maxLength": 253, "pattern": f"^({_LABEL}(\\.{_LABEL})*)?$"},
    "tag": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{0,128}$"},
    "texts": {"type": "object", "additionalProperties": _TEXT},
    "tolerations": {
        "type": "array",
        "items": _closed(
            key=_TEXT,
            operator={"enum": ["Exists", "Equal", "Lt", "Gt"]},
            value=_TEXT,
            effect={"enum": ["", "NoSchedule", "PreferNoSchedule", "NoExecute"]},
            tolerationSeconds={"type": "integer"},
        ),
    },
    "topologySpread": _items("maxSkew", "topologyKey", "whenUnsatisfiable"),
}


@dataclass(frozen=True)
class Value:
    """A value that is described in values.yaml."""

    path: tuple[str, ...]
    default: Any
    description: str
    section: str
    schema: Schema

    @property
    def name(self) -> str:
        """The path as `helm --set` has it."""
        return ".".join(self.path)


class ValuesError(Exception):
    """values.yaml has a comment that is not understood; the text names its line."""


_TYPES: dict[type, Schema] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    str: _TEXT,
    list: {"type": "array"},
    dict: _OBJECT,
}


def _schema(default: Any, annotation: str) -> Schema:
    """Return the schema that a default and an `@schema` comment make together."""
    kind, brace, rest = annotation.partition("{")
    extra: Schema = yaml.safe_load(brace + rest) if brace else {}
    result = dict(KINDS[kind.strip()] if kind.strip() else _TYPES[type(default)])
    if "enum" in extra:
        del result["type"]
    return {**result, **extra}


def values() -> list[Value]:
    """Return every value that values.yaml describes, in its order; raise ValuesError."""
    return parse((CHART / "values.yaml").read_text())


def parse(text: str) -> list[Value]:
    """Return every value that this text of a values.yaml describes."""
    return list(_values(text, yaml.safe_load(text)))


def _values(text: str, defaults: Any) -> Iterator[Value]:
    section, path = "", list[str]()
    comment, annotation = list[str](), ""
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("##@ "):
            section = stripped[4:]
        elif stripped.startswith("# -- "):
            comment = [stripped[5:]]
        elif stripped.startswith("# @schema ") and comment:
            annotation = stripped[10:]
        elif stripped.startswith("# ") and comment and not annotation:
            comment.append(stripped[2:])
        elif match := re.match(r"( *)(\w+):", line):
            path = [*path[: len(match[1]) // 2], match[2]]
            if comment:
                default = defaults
                for name in path:
                    default = default[name]
                try:
                    schema = _schema(default, annotation)
                except KeyError as error:
                    raise ValuesError(f"values.yaml:{number}: no kind {error}") from error
                yield Value(tuple(path), default, " ".join(comment), section, schema)
            comment, annotation = [], ""


# --- values.schema.json -------------------------------------------------------------------------


def _required(value: Value) -> bool:
    """Tell whether the templates cannot do without a value: a null would take it away."""
    if isinstance(value.default, str):
        return bool(value.default) and bool({"enum", "minLength"} & value.schema.keys())
    return isinstance(value.default, bool | int) and "null" not in value.schema.get("type", ())


def schema() -> str:
    """Return values.schema.json."""
    root: Schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$comment": "Generated by hack/chart_docs.py of values.yaml: do not edit, `make generate`",
        "title": "Values of the message-operator chart",
        "type": "object",
        "additionalProperties": False,
        "properties": {},
        "required": [],
    }
    for value in values():
        section = root
        for name in value.path[:-1]:
            empty = {**_closed(), "properties": {}, "required": []}
            section["required"] += [] if name in section["required"] else [name]
            section = section["properties"].setdefault(name, empty)
        described = {"description": value.description, **value.schema}
        section["properties"][value.path[-1]] = described | {"default": value.default}
        section["required"] += [value.path[-1]] if _required(value) else []
    return json.dumps(_without_empty(root), indent=2, ensure_ascii=False) + "\n"


def _without_empty(section: Schema) -> Schema:
    """Return a section without its empty list of required values, and so below."""
    result = {key: value for key, value in section.items() if (key, value) != ("required", [])}
    if section.get("additionalProperties") is False:
        result["properties"] = {k: _without_empty(v) for k, v in section["properties"].items()}
    return result


# --- README.md ----------------------------------------------------------------------------------

_MARK = "<!-- values -->\n"


def readme() -> str:
    """Return the chart's README: README.md.in with the tables of the values in it."""
    before, _, after = (CHART / "README.md.in").read_text().partition(_MARK)
    header = (
        "<!-- Generated by hack/chart_docs.py from README.md.in and values.yaml: "
        "do not edit, `make generate` -->\n"
    )
    return header + before + "\n".join(_tables()) + after


def _tables() -> Iterator[str]:
    section = ""
    for value in values():
        if value.section != section:
            section = value.section
            yield f"\n### {section}\n\n| Value | Default | What it is |\n|---|---|---|"
        yield f"| `{value.name}` | {_default(value.default)} | {_cell(value.description)} |"
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _default(default: Any) -> str:
    text = json.dumps(default, ensure_ascii=False)
    return f"`{_cell(text)}`"
