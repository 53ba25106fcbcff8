"""The kinds of values in the chart's values.yaml: the schemas that `# @schema <kind>` selects."""

import re
from typing import Any

from kopf_kit.pack import shared
from kopf_kit.pack.project import PROJECT
from kopf_kit.rig import reading
from kopf_kit.rig.run import HackError

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
        raise HackError(
            f"{own} is missing: it has the flags, the checks and the alerts that only "
            f"{PROJECT.name} has"
        )
    alerts = shared.text(shared.ALERTS) + (reading.text(own) if own.is_file() else "")
    return re.findall(r"^- alert: (\w+)", alerts, re.MULTILINE)


#: The schema of each kind that `# @schema <kind>` can select.
KINDS: dict[str, Schema] = {
    "affinity": closed(nodeAffinity=OBJECT, podAffinity=OBJECT, podAntiAffinity=OBJECT),
    "alerts": {
        "type": "array",
        "uniqueItems": True,
        "items": {"enum": _alerts()},
    },
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
