"""The chart's values: the kinds of values, and the schema and README made of their comments."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kopf_kit.project import documents, shared
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import reading
from kopf_kit.rig.run import KitError

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
OBJECT: Schema = {"type": "object"}
_OBJECTS: Schema = {"type": "array", "items": OBJECT}
_COUNT: Schema = {"type": ["integer", "null"], "minimum": 1}
_WAY: Schema = {"type": ["object", "null"]}
_PORT: Schema = {"type": "integer", "minimum": 1, "maximum": 65535}
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_COUNT_OR_PERCENTAGE: Schema = {
    "type": ["integer", "string"],
    "minimum": 0,
    "pattern": "^[0-9]{1,3}%$",
}
#: As Kubernetes parses a quantity (apimachinery/pkg/api/resource/quantity.go).
_QUANTITY: Schema = {
    "type": ["string", "number"],
    "pattern": "^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$",
}
_QUANTITIES: Schema = {"type": "object", "additionalProperties": _QUANTITY}


def closed(**properties: Schema) -> Schema:
    """Return an object that has these properties and no others."""
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _probe(**own: Schema) -> Schema:
    """Return the fields of a Pod's probe, and further ones."""
    ways = ("exec", "grpc", "httpGet", "tcpSocket")
    counts = ("failureThreshold", "periodSeconds", "timeoutSeconds")
    return closed(
        enabled={"type": "boolean"},
        initialDelaySeconds={**_COUNT, "minimum": 0},
        **dict.fromkeys(ways, _WAY),
        **dict.fromkeys(counts, _COUNT),
        **own,
    )


def _needs(properties: Schema, *required: str) -> Schema:
    """Return an object of which some properties are required."""
    return {**properties, "required": list(required)}


def _items(*required: str) -> Schema:
    """Return a list of objects that all have at least these properties."""
    return {"type": "array", "items": {"type": "object", "required": list(required)}}


_SECRETS: Schema = {
    "type": "array",
    "items": _needs(closed(name={"type": "string", "minLength": 1}), "name"),
}
#: A key of a Secret or ConfigMap, in the form of the Prometheus Operator.
_KEY = _needs(closed(name=TEXT, key=TEXT, optional={"type": "boolean"}), "name", "key")
_KEY_OF_EITHER = closed(secret=_KEY, configMap=_KEY)
_TLS_VERSION: Schema = {"enum": ["TLS10", "TLS11", "TLS12", "TLS13"]}
#: A monitor's TLS settings; a ServiceMonitor also has files.
_TLS: dict[str, Schema] = {
    "ca": _KEY_OF_EITHER,
    "cert": _KEY_OF_EITHER,
    "keySecret": _KEY,
    "serverName": TEXT,
    "insecureSkipVerify": {"type": "boolean"},
    "minVersion": _TLS_VERSION,
    "maxVersion": _TLS_VERSION,
}


def _alerts() -> list[str]:
    """Return the names of the chart's alerts: those that all operators share, and its own."""
    own = PROJECT.written_chart / "templates" / "_operator.tpl"
    if not own.is_file() and not PROJECT.adopted:
        raise KitError(
            f"{own} is missing: it has the flags, the checks and the alerts that only "
            f"{PROJECT.name} has"
        )
    alerts = shared.text(shared.ALERTS) + (reading.text(own) if own.is_file() else "")
    return re.findall(r"^- alert: (\w+)", alerts, re.MULTILINE)


