"""The rights that the operator needs, and which of them the cluster refuses."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from kubectl_message.kubectl import Kubectl
from kubectl_message.survey import Operator

Object = dict[str, Any]


class Right(NamedTuple):
    """A verb on a resource."""

    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"


#: A test compares them with the chart's roles.
NEEDED = (
    *(Right("myorg.dev", "messages", verb) for verb in ("get", "list", "watch")),
    Right("myorg.dev", "messages/status", "patch"),
    *(Right("", "pods", verb) for verb in ("get", "list", "watch", "create", "delete")),
    *(Right("", "events", verb) for verb in ("create", "patch")),
)
LEASE = tuple(Right("coordination.k8s.io", "leases", verb) for verb in ("get", "update", "create"))
SELECTING = tuple(Right("", "namespaces", verb) for verb in ("list", "watch"))
#: Maximum number of namespaces to check: each takes one request per right.
MOST = 10


def missing(kubectl: Kubectl, operator: Operator, namespaces: list[str]) -> list[str]:
    """Return the rights that an operator lacks, with the namespace; raise `KubectlError`.

    Without namespaces, it checks the cluster-wide rights.
    """
    asked = [
        (right, namespace, "") for namespace in (namespaces or [""])[:MOST] for right in NEEDED
    ]
    if operator.selector:
        asked += [(right, "", "") for right in SELECTING]
    if operator.elects:
        name = operator.lease_name
        asked += [
            (right, operator.namespace, "" if right.verb == "create" else name) for right in LEASE
        ]
    reviews = [_review(operator.account, *question) for question in asked]
    everything = {"apiVersion": "v1", "kind": "List", "items": reviews}
    flags = ("--validate=false", "--output=json", "--filename=-")
    printed = kubectl.ask("create", *flags, send=everything)
    return [
        f"{right} ({namespace or '*'})"
        for (right, namespace, _), answer in zip(asked, _documents(printed))
        if not answer["status"].get("allowed")
    ]


def _review(user: str, right: Right, namespace: str, name: str) -> Object:
    resource, _, sub = right.resource.partition("/")
    wanted = {
        "group": right.group, "resource": resource, "subresource": sub, "verb": right.verb,
        "namespace": namespace, "name": name,
    }  # fmt: skip
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user,
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": {key: value for key, value in wanted.items() if value},
        },
    }


def _documents(printed: str) -> list[Object]:
    """Return the JSON documents in kubectl's output: one after the other, or in one List."""
    found: list[Object] = []
    decoder, rest = json.JSONDecoder(), printed.strip()
    while rest:
        document, end = decoder.raw_decode(rest)
        found += document["items"] if document.get("kind") == "List" else [document]
        rest = rest[end:].strip()
    return found
