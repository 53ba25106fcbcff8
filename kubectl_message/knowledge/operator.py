"""Reasons that the operator itself gives, and what to do about them."""

from __future__ import annotations

from kopf_kit.kubectl.text import Text
from kubectl_message.knowledge.entry import PENDING, Entry, again

#: What to do about a bug in the operator.
_REPORT = Text(
    "Report it with the details and the Message: https://github.com/myorg/message-operator/issues.",
    "자세한 내용과 Message를 함께 제보하십시오: https://github.com/myorg/message-operator/issues.",
)

ENTRIES = (
    Entry(
        ("Conflict",),
        Text(
            "somebody else's Pod already has the name {pod}",
            "이름이 {pod}인 다른 파드가 이미 있습니다",
        ),
        again(
            "Delete that Pod (`kubectl -n {namespace} delete pod {pod}`), or give the Message "
            "another name.",
            "그 파드를 삭제하거나(`kubectl -n {namespace} delete pod {pod}`) Message에 다른 이름을 "
            "지정하십시오.",
        ),
    ),
    Entry(
        ("AdmissionChanged",),
        Text(
            "a webhook or policy removes metadata by which the operator recognizes its Pod, or "
            "changes the Pod's text",
            "오퍼레이터가 파드를 식별하는 데 필요한 메타데이터를 웹훅이나 정책이 제거했거나, "
            "파드의 텍스트를 바꾸었습니다",
        ),
        Text(
            "Exempt Pods labelled app.kubernetes.io/managed-by=message-operator from it, then run "
            "`kubectl -n {namespace} delete pod {pod}`.",
            "app.kubernetes.io/managed-by=message-operator 레이블이 있는 파드를 제외하도록 설정한 "
            "뒤에 실행하십시오: `kubectl -n {namespace} delete pod {pod}`.",
        ),
    ),
    Entry(
        ("KindNotServed",),
        Text("the operator cannot watch Pods", "오퍼레이터가 파드를 감시할 수 없습니다"),
        again(
            "The details say why; restore the right to list and watch Pods.",
            "이유는 자세한 내용에 있습니다. 파드를 조회하고 감시할 권한을 다시 부여하십시오.",
        ),
        runbook="MessageOperatorUnserved",
    ),
    Entry(
        ("NamespaceNotServed",),
        Text(
            "the operator does not serve the namespace of its Pod",
            "오퍼레이터가 파드의 네임스페이스를 처리하지 않습니다",
        ),
        again(
            "The details say why: give the namespace the labels, add it to the chart's value "
            "watchNamespaces, or restore the right.",
            "이유는 자세한 내용에 있습니다. 네임스페이스에 레이블을 설정하거나, 차트의 값 "
            "watchNamespaces에 추가하거나, 권한을 다시 부여하십시오.",
        ),
        runbook="MessageOperatorUnserved",
    ),
    Entry(
        ("BackOff",),
        Text(
            "its Pod was replaced many times in a row, so the operator waits before it tries again",
            "파드가 여러 번 연달아 교체되어 오퍼레이터가 다시 만들기 전에 기다리고 있습니다",
        ),
        again(
            "The details say why it was replaced: something keeps altering or ending it.",
            "교체된 이유는 자세한 내용에 있습니다. 무언가가 파드를 계속 바꾸거나 종료하고 "
            "있습니다.",
        ),
        runbook=PENDING,
    ),
    Entry(
        ("InvalidPlan",),
        Text(
            "the operator planned a Pod that cannot exist, which is a bug in the operator",
            "오퍼레이터가 만들 수 없는 파드를 계획했습니다. 오퍼레이터의 결함입니다",
        ),
        _REPORT,
        runbook="MessageOperatorReconcileErrors",
    ),
    Entry(
        ("InvalidStatus",),
        Text(
            "the operator failed when it computed this status, which is a bug in the operator",
            "오퍼레이터가 이 상태를 계산하다가 실패했습니다. 오퍼레이터의 결함입니다",
        ),
        _REPORT,
        runbook="MessageOperatorReconcileErrors",
    ),
    Entry(
        ("Unreadable",),
        Text(
            "the Message or its Pod does not match the definition of its kind, so the operator "
            "skips it",
            "Message나 파드가 종류(kind)의 정의와 달라 오퍼레이터가 처리하지 않습니다",
        ),
        Text(
            "Correct the field that the details name. If the API server accepts such an object, "
            "the CRD is not this version's: `helm upgrade` restores it.",
            "자세한 내용에 나온 필드를 고치십시오. API 서버가 그런 오브젝트를 받아들인다면 CRD가 "
            "이 "
            "버전의 것이 아닙니다. `helm upgrade`로 복구하십시오.",
        ),
        runbook="MessageOperatorUnreadableObjects",
    ),
    Entry(
        ("Terminating",),
        Text(
            "it is being deleted, and something holds it",
            "Message를 삭제하는 중이지만 무언가가 붙잡고 있습니다",
        ),
        Text(
            "The details name the finalizer: ask its owner.",
            "자세한 내용에 나온 파이널라이저의 담당자에게 문의하십시오.",
        ),
    ),
    Entry(
        ("PodMissing",),
        Text("its Pod is about to be created", "파드가 곧 만들어집니다"),
        Text(
            "Wait a moment; if this lasts, run `kubectl message doctor`.",
            "잠시 기다리십시오. 계속되면 `kubectl message doctor`를 실행하십시오.",
        ),
        runbook=PENDING,
    ),
    Entry(
        ("PodTerminating",),
        Text("its former Pod is about to end", "이전 파드가 곧 종료됩니다"),
        Text("Wait a moment.", "잠시 기다리십시오."),
        runbook=PENDING,
    ),
    Entry(
        ("PodStuckTerminating",),
        Text("a finalizer holds its former Pod", "파이널라이저가 이전 파드를 붙잡고 있습니다"),
        Text(
            "Ask the owner of the finalizer that the details name to remove it.",
            "자세한 내용에 나온 파이널라이저의 담당자에게 제거를 요청하십시오.",
        ),
        pattern=r"finalizer",
    ),
    Entry(
        ("PodStuckTerminating",),
        Text(
            "its former Pod does not end: the node does not confirm it",
            "노드가 종료를 확인하지 않아 이전 파드가 남아 있습니다",
        ),
        Text(
            "If the node is lost, delete the Node, or the Pod by force: "
            "`kubectl -n {namespace} delete pod {pod} --force`.",
            "노드가 사라졌다면 노드를 삭제하거나 파드를 강제로 삭제하십시오: "
            "`kubectl -n {namespace} delete pod {pod} --force`.",
        ),
    ),
)
