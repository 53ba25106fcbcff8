"""What the chart may say in objects of cert-manager, whose schemas Kubernetes lacks.

https://cert-manager.io/docs/reference/api-docs/
"""

from typing import Any

API = "cert-manager.io/v1"

_TEXT = {"type": "string"}


def _closed(required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": required,
        "properties": properties,
    }


def _object(spec: dict[str, Any]) -> dict[str, Any]:
    return _closed(
        ["apiVersion", "kind", "metadata", "spec"],
        apiVersion=_TEXT,
        kind=_TEXT,
        metadata={"type": "object", "required": ["name", "namespace"]},
        spec=spec,
    )


SCHEMAS = {
    "Certificate": _object(
        _closed(
            ["secretName", "issuerRef", "dnsNames"],
            secretName=_TEXT,
            dnsNames={"type": "array", "minItems": 1, "items": {**_TEXT, "maxLength": 253}},
            subject=_closed([], organizations={"type": "array", "items": _TEXT}),
            usages={
                "type": "array",
                "items": {"enum": ["digital signature", "key encipherment", "server auth"]},
            },
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
