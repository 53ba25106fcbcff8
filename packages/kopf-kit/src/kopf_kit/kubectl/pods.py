"""Whether the operator's replicas run, why one does not, and what to do about it."""

from __future__ import annotations

from typing import Any

from kopf_kit.kubectl import client, subject
from kopf_kit.kubectl.advice import FAILS, WAITS, WELL, Finding, is_called
from kopf_kit.kubectl.installation import Operator
from kopf_kit.kubectl.survey import RELEASE, Trouble, ended, is_ready, trouble
from kopf_kit.kubectl.text import Text

#: For the reason of a Pod whose node the cluster has lost.
LOST = "NodeNotReady"

Object = dict[str, Any]

#: Number of a Pod's restarts from which they are reported.
MANY = 3

_UP = "kubectl -n {namespace} scale deployment/{name} --replicas=1"
_PREVIOUS_LOGS = "kubectl -n {namespace} logs deployment/{name} --previous"


def advice(reason: str) -> Text:
    """Return what to do about an operator's Pod that does not run for this reason."""
    return next(entry.do for entry in subject.current().advice.pods if is_called(entry, reason))


def runs(operator: Operator) -> Finding:
    """Check whether the operator's replicas are ready."""
    wanted = operator.deployment["spec"].get("replicas", 1)
    count = sum(is_ready(pod) for pod in operator.pods)
    if not wanted:
        return Finding(
            FAILS,
            Text(
                "the operator is scaled to zero", "오퍼레이터의 레플리카가 0개로 설정되어 있습니다"
            ),
            Text(f"Start it: {_UP}", f"시작하십시오: {_UP}").format(**_words(operator)),
            runbook=subject.current().alert("Down"),
        )
    if not count:
        return _down(operator)
    changing = _rollout(operator)
    if changing is not None:
        return changing
    restarts = [
        status.get("restartCount", 0)
        for pod in operator.pods
        for status in (pod.get("status") or {}).get("containerStatuses") or ()
    ]
    if max(restarts, default=0) >= MANY:
        ends = [end for end in map(ended, operator.pods) if end is not None]
        todo = Text(f"See its last output: {_PREVIOUS_LOGS}", f"마지막 로그: {_PREVIOUS_LOGS}")
        if any(end.reason == "OOMKilled" for end in ends):
            todo = advice("OOMKilled")
        return Finding(
            WAITS,
            Text(
                "the operator was restarted {n} times", "오퍼레이터가 {n}번 다시 시작되었습니다"
            ).format(n=max(restarts)),
            todo.format(**_words(operator)),
            "; ".join(map(str, ends)),
            subject.current().alert("Restarting"),
        )
    numbers = {"count": count, "wanted": wanted}
    says = Text("{count} of {wanted} replicas are ready", "레플리카 {wanted}개 중 {count}개 준비됨")
    if count >= wanted:
        return Finding(WELL, says.format(**numbers))
    return _not_ready(operator, Finding(WAITS, says.format(**numbers)))


def _down(operator: Operator) -> Finding:
    says = Text("no replica of the operator is ready", "준비된 오퍼레이터 레플리카가 없습니다")
    return _not_ready(operator, Finding(FAILS, says, runbook=subject.current().alert("Down")))


def _rollout(operator: Operator) -> Finding | None:
    """Return the finding about a rollout whose new Pod is not ready, or None."""
    running = {_template(pod) for pod in operator.pods if is_ready(pod)}
    new = [pod for pod in _waiting(operator) if _template(pod) not in running]
    if not new and not _refused(operator):
        return None
    says = Text(
        "the Deployment's new Pod is not ready; the former one goes on working",
        "디플로이먼트의 새 파드가 준비되지 않았습니다. 이전 파드가 계속 일합니다",
    )
    finding = _not_ready(operator._replace(pods=new), Finding(WAITS, says))
    release = (operator.deployment["metadata"].get("annotations") or {}).get(RELEASE)
    if not client.is_name(release) or finding.todo is None:
        return finding
    back = f"`helm rollback {release} --namespace {operator.namespace}`."
    return finding._replace(
        todo=Text(f"{finding.todo.en} Or go back: {back}", f"{finding.todo.ko} 되돌리려면: {back}")
    )


def _not_ready(operator: Operator, finding: Finding) -> Finding:
    """Return a finding with why Pods are not ready, and what to do about the first of them."""
    pods = _waiting(operator) or [pod for pod in operator.pods if not is_ready(pod)]
    troubles = [_trouble(operator, pod) for pod in pods]
    if not troubles and _refused(operator):
        troubles = [Trouble("FailedCreate", _refused(operator))]
    reason = troubles[0].reason if troubles else ""
    todo = advice(reason).format(**_words(operator, pods[0] if pods else None))
    return finding._replace(todo=todo, detail="; ".join(map(str, troubles)))


def _waiting(operator: Operator) -> list[Object]:
    """Return the Pods that are to become ready."""
    return [
        pod
        for pod in operator.pods
        if not is_ready(pod)
        and "deletionTimestamp" not in pod["metadata"]
        and (pod.get("status") or {}).get("phase") not in ("Failed", "Succeeded")
    ]


def _trouble(operator: Operator, pod: Object) -> Trouble:
    node = _node(pod)
    return Trouble(LOST, node) if node in operator.lost else trouble(pod)


def _refused(operator: Operator) -> str:
    """Return why the Deployment can create no Pod, or an empty text."""
    conditions = (operator.deployment.get("status") or {}).get("conditions") or ()
    refused = (c for c in conditions if (c["type"], c["status"]) == ("ReplicaFailure", "True"))
    return "; ".join(str(c.get("message", "")) for c in refused)


def _words(operator: Operator, pod: Object | None = None) -> dict[str, str]:
    """Return the words to fill into the sentences about an operator, and about a Pod of it."""
    words = {"namespace": operator.namespace, "name": operator.name, "pod": operator.name}
    return words if pod is None else {**words, "pod": pod["metadata"]["name"], "node": _node(pod)}


def _node(pod: Object) -> str:
    name = (pod.get("spec") or {}).get("nodeName")
    return str(name) if client.is_name(name) else ""  # advice has it in a command


def _template(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get("pod-template-hash", ""))