#: The schema of each kind that `# @schema <kind>` can select.
KINDS: dict[str, Schema] = {
    "affinity": closed(nodeAffinity=OBJECT, podAffinity=OBJECT, podAntiAffinity=OBJECT),
    "alerts": {"type": "array", "uniqueItems": True, "items": {"enum": _alerts()}},
    "authorization": closed(type=TEXT, credentials=_KEY),
    "countOrPercentage": {**_COUNT_OR_PERCENTAGE, "pattern": "^([0-9]{1,3}%)?$"},
    "digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
    "duration": {"type": "string", "pattern": "^([0-9]+(ms|[smhdwy]))*$"},
    "extraObjects": {"type": "array", "items": {"type": ["object", "string"]}},
    "global": {
        "type": ["object", "null"],
        "properties": {
            "imageRegistry": {
                "type": ["string", "null"],
                "description": "Registry that goes before those of all images",
            },
            "imagePullSecrets": {
                "type": ["array", "null"],
                "items": {"type": ["object", "string"]},
                "description": "Secrets to pull the images with, as `[{name: …}]` or as names; "
                "added to the chart's own",
            },
        },
    },
    "issuer": {
        **closed(name={"type": "string", "minLength": 1}, kind=TEXT, group=TEXT),
        "dependencies": {"kind": ["name"], "group": ["name"]},
    },
    "labels": {
        "type": "object",
        "additionalProperties": {
            "type": "string",
            "maxLength": 63,
            "pattern": "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$",
        },
    },
    # For the startup probe, too; for both, Kubernetes allows only one required success.
    "livenessProbe": _probe(
        successThreshold={"enum": [1, None]}, terminationGracePeriodSeconds=_COUNT
    ),
    "name": {"type": "string", "pattern": f"^({_LABEL})?$"},
    "named": _items("name"),
    "namespaces": {
        "type": "array",
        "uniqueItems": True,
        "items": {
            "type": "string",
            "maxLength": 63,
            "pattern": rf"^({_LABEL}|\$\(POD_NAMESPACE\))$",
        },
    },
    "objects": _OBJECTS,
    # The API server checks the fields of an operator's Pods only once there is one, so they are
    # listed here. runAsUser is a value of its own.
    "podSecurityContext": closed(
        appArmorProfile=OBJECT,
        fsGroup={"type": "integer"},
        fsGroupChangePolicy=TEXT,
        runAsGroup={"type": "integer"},
        runAsNonRoot={"type": "boolean"},
        seLinuxChangePolicy=TEXT,
        seLinuxOptions=OBJECT,
        seccompProfile=OBJECT,
        supplementalGroups={"type": "array", "items": {"type": "integer"}},
        supplementalGroupsPolicy=TEXT,
        sysctls=_OBJECTS,
    ),
    "port": _PORT,
    "ports": {"type": "array", "uniqueItems": True, "items": _PORT},
    "pullSecrets": _SECRETS,
    "readinessProbe": _probe(successThreshold=_COUNT),
    "resources": closed(requests=_QUANTITIES, limits=_QUANTITIES, claims=_OBJECTS),
    "securityContext": closed(
        allowPrivilegeEscalation={"type": "boolean"},
        appArmorProfile=OBJECT,
        capabilities=OBJECT,
        privileged={"type": "boolean"},
        procMount=TEXT,
        readOnlyRootFilesystem={"type": "boolean"},
        runAsGroup={"type": "integer"},
        runAsNonRoot={"type": "boolean"},
        seLinuxOptions=OBJECT,
        seccompProfile=OBJECT,
    ),
    "strategy": closed(
        type={"enum": ["RollingUpdate", "Recreate"]},
        rollingUpdate=closed(maxSurge=_COUNT_OR_PERCENTAGE, maxUnavailable=_COUNT_OR_PERCENTAGE),
    ),
    "subdomain": {"type": "string", "maxLength": 253, "pattern": f"^({_LABEL}(\\.{_LABEL})*)?$"},
    "monitorTLS": closed(**_TLS, caFile=TEXT, certFile=TEXT, keyFile=TEXT),
    "tag": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{0,128}(@sha256:[0-9a-f]{64})?$"},
    "texts": {"type": "object", "additionalProperties": TEXT},
    "tolerations": {
        "type": "array",
        "items": closed(
            key=TEXT,
            operator={"enum": ["Exists", "Equal", "Lt", "Gt"]},
            value=TEXT,
            effect={"enum": ["", "NoSchedule", "PreferNoSchedule", "NoExecute"]},
            tolerationSeconds={"type": "integer"},
        ),
    },
    "topologySpread": _items("maxSkew", "topologyKey", "whenUnsatisfiable"),
}


CHART = PROJECT.chart


@dataclass(frozen=True)
class Value:
    """A value that values.yaml describes."""

    path: tuple[str, ...]
    default: Any
    description: str
    section: str
    #: What `@schema` says.
    annotation: str
    schema: Schema

    @property
    def name(self) -> str:
        """The path in the form of `helm --set`."""
        return ".".join(self.path)


class ValuesError(KitError):
    """A comment in values.yaml is invalid; the message names its line."""


