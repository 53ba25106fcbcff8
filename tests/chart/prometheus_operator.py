"""What the chart may say in objects of the Prometheus Operator, whose schemas Kubernetes lacks.

https://prometheus-operator.dev/docs/api-reference/api/
"""

from typing import Any

API = "monitoring.coreos.com/v1"

_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
_DURATION = {"type": "string", "pattern": "^(0|(([0-9]+)(ms|[smhdwy]))+)$"}


def _closed(required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": required,
        "properties": properties,
    }


_RELABELING = _closed(
    [],
    action={
        "enum": ["replace", "keep", "drop", "labelmap", "labeldrop", "labelkeep"],
        "default": "replace",
    },
    regex={"type": "string"},
    replacement={"type": "string"},
    sourceLabels={"type": "array", "items": {"type": "string"}},
    targetLabel={"type": "string"},
)
_TEXT = {"type": "string"}
_KEY = _closed(["name", "key"], name=_TEXT, key=_TEXT)
#: The part of a TLS configuration that a PodMonitor knows, too.
_TLS = {
    "ca": _closed([], secret=_KEY, configMap=_KEY),
    "serverName": _TEXT,
    "insecureSkipVerify": {"type": "boolean"},
}


def _endpoints(tls: dict[str, Any], **more: Any) -> dict[str, Any]:
    endpoint = _closed(
        ["port"],
        port=_TEXT,
        path=_TEXT,
        scheme={"enum": ["http", "https"]},
        interval=_DURATION,
        scrapeTimeout=_DURATION,
        relabelings={"type": "array", "items": _RELABELING},
        metricRelabelings={"type": "array", "items": _RELABELING},
        honorLabels={"type": "boolean"},
        authorization=_closed([], type=_TEXT, credentials=_KEY),
        tlsConfig=_closed([], **tls),
        **more,
    )
    return {"type": "array", "minItems": 1, "items": endpoint}


_LIMIT = {"type": "integer", "minimum": 0}
_SELECTOR = _closed([], matchLabels=_TEXTS)
_NAMESPACES = _closed([], matchNames={"type": "array", "items": {"type": "string"}})
_RULE = _closed(
    ["expr"],
    alert={"type": "string"},
    record={"type": "string"},
    expr={"type": "string"},
    labels=_TEXTS,
    annotations=_TEXTS,
    **{"for": _DURATION},
)


def _object(optional: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    text = {"type": "string"}
    return _closed(
        ["apiVersion", "kind", "metadata", "spec"],
        apiVersion=text,
        kind=text,
        metadata=_closed(
            ["name", "namespace"], name=text, namespace=text, labels=_TEXTS, annotations=_TEXTS
        ),
        spec=_closed([*spec], **spec, **(optional or {})),
    )


SCHEMAS = {
    "ServiceMonitor": _object(
        {"sampleLimit": _LIMIT},
        endpoints=_endpoints(_TLS | {"caFile": _TEXT}, bearerTokenFile=_TEXT),
        selector=_SELECTOR,
        namespaceSelector=_NAMESPACES,
    ),
    "PodMonitor": _object(
        {"sampleLimit": _LIMIT},
        podMetricsEndpoints=_endpoints(_TLS),
        selector=_SELECTOR,
        namespaceSelector=_NAMESPACES,
    ),
    "PrometheusRule": _object(
        groups={
            "type": "array",
            "items": _closed(
                ["name", "rules"], name={"type": "string"}, rules={"type": "array", "items": _RULE}
            ),
        }
    ),
}
