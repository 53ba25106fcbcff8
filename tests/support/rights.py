"""The operator's rights, as its roles grant them and as the API server reports them."""

import itertools
from collections.abc import Iterable
from typing import Any

from chart import helm
from kopf_kit.kubectl.subject import Right

Raw = dict[str, Any]

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"


def rights(rules: Iterable[Raw]) -> set[Right]:
    """Return the single rights that rules grant."""
    return {
        Right(*parts)
        for rule in rules
        for parts in itertools.product(
            rule["apiGroups"], rule["resources"], rule["verbs"], rule.get("resourceNames") or [""]
        )
    }


def bound_roles(*, release: str = helm.RELEASE, **values: object) -> list[Raw]:
    """Return the roles that the chart binds to the operator."""
    manifests = helm.render(values, release=release)
    bound = {(m["roleRef"]["kind"], m["roleRef"]["name"]) for m in manifests if "roleRef" in m}
    return [m for m in manifests if (m["kind"], m["metadata"]["name"]) in bound]


def granted(roles: Iterable[Raw], *kinds: str) -> set[Right]:
    """Return the rights that roles of these kinds grant."""
    return {right for role in roles if role["kind"] in kinds for right in rights(role["rules"])}


def review(namespace: str) -> Raw:
    """Return a SelfSubjectRulesReview, which asks for one's own rights in a namespace."""
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }


def told(review: Raw) -> set[Right]:
    """Return the rights in the API server's answer."""
    return rights(review["status"]["resourceRules"])
