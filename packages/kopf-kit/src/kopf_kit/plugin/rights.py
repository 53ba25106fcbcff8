"""The rights that the operator needs, and which of them the cluster refuses."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from kopf_kit.plugin import subject
from kopf_kit.plugin.kubectl import Kubectl
from kopf_kit.plugin.operators import Operator
from kopf_kit.plugin.subject import Right

Object = dict[str, Any]


class Question(NamedTuple):
    """Whether an account has a right, in a namespace or in all, to an object or to all."""

    account: str
    right: Right
    namespace: str = ""
    name: str = ""


#: A test compares them with the chart's roles.
LEASE = tuple(Right("coordination.k8s.io", "leases", verb) for verb in ("get", "update", "create"))
SELECTING = tuple(Right("", "namespaces", verb) for verb in ("list", "watch"))
#: Maximum number of namespaces to check: each takes one request per right.
MAX_NAMESPACES = 10
#: The largest number of questions to a kubectl: it sends so many requests without a pause.
BATCH = 300


def missing(kubectl: Kubectl, operator: Operator, namespaces: list[str]) -> list[str]:
    """Return the rights that an operator lacks, with the namespace; raise `KubectlError`.

    Without namespaces, it checks the cluster-wide rights.
    """
    account = operator.account
    questions = [
        Question(account, right, namespace, right.name)
        for namespace in (namespaces or [""])[:MAX_NAMESPACES]
        for right in subject.current().rights
    ]
    if operator.selector:
        questions += [Question(account, right) for right in SELECTING]
    if operator.elects:
        where, name = operator.lease_namespace, operator.lease_name
        questions += [
            Question(account, right, where, "" if right.verb == "create" else name)
            for right in LEASE
        ]
    return [
        f"{question.right} ({question.namespace or '*'})"
        for question, allowed in zip(questions, answers(kubectl, questions))
        if not allowed
    ]


def answers(kubectl: Kubectl, questions: list[Question]) -> list[bool]:
    """Return the API server's answers; raise `KubectlError`."""
    allowed: list[bool] = []
    flags = ("--validate=false", "--output=json", "--filename=-")
    for start in range(0, len(questions), BATCH):
        reviews = [_review(*question) for question in questions[start : start + BATCH]]
        printed = kubectl.ask("create", *flags, send=_list(reviews))
        allowed += [bool(answer["status"].get("allowed")) for answer in _documents(printed)]
    return allowed


def _list(items: list[Object]) -> Object:
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _review(user: str, right: Right, namespace: str, name: str) -> Object:
    resource, _, sub = right.resource.partition("/")
    attributes = {
        "group": right.group,
        "resource": resource,
        "subresource": sub,
        "verb": right.verb,
        "namespace": namespace,
        "name": name,
    }
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user,
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": {key: value for key, value in attributes.items() if value},
        },
    }


def _documents(printed: str) -> list[Object]:
    """Return the JSON documents in kubectl's output: one after the other, or in one List."""
    documents: list[Object] = []
    decoder, rest = json.JSONDecoder(), printed.strip()
    while rest:
        document, end = decoder.raw_decode(rest)
        documents += document["items"] if document.get("kind") == "List" else [document]
        rest = rest[end:].strip()
    return documents
