"""The operators of a cluster: how they are set, their Pods, and the Lease that they lead by."""

from __future__ import annotations

from typing import Any, NamedTuple

from kubectl_message.kubectl import Kubectl
from kubectl_message.messages import ready

Object = dict[str, Any]

#: All of the operator's Deployments have it, unless the chart's nameOverride changes it.
LABEL = "app.kubernetes.io/name=message-operator"
#: What the operator's environment variables begin with, and one flag that the chart always sets.
PREFIX, FLAG = "MESSAGE_OPERATOR_", "--message-image="
#: OLM tells the operator by this annotation of its Pods which namespaces to serve.
OLM = "olm.targetNamespaces"


class Operator(NamedTuple):
    """An operator that is installed: its Deployment, Pods and Lease."""

    deployment: Object
    pods: list[Object]
    #: None where it elects no leader, or has no Lease yet.
    lease: Object | None

    @property
    def namespace(self) -> str:
        """Where it is installed."""
        return str(self.deployment["metadata"]["namespace"])

    @property
    def name(self) -> str:
        """The name of its Deployment."""
        return str(self.deployment["metadata"]["name"])

    @property
    def version(self) -> str:
        """Its version, empty where its Deployment does not tell."""
        labels = self.deployment["metadata"].get("labels") or {}
        return str(labels.get("app.kubernetes.io/version", ""))

    @property
    def account(self) -> str:
        """The user that it is for the API server."""
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
        """The labels that a namespace must have to be served; empty for no matter which."""
        return setting(self.deployment, "namespace-selector")

    @property
    def namespaces(self) -> list[str]:
        """The namespaces that it is told to serve; empty for all, or those of the selector."""
        arguments, env = _container(self.deployment)
        named = [a.partition("=")[2] for a in arguments if a.startswith("--namespace=")]
        if named or "--all-namespaces" in arguments:
            return named
        template = self.deployment["spec"]["template"]["metadata"]
        told = env.get("WATCH_NAMESPACE") or (template.get("annotations") or {}).get(OLM) or ""
        return [name.strip() for name in told.split(",") if name.strip()]


def look(kubectl: Kubectl) -> list[Operator]:
    """Return the operators that are installed; raise `KubectlError`."""
    found = kubectl.list("deployments.apps", f"--selector={LABEL}", everywhere=True)
    if not any(_is_operator(deployment) for deployment in found):
        found = kubectl.list("deployments.apps", everywhere=True)
    return [_operator(kubectl, one) for one in found if _is_operator(one)]


def _operator(kubectl: Kubectl, deployment: Object) -> Operator:
    namespace = deployment["metadata"]["namespace"]
    there = Kubectl(kubectl.options, namespace)
    labels = deployment["spec"]["selector"].get("matchLabels") or {}
    chosen = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    operator = Operator(deployment, there.list("pods", f"--selector={chosen}"), None)
    if not operator.elects:
        return operator
    where = setting(deployment, "lease-namespace") or namespace
    lease = kubectl.get("leases.coordination.k8s.io", operator.lease_name, where)
    return operator._replace(lease=lease)


def _is_operator(deployment: Object) -> bool:
    arguments, env = _container(deployment)
    return any(a.startswith(FLAG) for a in arguments) or any(v.startswith(PREFIX) for v in env)


def _container(deployment: Object) -> tuple[list[str], dict[str, str]]:
    """Return the arguments and the environment of the operator's container, the first one."""
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    arguments = [str(argument) for argument in container.get("args") or ()]
    return arguments, {v["name"]: v.get("value", "") for v in container.get("env") or ()}


def setting(deployment: Object, flag: str) -> str:
    """Return what a flag is set to, or its environment variable; empty where neither is."""
    arguments, env = _container(deployment)
    for argument in reversed(arguments):
        name, _, value = argument.partition("=")
        if name == f"--{flag}":
            return value or "true"
    return env.get(PREFIX + flag.upper().replace("-", "_"), "")


def is_ready(pod: Object) -> bool:
    """Tell whether a Pod is ready, and not about to end."""
    well = ready(pod.get("status") or {}).get("status") == "True"
    return well and "deletionTimestamp" not in pod["metadata"]


def trouble(pod: Object) -> str:
    """Return what a Pod says of why it does not run: its containers, else the scheduler."""
    status = pod.get("status") or {}
    containers = [
        *(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())
    ]  # fmt: skip
    for container in containers:
        for state in (container.get("state") or {}, container.get("lastState") or {}):
            for now in (state.get("waiting"), state.get("terminated")):
                if now and now.get("reason") not in (None, "PodInitializing", "ContainerCreating"):
                    return f"{now['reason']}: {now.get('message') or container['name']}"
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"{condition.get('reason')}: {condition.get('message')}"
    return str(status.get("phase", ""))
