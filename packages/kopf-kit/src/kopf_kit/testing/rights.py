"""The roles of an operator: those that follow from its declaration, or rules that are given."""

from collections.abc import Iterable
from typing import Any

from kopf_kit.pack import rights
from kopf_kit.testing.cluster import Raw
from kopf_runtime import Manager

_API = "rbac.authorization.k8s.io"


def declared_rules(operator: Manager[Any]) -> list[Raw]:
    """Return exactly the rules that an operator's declaration needs, and those for its Lease."""
    return [*(rule for _, rule in rights.rules(operator)), rights.LEASES]


def granted(name: str, rules: Iterable[Raw], user: str, namespace: str | None) -> list[Raw]:
    """Return a user's role and binding of this name for a namespace, or for all if it is None."""
    prefix = "" if namespace else "Cluster"
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return [
        {"apiVersion": f"{_API}/v1", "kind": f"{prefix}Role", "metadata": meta, "rules": [*rules]},
        {
            "apiVersion": f"{_API}/v1",
            "kind": f"{prefix}RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": _API, "kind": f"{prefix}Role", "name": name},
            "subjects": [{"apiGroup": _API, "kind": "User", "name": user}],
        },
    ]
