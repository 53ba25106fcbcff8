"""The operators of a cluster, with their Pods and Leases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kopf_kit.plugin import names, trust
from kopf_kit.plugin.kubectl import Kubectl, KubectlError
from kopf_kit.plugin.objects import age, ready
from kopf_kit.plugin.operators import Operator
from kopf_kit.plugin.trust import Sorted

Object = dict[str, Any]

#: Reasons of a container that is about to start.
STARTING = ("PodInitializing", "ContainerCreating")
#: Seconds for which the former end of a container that runs again explains that it is not ready.
RECENT = 600.0


def look(kubectl: Kubectl) -> Sorted:
    """Return the installed operators, and what only looks like one; raise `KubectlError`."""
    labelled = kubectl.list("deployments.apps", f"--selector={trust.label()}", everywhere=True)
    survey = trust.sort(kubectl, labelled)
    if all(operator.only is not None for operator in survey.operators):
        # The chart's label can be changed.
        survey = trust.sort(kubectl, kubectl.list("deployments.apps", everywhere=True))
    return survey._replace(operators=[_seen(kubectl, operator) for operator in survey.operators])


def _seen(kubectl: Kubectl, operator: Operator) -> Operator:
    """Return an operator with its Pods, its Lease and the nodes that it lost."""
    labels = operator.deployment["spec"]["selector"].get("matchLabels") or {}
    chosen = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    in_namespace = Kubectl(kubectl.options, operator.namespace)
    pods = in_namespace.list("pods", f"--selector={chosen}") if names.is_selector(chosen) else []
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
        except KubectlError as error:
            if error.key != "forbidden":
                raise
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
