"""The operators of a cluster, with their settings, Pods and Leases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kubectl_message.kubectl import Kubectl, KubectlError
from kubectl_message.messages import age, ready

Object = dict[str, Any]

#: The label of every operator's Deployment, unless the chart's nameOverride changes it.
LABEL = "app.kubernetes.io/name=message-operator"
#: The prefix of the operator's environment variables, and a flag that the chart always sets.
PREFIX, FLAG = "MESSAGE_OPERATOR_", "--message-image="
#: OLM sets this annotation on the operator's Pods to the namespaces to serve.
OLM = "olm.targetNamespaces"
#: Reasons of a container that is about to start.
STARTING = ("PodInitializing", "ContainerCreating")
#: Seconds for which the former end of a container that runs again explains that it is not ready.
RECENT = 600.0


class Operator(NamedTuple):
    """An installed operator: its Deployment, Pods and Lease."""

    deployment: Object
    pods: list[Object]
    #: None if it elects no leader or has no Lease yet.
    lease: Object | None
    #: The nodes that are not ready, of those with Pods that are not.
    lost: tuple[str, ...] = ()

    @property
    def namespace(self) -> str:
        """The namespace that it is installed in."""
        return str(self.deployment["metadata"]["namespace"])

    @property
    def name(self) -> str:
        """The name of its Deployment."""
        return str(self.deployment["metadata"]["name"])

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
        return setting(self.deployment, "lease-name") or "message-operator"

    @property
    def selector(self) -> str:
        """The label selector of the namespaces that it serves; empty if it uses none."""
        return setting(self.deployment, "namespace-selector")

    @property
    def namespaces(self) -> list[str]:
        """The namespaces that it is configured to serve; empty for all, or with a selector."""
        arguments, env = _container(self.deployment)
        named = [a.partition("=")[2] for a in arguments if a.startswith("--namespace=")]
        if named or "--all-namespaces" in arguments:
            return named
        template = self.deployment["spec"]["template"]["metadata"]
        told = env.get("WATCH_NAMESPACE") or (template.get("annotations") or {}).get(OLM) or ""
        return [name.strip() for name in told.split(",") if name.strip()]


def look(kubectl: Kubectl) -> list[Operator]:
    """Return the installed operators; raise `KubectlError`."""
    found = kubectl.list("deployments.apps", f"--selector={LABEL}", everywhere=True)
    if not any(_is_operator(deployment) for deployment in found):
        found = kubectl.list("deployments.apps", everywhere=True)
    return [_operator(kubectl, one) for one in found if _is_operator(one)]


def _operator(kubectl: Kubectl, deployment: Object) -> Operator:
    namespace = deployment["metadata"]["namespace"]
    there = Kubectl(kubectl.options, namespace)
    labels = deployment["spec"]["selector"].get("matchLabels") or {}
    chosen = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    pods = there.list("pods", f"--selector={chosen}")
    operator = Operator(deployment, pods, None, tuple(_lost(kubectl, pods)))
    if not operator.elects:
        return operator
    where = setting(deployment, "lease-namespace") or namespace
    lease = kubectl.get("leases.coordination.k8s.io", operator.lease_name, where)
    return operator._replace(lease=lease)


def _lost(kubectl: Kubectl, pods: list[Object]) -> Iterator[str]:
    """Yield the nodes of Pods that are not ready which are not ready themselves."""
    names = {(pod.get("spec") or {}).get("nodeName") for pod in pods if not is_ready(pod)}
    for name in sorted(name for name in names if name):
        try:
            node = kubectl.get("nodes", name)
        except KubectlError as error:
            if error.key != "forbidden":
                raise
            return
        if node is not None and ready(node.get("status") or {}).get("status") != "True":
            yield name


def _is_operator(deployment: Object) -> bool:
    arguments, env = _container(deployment)
    return any(a.startswith(FLAG) for a in arguments) or any(v.startswith(PREFIX) for v in env)


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
    return env.get(PREFIX + flag.upper().replace("-", "_"), "")


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