_TYPES: dict[type, Schema] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    str: TEXT,
    list: {"type": "array"},
    dict: OBJECT,
}


def _schema(default: Any, annotation: str) -> Schema:
    """Return the schema of a value, given its default and its `@schema` comment."""
    kind, brace, rest = annotation.partition("{")
    extra: Schema = documents.load(brace + rest) if brace else {}
    result = dict(KINDS[kind.strip()] if kind.strip() else _TYPES[type(default)])
    if "enum" in extra:
        del result["type"]
    return {**result, **extra}


def values(chart: Path = CHART) -> list[Value]:
    """Return every value that values.yaml describes, in its order; raise ValuesError."""
    return parse(reading.text(file := chart / "values.yaml"), file)


def parse(text: str, source: Path | str = "values.yaml") -> list[Value]:
    """Return every value that the text of a values.yaml describes."""
    defaults = reading.shaped(reading.load(text, source), dict[str, Any], source)
    return list(_values(text, defaults))


def _values(text: str, defaults: Any) -> Iterator[Value]:
    section, path = "", list[str]()
    comment, annotation = list[str](), ""
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("# @section "):
            section = stripped[11:]
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
                    raise ValuesError(f"values.yaml:{number}: unknown kind {error}") from error
                yield Value(tuple(path), default, " ".join(comment), section, annotation, schema)
            comment, annotation = [], ""


def files(chart: Path) -> dict[Path, str]:
    """Return the contents of the files generated from a chart's values.yaml, by path."""
    return {chart / "values.schema.json": schema(chart), chart / "README.md": readme(chart)}


# --- values.schema.json -------------------------------------------------------------------------


def _required(value: Value) -> bool:
    """Return whether the templates require a value, which a null would remove."""
    if isinstance(value.default, str):
        return bool(value.default) and bool({"enum", "minLength"} & value.schema.keys())
    return isinstance(value.default, bool | int) and "null" not in value.schema.get("type", ())


#: `--reuse-values` leaves out what a release has not had before.
_RESET = "a value, not null; upgrade with --reset-then-reuse-values, not --reuse-values"


def schema(chart: Path = CHART) -> str:
    """Return values.schema.json."""
    root: Schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$comment": "Generated by kopf_kit/chart/values.py of values.yaml: do not edit, "
        "`kopf-kit generate`",
        "title": f"Values of the {chart.name} chart",
        "type": "object",
        "additionalProperties": False,
        "properties": {},
        "required": [],
    }
    for value in values(chart):
        section = root
        for name in value.path[:-1]:
            empty = {**closed(), "properties": {}, "required": []}
            section["required"] += [] if name in section["required"] else [name]
            section = section["properties"].setdefault(name, empty)
        described = {"description": value.description, **value.schema}
        section["properties"][value.path[-1]] = described | {"default": value.default}
        section["required"] += [value.path[-1]] if _required(value) else []
    return documents.as_json(_without_empty(root)) + "\n"


def _without_empty(section: Schema) -> Schema:
    """Return a section without empty lists of required values, at every level.

    Helm prints which property is missing, and nothing of ours: so one more is, by a telling name.
    """
    result = {key: value for key, value in section.items() if (key, value) != ("required", [])}
    if "required" in result and "description" not in section:
        result["if"] = {"not": {"required": section["required"]}}
        result["then"] = {"required": [_RESET]}
    if section.get("additionalProperties") is False:
        result["properties"] = {k: _without_empty(v) for k, v in section["properties"].items()}
    return result


# --- README.md ----------------------------------------------------------------------------------

#: The tables are between these lines.
_BEGIN = "<!-- values -->\n"
_END = "<!-- Generated by kopf_kit/chart/values.py of values.yaml, up to `values` -->\n"


def readme(chart: Path = CHART) -> str:
    """Return the chart's README with the tables of the values filled in.

    It is its author's, or else the one that all operators share.
    """
    written = PROJECT.written_chart / "README.md"
    if written.is_file():
        text = reading.text(written)
    else:
        text = shared.text(shared.FOLDER / "chart" / "README.md.in")
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.rpartition(_END)
    return before + _BEGIN + "\n".join(_tables(chart)) + _END + after


def _tables(chart: Path) -> Iterator[str]:
    section = ""
    for value in values(chart):
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
