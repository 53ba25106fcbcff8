"""Which Deployments that look like an operator can be trusted to be one.

Whoever may edit a namespace can write all of this there: a copy of the operator's Deployment, its
labels, its Lease, a Secret with a Helm release. So none of it counts by itself. What they cannot
write are objects without a namespace, and rights in namespaces that they do not administer:

- The CRD, a ClusterRole or a ClusterRoleBinding names the operator: its Helm release, its
  ServiceAccount, or the namespace that OLM installed it in. This holds even if it lost its rights.
- The operator's ServiceAccount may write the status of every object.
- It may do so in namespaces that the operator is configured to serve. Their administrators gave it
  that right, and may have installed it: it counts for these namespaces only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from kopf_kit.plugin import names, rights, subject
from kopf_kit.plugin.kubectl import Kubectl, KubectlError
from kopf_kit.plugin.operators import Operator, is_operator
from kopf_kit.plugin.rights import Question

Object = dict[str, Any]

#: The label of all objects of the chart, unless its value nameOverride changes it.
NAME = "app.kubernetes.io/name"
#: Helm's annotations with the name and the namespace of the release.
RELEASE, RELEASE_NAMESPACE = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"
#: The prefix of OLM's label with the package and its namespace, which it cuts to this length.
OLM_LABEL, OLM_SIZE = "operators.coreos.com/", 63
CRDS = "customresourcedefinitions.apiextensions.k8s.io"
ROLES = "clusterroles.rbac.authorization.k8s.io,clusterrolebindings.rbac.authorization.k8s.io"
#: The largest number of Deployments in a namespace to ask about.
MAX_DEPLOYMENTS = 5


def label() -> str:
    """Return the selector of the chart's objects."""
    return f"{NAME}={subject.current().name}"


class Sorted(NamedTuple):
    """The operators, and the Deployments that only look like one, as NAMESPACE/NAME."""

    operators: list[Operator]
    ignored: list[str]


def sort(kubectl: Kubectl, deployments: list[Object]) -> Sorted:
    """Tell operators from Deployments that only look like one; raise `KubectlError`."""
    alike = [
        Operator(deployment, [], None)
        for deployment in deployments
        if _named(deployment) and is_operator(deployment)
    ]
    named = _named_by_the_cluster(kubectl) if alike else set()
    vouched = [operator for operator in alike if named & {*_identities(operator)}]
    unvouched = [operator for operator in alike if operator not in vouched]
    counts: Counter[str] = Counter()
    candidates = []
    for operator in unvouched:
        counts[operator.namespace] += 1
        candidates += [operator] * (counts[operator.namespace] <= MAX_DEPLOYMENTS)
    try:
        granted = _granted(kubectl, candidates)
    except KubectlError as error:
        if error.key != "forbidden" or not vouched:
            raise
        granted = []
    ignored = {operator.title for operator in unvouched} - {operator.title for operator in granted}
    return Sorted([*vouched, *granted], sorted(ignored))


def _named(deployment: Object) -> bool:
    meta = deployment["metadata"]
    return names.is_name(meta["name"]) and names.is_namespace(meta["namespace"])


def _identities(operator: Operator) -> Iterator[tuple[str, ...]]:
    """Yield by what an object of the cluster may name an operator."""
    yield "account", operator.account
    yield "olm", f"{subject.current().name}.{operator.namespace}"[:OLM_SIZE].rstrip("-_.")
    release = (operator.deployment["metadata"].get("annotations") or {}).get(RELEASE)
    if release:  # the namespace is the Deployment's own, whatever its annotation says
        yield "release", operator.namespace, str(release)


def _named_by_the_cluster(kubectl: Kubectl) -> set[tuple[str, ...]]:
    """Return what the CRD, the ClusterRoles and their bindings name, as far as one may look."""
    identities: set[tuple[str, ...]] = set()
    try:
        crds = [kubectl.get(CRDS, kind.resource) for kind in subject.current().kinds]
        for manifest in [*filter(None, crds), *kubectl.list(ROLES, f"--selector={label()}")]:
            identities.update(_names(manifest))
    except KubectlError as error:
        if error.key != "forbidden":
            raise
    return identities


def _names(manifest: Object) -> Iterator[tuple[str, ...]]:
    labels = manifest["metadata"].get("labels") or {}
    for label in labels:
        if label.startswith(OLM_LABEL):
            yield "olm", label[len(OLM_LABEL) :]
    if labels.get(NAME) != subject.current().name:  # as the CRD of the chart that has nothing else
        return
    annotations = manifest["metadata"].get("annotations") or {}
    yield "release", annotations.get(RELEASE_NAMESPACE, ""), annotations.get(RELEASE, "")
    # The operator's own binding is called as its role.
    if (manifest.get("roleRef") or {}).get("name") == manifest["metadata"]["name"]:
        for bound in manifest.get("subjects") or ():
            if bound["kind"] == "ServiceAccount":
                account = f"system:serviceaccount:{bound.get('namespace', '')}:{bound['name']}"
                yield "account", account


def _granted(kubectl: Kubectl, operators: list[Operator]) -> list[Operator]:
    """Return the operators that may write the status of objects, and where they may."""
    pairs = [
        (operator, namespace)
        for operator in operators
        for namespace in ["", *filter(names.is_namespace, operator.named[: rights.MAX_NAMESPACES])]
    ]
    writes = subject.current().writes
    answers = rights.answers(
        kubectl, [Question(operator.account, writes, where) for operator, where in pairs]
    )
    granted = []
    for operator in operators:
        where = [place for (asker, place), yes in zip(pairs, answers) if yes and asker is operator]
        if where:
            granted.append(operator._replace(only=None if "" in where else tuple(where)))
    return granted
