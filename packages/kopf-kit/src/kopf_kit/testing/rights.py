"""The roles of an operator, generated from its declaration: exactly the rights that it needs."""

from typing import Any

from kopf_kit.pack import rights
from kopf_kit.testing.cluster import Raw
from kopf_runtime import Manager

_API = "rbac.authorization.k8s.io"
_LEASES = {
    "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
    "verbs": ["get", "create", "update"],
}  # fmt: skip


def granted(operator: Manager[Any], user: str, namespace: str | None) -> list[Raw]:
    """Return a user's role and binding for a namespace and its Lease, or for all if it is None."""
    prefix = "" if namespace else "Cluster"
    name = operator.program.name
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    rules = [*(rule for _, rule in rights.rules(operator.controllers)), _LEASES]
    return [
        {"apiVersion": f"{_API}/v1", "kind": f"{prefix}Role", "metadata": meta, "rules": rules},
        {
            "apiVersion": f"{_API}/v1", "kind": f"{prefix}RoleBinding", "metadata": meta,
            "roleRef": {"apiGroup": _API, "kind": f"{prefix}Role", "name": name},
            "subjects": [{"apiGroup": _API, "kind": "User", "name": user}],
        },
    ]  # fmt: skip
