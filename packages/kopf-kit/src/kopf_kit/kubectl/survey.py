"""The operators of a cluster with their Pods and Leases, and which of them can be trusted.

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

import contextlib
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from kopf_kit.kubectl import client, subject
from kopf_kit.kubectl.client import ForbiddenError, Kubectl, Question
from kopf_kit.kubectl.status import age, ready

Object = dict[str, Any]

#: OLM sets this annotation on the operator's Pods to the namespaces to serve.
OLM = "olm.targetNamespaces"


class Operator(NamedTuple):
    """An installed operator: its Deployment, Pods and Lease."""

    deployment: Object
    pods: list[Object]
    #: None if it elects no leader or has no Lease yet.
    lease: Object | None
    #: The nodes that are not ready, of those with Pods that are not.
    lost: tuple[str, ...] = ()
    #: The namespaces whose administrators vouch for it; None if one of the cluster's does.
    only: tuple[str, ...] | None = None

    @property
    def namespace(self) -> str:
        """The namespace that it is installed in."""
        return str(self.deployment["metadata"]["namespace"])

    @property
    def name(self) -> str:
        """The name of its Deployment."""
        return str(self.deployment["metadata"]["name"])

    @property
    def title(self) -> str:
        """What a finding calls it."""
        return f"{self.namespace}/{self.name}"

    @property
    def version(self) -> str:
        """Its version, or empty if its Deployment does not say."""
        labels = self.deployment["metadata"].get("labels") or {}
        return str(labels.get("app.kubernetes.io/version", ""))

    @property
    def account(self) -> str:
        """Its user name at the API server."""
        spec = self.deployment["spec"]["template"]["spec"]
        name = spec.get("serviceAccountName") or "default"
        return f"system:serviceaccount:{self.namespace}:{name}"

    @property
    def elects(self) -> bool:
        """Whether its replicas elect a leader."""
        return setting(self.deployment, "leader-elect").lower() == "true"

    @property
    def lease_name(self) -> str:
        """The name of the Lease."""
        return setting(self.deployment, "lease-name") or subject.current().name

    @property
    def lease_namespace(self) -> str:
        """The namespace of the Lease."""
        namespace = setting(self.deployment, "lease-namespace") if self.only is None else ""
        return namespace or self.namespace

    @property
    def selector(self) -> str:
        """The label selector of the namespaces that it serves; empty if it uses none."""
        return setting(self.deployment, "namespace-selector") if self.only is None else ""

    @property
    def namespaces(self) -> list[str]:
        """The namespaces that it is to serve; empty for all, or with a selector."""
        return self.named if self.only is None else [*self.only]

    @property
    def named(self) -> list[str]:
        """The namespaces that it is configured to serve, trusted or not."""
        arguments, env = _container(self.deployment)
        named = [a.partition("=")[2] for a in arguments if a.startswith("--namespace=")]
        if not named and "--all-namespaces" not in arguments:
            template = self.deployment["spec"]["template"]["metadata"]
            text = env.get("WATCH_NAMESPACE") or (template.get("annotations") or {}).get(OLM) or ""
            named = [name.strip() for name in text.split(",") if name.strip()]
        return named


def is_operator(deployment: Object) -> bool:
    """Return whether a Deployment looks like an operator's."""
    ours = subject.current()
    arguments, env = _container(deployment)
    image = str(deployment["spec"]["template"]["spec"]["containers"][0].get("image", ""))
    by_image = re.split("[:@]", image.rpartition("/")[2])[0] == ours.name
    return by_image or any(word.startswith(ours.signs) for word in (*arguments, *env))


def _container(deployment: Object) -> tuple[list[str], dict[str, str]]:
    """Return the arguments and the environment of the first container, which is the operator's."""
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    arguments = [str(argument) for argument in container.get("args") or ()]
    return arguments, {v["name"]: v.get("value", "") for v in container.get("env") or ()}


def setting(deployment: Object, flag: str) -> str:
    """Return the value of a flag or of its environment variable; empty if neither is set."""
    arguments, env = _container(deployment)
    for argument in reversed(arguments):
        name, _, value = argument.partition("=")
        if name == f"--{flag}":
            return value or "true"
    return env.get(subject.current().variables + flag.upper().replace("-", "_"), "")


#: The label of all objects of the chart, unless its value nameOverride changes it.
NAME = "app.kubernetes.io/name"
#: Helm's annotations with the name and the namespace of the release.
RELEASE, RELEASE_NAMESPACE = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"
#: The prefix of OLM's label with the package and its namespace, which it cuts to this length.
OLM_LABEL, OLM_SIZE = "operators.coreos.com/", 63
CRDS = "customresourcedefinitions.apiextensions.k8s.io"
ROLES = "clusterroles.rbac.authorization.k8s.io,clusterrolebindings.rbac.authorization.k8s.io"
#: Maximum number of namespaces to check: each takes one request per right.
MAX_NAMESPACES = 10
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
    except ForbiddenError:
        if not vouched:
            raise
        granted = []
    ignored = {operator.title for operator in unvouched} - {operator.title for operator in granted}
    return Sorted([*vouched, *granted], sorted(ignored))


