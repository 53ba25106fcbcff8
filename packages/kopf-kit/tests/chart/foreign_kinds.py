"""The kinds of others that the chart may make objects of, as an API server is told of them.

Their schemas, which Kubernetes lacks, hold what the chart may say of
https://cert-manager.io/docs/reference/api-docs/ and
https://prometheus-operator.dev/docs/api-reference/api/.
"""

from typing import Any

CERT_MANAGER, PROMETHEUS_OPERATOR = "cert-manager.io/v1", "monitoring.coreos.com/v1"

_TEXT = {"type": "string"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
_DURATION = {"type": "string", "pattern": "^(0|(([0-9]+)(ms|[smhdwy]))+)$"}


def _list(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


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
    regex=_TEXT,
    replacement=_TEXT,
    sourceLabels=_list(_TEXT),
    targetLabel=_TEXT,
)
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
        relabelings=_list(_RELABELING),
        metricRelabelings=_list(_RELABELING),
        honorLabels={"type": "boolean"},
        authorization=_closed([], type=_TEXT, credentials=_KEY),
        tlsConfig=_closed([], **tls),
        **more,
    )
    return _list(endpoint, minItems=1)


_LIMIT = {"type": "integer", "minimum": 0}
_SELECTOR = _closed([], matchLabels=_TEXTS)
_NAMESPACES = _closed([], matchNames=_list(_TEXT))
_RULE = _closed(
    ["expr"],
    alert=_TEXT,
    record=_TEXT,
    expr=_TEXT,
    labels=_TEXTS,
    annotations=_TEXTS,
    **{"for": _DURATION},
)


def _object(spec: dict[str, Any]) -> dict[str, Any]:
    return _closed(
        ["apiVersion", "kind", "metadata", "spec"],
        apiVersion=_TEXT,
        kind=_TEXT,
        metadata=_closed(
            ["name", "namespace"], name=_TEXT, namespace=_TEXT, labels=_TEXTS, annotations=_TEXTS
        ),
        spec=spec,
    )


def _spec(optional: dict[str, Any] | None = None, **required: Any) -> dict[str, Any]:
    return _object(_closed([*required], **required, **(optional or {})))


_PROMETHEUS_OPERATOR = {
    "ServiceMonitor": _spec(
        {"sampleLimit": _LIMIT},
        endpoints=_endpoints(_TLS | {"caFile": _TEXT}, bearerTokenFile=_TEXT),
        selector=_SELECTOR,
        namespaceSelector=_NAMESPACES,
    ),
    "PodMonitor": _spec(
        {"sampleLimit": _LIMIT},
        podMetricsEndpoints=_endpoints(_TLS),
        selector=_SELECTOR,
        namespaceSelector=_NAMESPACES,
    ),
    "PrometheusRule": _spec(
        groups=_list(_closed(["name", "rules"], name=_TEXT, rules=_list(_RULE)))
    ),
}
_CERT_MANAGER = {
    "Certificate": _object(
        _closed(
            ["secretName", "issuerRef", "dnsNames"],
            secretName=_TEXT,
            dnsNames=_list({**_TEXT, "maxLength": 253}, minItems=1),
            subject=_closed([], organizations=_list(_TEXT)),
            usages=_list({"enum": ["digital signature", "key encipherment", "server auth"]}),
            privateKey=_closed(
                [],
                algorithm={"enum": ["RSA", "ECDSA", "Ed25519"]},
                size={"type": "integer"},
                rotationPolicy={"enum": ["Never", "Always"]},
            ),
            issuerRef=_closed(["name"], name=_TEXT, kind=_TEXT, group=_TEXT),
        )
    ),
    "Issuer": _object(_closed(["selfSigned"], selfSigned={"type": "object", "maxProperties": 0})),
}
#: Their schemas, by API version and kind.
SCHEMAS: dict[str, dict[str, dict[str, Any]]] = {
    CERT_MANAGER: _CERT_MANAGER,
    PROMETHEUS_OPERATOR: _PROMETHEUS_OPERATOR,
}


def crds(*apis: str) -> list[dict[str, Any]]:
    """Return the kinds of these APIs, which take just what the real ones take of what we use."""
    return [_crd(api, kind, schema) for api in apis for kind, schema in SCHEMAS[api].items()]


def _crd(api: str, kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    group, _, version = api.partition("/")
    plural = f"{kind.lower()}s"
    top = {name: part for name, part in schema["properties"].items() if name != "metadata"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": _structural({"type": "object", "properties": top})
                    },
                }
            ],
        },
    }


def _structural(schema: Any) -> Any:
    """Turn a JSON schema into one that a kind may have: closed objects are that by themselves."""
    if isinstance(schema, list):
        return [_structural(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _structural(part) for name, part in schema.items()}
    if found.get("additionalProperties") is False:
        del found["additionalProperties"]
    if "enum" in found:
        found.setdefault("type", "string")
    return found
