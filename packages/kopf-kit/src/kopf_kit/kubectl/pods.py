"""Whether the operator's replicas run, why one does not, and what to do about it."""

from __future__ import annotations

from typing import Any, NamedTuple

from kopf_kit.kubectl import client, subject
from kopf_kit.kubectl.findings import FAILS, WAITS, WELL, Finding
from kopf_kit.kubectl.installation import Operator
from kopf_kit.kubectl.survey import RELEASE, Trouble, ended, is_ready, trouble
from kopf_kit.kubectl.text import Text

_LOGS = "kubectl -n {namespace} logs {pod}"
_DESCRIBE = "`kubectl -n {namespace} describe pod {pod}`"
#: For the reason of a Pod whose node the cluster has lost.
LOST = "NodeNotReady"


class Advice(NamedTuple):
    """What to do about a Pod with one of these reasons; may have {namespace}, {pod} and {node}."""

    reasons: tuple[str, ...]
    todo: Text


ADVICE = (
    Advice(
        (
            "ErrImagePull",
            "ImagePullBackOff",
            "RegistryUnavailable",
            "ImageInspectError",
            "InvalidImageName",
            "ErrImageNeverPull",
        ),
        Text(
            "Set the chart's values image.* to an image that the nodes can pull, and "
            "imagePullSecrets where the registry asks for a login.",
            "차트의 값 image.*를 노드가 받을 수 있는 이미지로 바꾸십시오. 레지스트리가 로그인을 "
            "요구하면 imagePullSecrets도 지정하십시오.",
        ),
    ),
    Advice(
        ("OOMKilled",),
        Text(
            "Raise the chart's value resources.limits.memory.",
            "차트의 값 resources.limits.memory를 늘리십시오.",
        ),
    ),
    Advice(
        (
            "CrashLoopBackOff",
            "Error",
            "Completed",
            "ContainerCannotRun",
            "StartError",
            "RunContainerError",
        ),
        Text(
            f"The last line of its log says what to do: `{_LOGS} --previous`.",
            f"로그의 마지막 줄에 할 일이 있습니다: `{_LOGS} --previous`.",
        ),
    ),
    Advice(
        ("Unschedulable",),
        Text(
            "The details say what each node lacks: uncordon one (`kubectl uncordon NODE`), bring "
            "back one that is lost, make room, or set the chart's values nodeSelector and "
            "tolerations.",
            "노드마다 무엇이 부족한지 자세한 내용에 있습니다. uncordon하거나"
            "(`kubectl uncordon NODE`), 잃은 노드를 복구하거나, 여유를 만들거나, 차트의 값 "
            "nodeSelector와 tolerations를 지정하십시오.",
        ),
    ),
    Advice(
        (LOST,),
        Text(
            "Bring the node back. If it is lost for good, delete it, and the Pod moves to another: "
            "`kubectl delete node {node}`.",
            "노드를 복구하십시오. 복구할 수 없다면 노드를 삭제하십시오. 파드가 다른 노드로 "
            "옮겨집니다: `kubectl delete node {node}`.",
        ),
    ),
    Advice(
        ("ContainersNotReady",),
        Text(
            "It runs, but is not ready. Its log says what it waits for, such as the CRD or a "
            f"right: `{_LOGS}`.",
            "실행 중이지만 준비되지 않았습니다. CRD나 권한처럼 기다리는 것이 로그에 있습니다: "
            f"`{_LOGS}`.",
        ),
    ),
    Advice(
        ("FailedCreate",),
        Text(
            "The details say what refuses its Pod: a quota, Pod Security or an admission webhook.",
            "파드를 거부한 것이 자세한 내용에 있습니다. 쿼터나 파드 시큐리티, 어드미션 웹훅입니다.",
        ),
    ),
)
_OTHER = Text(
    f"Wait a moment. If it stays, the end of {_DESCRIBE} says what it waits for.",
    f"잠시 기다리십시오. 계속되면 {_DESCRIBE}의 끝에서 기다리는 것을 확인하십시오.",
)


def advice(reason: str) -> Text:
    """Return what to do about an operator's Pod that does not run for this reason."""
    return next((case.todo for case in ADVICE if reason in case.reasons), _OTHER)


Object = dict[str, Any]

#: Number of a Pod's restarts from which they are reported.
MANY = 3

_UP = "kubectl -n {namespace} scale deployment/{name} --replicas=1"
_PREVIOUS_LOGS = "kubectl -n {namespace} logs deployment/{name} --previous"


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
    return str((pod.get("spec") or {}).get("nodeName") or "")


def _template(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get("pod-template-hash", ""))
