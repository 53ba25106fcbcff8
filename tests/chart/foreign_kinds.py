"""The kinds of others that the chart may make objects of, as an API server is told of them."""

from typing import Any

from tests.chart import cert_manager, prometheus_operator

#: Their schemas, by API version and kind.
SCHEMAS: dict[str, dict[str, dict[str, Any]]] = {
    cert_manager.API: cert_manager.SCHEMAS,
    prometheus_operator.API: prometheus_operator.SCHEMAS,
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
