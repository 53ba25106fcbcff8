"""The meaning of each alert of the chart, and the first thing to do; docs/runbooks.md has the rest.

A test ensures that each title is the same as the runbook's.
"""

from __future__ import annotations

from typing import NamedTuple

from kopf_kit.kubectl.text import Text
from kubectl_message.knowledge.entry import HOME


class Alert(NamedTuple):
    """The entry for an alert."""

    name: str
    says: Text
    todo: Text


ALERTS = (
    Alert(
        "MessageOperatorApiErrors",
        Text(
            "The operator's API requests fail", "오퍼레이터가 API 서버에 보내는 요청이 실패합니다"
        ),
        Text(
            "Check the API server: `kubectl get --raw '/readyz?verbose'`. Look at NetworkPolicies "
            "and at admission webhooks that do not answer.",
            "API 서버의 상태를 확인하십시오: `kubectl get --raw '/readyz?verbose'`. "
            "네트워크폴리시와 "
            "응답하지 않는 어드미션 웹훅도 확인하십시오.",
        ),
    ),
    Alert(
        "MessageOperatorDown",
        Text("No operator runs", "실행 중인 오퍼레이터가 없습니다"),
        Text(
            "`kubectl message doctor` says what keeps it from running. If it runs, Prometheus does "
            "not reach it.",
            "실행되지 않는 이유는 `kubectl message doctor`가 알려 줍니다. 실행 중이라면 "
            "프로메테우스가 "
            "연결하지 못하는 것입니다.",
        ),
    ),
    Alert(
        "MessageOperatorForbidden",
        Text("The operator lacks a right that it needs", "오퍼레이터에 필요한 권한이 없습니다"),
        Text(
            "`kubectl message doctor` lists the missing rights; `helm upgrade` restores them.",
            "없는 권한은 `kubectl message doctor`가 알려 주며, `helm upgrade`로 복구할 수 "
            "있습니다.",
        ),
    ),
    Alert(
        "MessageOperatorMessagesFailed",
        Text("Messages cannot be printed", "출력하지 못하는 Message가 있습니다"),
        Text(
            "`kubectl message status -A` lists them, `kubectl message why NAME` says what to do.",
            "`kubectl message status -A`로 목록을 보고, `kubectl message why NAME`으로 할 일을 "
            "확인하십시오.",
        ),
    ),
    Alert(
        "MessageOperatorMessagesPending",
        Text("Messages wait for their Pods", "파드를 기다리는 Message가 있습니다"),
        Text(
            "`kubectl message status -A` lists them, `kubectl message why NAME` says what to do.",
            "`kubectl message status -A`로 목록을 보고, `kubectl message why NAME`으로 할 일을 "
            "확인하십시오.",
        ),
    ),
    Alert(
        "MessageOperatorNoLeader",
        Text("Operators run, but none leads", "실행 중인 오퍼레이터 가운데 리더가 없습니다"),
        Text(
            "`kubectl message doctor` shows the Lease and the rights to it.",
            "리스(Lease)와 그 권한은 `kubectl message doctor`가 알려 줍니다.",
        ),
    ),
    Alert(
        "MessageOperatorQueueStuck",
        Text("Messages wait, but no work is done", "Message가 대기 중이지만 처리되지 않습니다"),
        Text(
            "Restart the operator: nothing is lost. Then find out why the API server does not "
            "answer.",
            "오퍼레이터를 재시작하십시오. 데이터는 잃지 않습니다. 그다음 API 서버가 응답하지 않는 "
            "이유를 "
            "확인하십시오.",
        ),
    ),
    Alert(
        "MessageOperatorReconcileErrors",
        Text("Reconciles end in errors", "조정이 오류로 끝납니다"),
        Text(
            f"Report the traceback in its log, with the Message: {HOME}/issues",
            f"로그의 트레이스백을 Message와 함께 제보하십시오: {HOME}/issues",
        ),
    ),
    Alert(
        "MessageOperatorRestarting",
        Text("An operator restarts again and again", "오퍼레이터가 계속 다시 시작됩니다"),
        Text(
            "`kubectl message doctor` says how it ended. OOMKilled: raise resources.limits.memory.",
            "어떻게 종료되었는지 `kubectl message doctor`가 알려 줍니다. OOMKilled이면 "
            "resources.limits.memory를 늘리십시오.",
        ),
    ),
    Alert(
        "MessageOperatorResyncsFail",
        Text(
            "The operator cannot compare its watches with full lists",
            "감시(watch)한 내용을 전체 목록과 대조하지 못합니다",
        ),
        Text(
            "The log says why: look for `The resync of … failed`.",
            "이유는 로그에 있습니다. `The resync of … failed`를 찾으십시오.",
        ),
    ),
    Alert(
        "MessageOperatorUnreadableObjects",
        Text(
            "Objects that the operator cannot read", "오퍼레이터가 읽지 못하는 오브젝트가 있습니다"
        ),
        Text(
            "Correct the field that `kubectl message why NAME` names; `helm upgrade` restores the "
            "CRD of this version.",
            "`kubectl message why NAME`이 알려 주는 필드를 고치십시오. 이 버전의 CRD는 `helm "
            "upgrade`로 "
            "복구할 수 있습니다.",
        ),
    ),
    Alert(
        "MessageOperatorUnserved",
        Text(
            "The operator does not serve everything that it should",
            "오퍼레이터가 처리해야 할 것 가운데 처리하지 못하는 것이 있습니다",
        ),
        Text(
            "`kubectl message doctor` names the namespaces, the missing rights and the missing "
            "CRD.",
            "해당 네임스페이스와 없는 권한, 없는 CRD는 `kubectl message doctor`가 알려 줍니다.",
        ),
    ),
    Alert(
        "MessageOperatorWatchMisses",
        Text("Watches miss changes", "감시(watch)가 변경을 놓칩니다"),
        Text(
            "Find what cuts or holds back long requests between the operator and the API server: "
            "a proxy, a load balancer with a short idle timeout.",
            "오퍼레이터와 API 서버 사이에서 긴 요청을 끊거나 막는 것을 찾으십시오. 프록시나 유휴 "
            "시간제한이 짧은 로드 밸런서가 흔한 원인입니다.",
        ),
    ),
)
BY_NAME = {alert.name: alert for alert in ALERTS}