def _named(deployment: Object) -> bool:
    meta = deployment["metadata"]
    return client.is_name(meta["name"]) and client.is_namespace(meta["namespace"])


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
    with contextlib.suppress(ForbiddenError):
        crds = [kubectl.get(CRDS, kind.resource) for kind in subject.current().kinds]
        for manifest in [*filter(None, crds), *kubectl.list(ROLES, f"--selector={label()}")]:
            identities.update(_names(manifest))
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
        for namespace in ["", *filter(client.is_namespace, operator.named[:MAX_NAMESPACES])]
    ]
    writes = subject.current().writes
    answers = client.answers(
        kubectl, [Question(operator.account, writes, where) for operator, where in pairs]
    )
    granted = []
    for operator in operators:
        where = [place for (asker, place), yes in zip(pairs, answers) if yes and asker is operator]
        if where:
            granted.append(operator._replace(only=None if "" in where else tuple(where)))
    return granted


#: Reasons of a container that is about to start.
STARTING = ("PodInitializing", "ContainerCreating")
#: Seconds for which the former end of a container that runs again explains that it is not ready.
RECENT = 600.0


def look(kubectl: Kubectl) -> Sorted:
    """Return the installed operators, and what only looks like one; raise `KubectlError`."""
    labelled = kubectl.list("deployments.apps", f"--selector={label()}", everywhere=True)
    survey = sort(kubectl, labelled)
    if all(operator.only is not None for operator in survey.operators):
        # The chart's label can be changed.
        survey = sort(kubectl, kubectl.list("deployments.apps", everywhere=True))
    return survey._replace(operators=[_seen(kubectl, operator) for operator in survey.operators])


def _seen(kubectl: Kubectl, operator: Operator) -> Operator:
    """Return an operator with its Pods, its Lease and the nodes that it lost."""
    labels = operator.deployment["spec"]["selector"].get("matchLabels") or {}
    chosen = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    in_namespace = Kubectl(kubectl.options, operator.namespace)
    pods = in_namespace.list("pods", f"--selector={chosen}") if client.is_selector(chosen) else []
    lease = None
    if operator.elects:
        where = operator.lease_namespace
        lease = kubectl.get("leases.coordination.k8s.io", operator.lease_name, where)
    return operator._replace(pods=pods, lease=lease, lost=tuple(_lost(kubectl, pods)))


def _lost(kubectl: Kubectl, pods: list[Object]) -> Iterator[str]:
    """Yield the nodes that are not ready and have Pods that are not ready."""
    nodes = {(pod.get("spec") or {}).get("nodeName") for pod in pods if not is_ready(pod)}
    for name in sorted(name for name in nodes if name):
        try:
            node = kubectl.get("nodes", name)
        except ForbiddenError:
            return
        if node is not None and ready(node.get("status") or {}).get("status") != "True":
            yield name


def is_ready(pod: Object) -> bool:
    """Return whether a Pod is ready and not being deleted."""
    well = ready(pod.get("status") or {}).get("status") == "True"
    return well and "deletionTimestamp" not in pod["metadata"]


class Trouble(NamedTuple):
    """Why a Pod does not run."""

    reason: str
    message: str = ""

    def __str__(self) -> str:
        return ": ".join(part for part in self if part)


def trouble(pod: Object) -> Trouble:
    """Return why a Pod does not run, according to its containers, the scheduler or its kubelet."""
    status = pod.get("status") or {}
    for container in _containers(pod):
        state = container.get("state") or {}
        now = state.get("waiting") or state.get("terminated") or {}
        if now.get("reason") in (None, *STARTING):
            continue
        last = _last_end(container)
        if now["reason"] == "CrashLoopBackOff" and last.get("reason") == "OOMKilled":
            now = last
        return Trouble(now["reason"], now.get("message") or container["name"])
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return Trouble(str(condition.get("reason")), str(condition.get("message")))
    if status.get("reason"):  # such as Evicted
        return Trouble(status["reason"], status.get("message") or "")
    recent = ended(pod, RECENT)
    condition = ready(status)
    if recent is not None:
        return recent
    if status.get("phase") == "Running" and condition.get("status") == "False":
        return Trouble("ContainersNotReady", condition.get("message") or "")
    return Trouble(str(status.get("phase", "")))


def ended(pod: Object, within: float = float("inf")) -> Trouble | None:
    """Return how a container of a Pod ended last, or None if none did within these seconds."""
    for container in _containers(pod):
        last = _last_end(container)
        if last.get("reason") and (age(last.get("finishedAt") or "") or 0) < within:
            return Trouble(last["reason"], last.get("message") or container["name"])
    return None


def _containers(pod: Object) -> list[Object]:
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _last_end(container: Object) -> Object:
    return (container.get("lastState") or {}).get("terminated") or {}
