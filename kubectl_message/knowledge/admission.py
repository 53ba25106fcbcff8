"""Reasons for which the API server refuses a Pod, and what to do about them."""

from __future__ import annotations

from kopf_kit.kubectl.text import Text
from kubectl_message.knowledge.entry import Entry, again

ENTRIES = (
    Entry(
        ("Forbidden",),
        Text(
            "a quota of the namespace leaves no room for its Pod",
            "네임스페이스의 쿼터에 파드를 만들 여유가 없습니다",
        ),
        again(
            "Raise the quota, or delete what uses it up: "
            "`kubectl -n {namespace} describe resourcequota`.",
            "쿼터를 늘리거나 쿼터를 차지한 오브젝트를 삭제하십시오: "
            "`kubectl -n {namespace} describe resourcequota`.",
        ),
        pattern=r"exceeded quota",
    ),
    Entry(
        ("Forbidden",),
        Text(
            "a quota of the namespace requires resources that its Pod does not specify",
            "네임스페이스의 쿼터가 요구하는 리소스를 파드가 지정하지 않았습니다",
        ),
        Text(
            "Set the resources that the details name in the chart's value messagePod.resources.",
            "자세한 내용에 나온 항목을 차트의 값 messagePod.resources에 지정하십시오.",
        ),
        pattern=r"failed quota|must specify",
    ),
    Entry(
        ("Forbidden",),
        Text(
            "the Pod Security level of the namespace does not admit its Pod",
            "네임스페이스의 파드 시큐리티 수준이 파드를 허용하지 않습니다",
        ),
        Text(
            "By default the Pod meets `restricted`: remove what the details name from the chart's "
            "values messagePod.*SecurityContext.",
            "파드는 차트의 값 messagePod.*SecurityContext를 바꾸지 않으면 `restricted` 수준에 "
            "맞습니다. "
            "자세한 내용에 나온 설정을 그 값에서 빼십시오.",
        ),
        pattern=r"violates PodSecurity",
    ),
    Entry(
        ("Forbidden",),
        Text(
            "a LimitRange of the namespace does not admit the Pod's resources",
            "네임스페이스의 LimitRange가 파드의 리소스를 허용하지 않습니다",
        ),
        Text(
            "Set the chart's value messagePod.resources to what "
            "`kubectl -n {namespace} describe limitrange` allows.",
            "차트의 값 messagePod.resources를 "
            "`kubectl -n {namespace} describe limitrange`가 허용하는 값으로 바꾸십시오.",
        ),
        pattern=r"(minimum|maximum) .* usage per|max limit to request ratio",
    ),
    Entry(
        ("Forbidden",),
        Text(
            "its namespace is being deleted and accepts no new Pods",
            "네임스페이스가 삭제되는 중이어서 새 파드를 만들 수 없습니다",
        ),
        Text(
            "Nothing: the Message is deleted with its namespace.",
            "조치할 필요가 없습니다. Message도 네임스페이스와 함께 삭제됩니다.",
        ),
        pattern=r"is being terminated|because it is being deleted",
    ),
    Entry(
        ("Forbidden",),
        Text(
            "OpenShift's SecurityContextConstraints do not admit its Pod",
            "OpenShift의 SecurityContextConstraints가 파드를 허용하지 않습니다",
        ),
        Text(
            "Let the platform choose the user: set the chart's value messagePod.runAsUser to none.",
            "플랫폼이 사용자를 정하도록 차트의 값 messagePod.runAsUser를 none으로 바꾸십시오.",
        ),
        pattern=r"security context constraint",
    ),
    Entry(
        ("Forbidden",),
        Text(
            "the operator has no right to do this in the namespace",
            "오퍼레이터에 이 네임스페이스의 권한이 없습니다",
        ),
        again(
            "Restore the right with `helm upgrade`; with rbac.create=false an administrator has to "
            "grant it. `kubectl message doctor` lists what is missing.",
            "권한을 다시 부여하십시오. `helm upgrade`로 복구할 수 있고, rbac.create=false이면 "
            "관리자가 부여해야 합니다. 부족한 권한은 `kubectl message doctor`가 알려 줍니다.",
        ),
        pattern=r"User \".*\" cannot",
        runbook="MessageOperatorForbidden",
    ),
    Entry(
        ("Forbidden",),
        Text(
            "the namespace's default ServiceAccount does not exist yet",
            "네임스페이스의 기본 서비스어카운트가 아직 없습니다",
        ),
        again(
            "Wait a moment; if it does not appear, create it: "
            "`kubectl -n {namespace} create sa default`.",
            "잠시 기다리십시오. 계속 없으면 만드십시오: "
            "`kubectl -n {namespace} create sa default`.",
        ),
        pattern=r"error looking up service account",
    ),
    Entry(
        (),  # a webhook can choose any reason
        Text("an admission webhook refuses its Pod", "어드미션 웹훅이 파드를 거부했습니다"),
        again(
            "Do what the webhook demands in the details, or ask its owner to exempt Pods labelled "
            "app.kubernetes.io/managed-by=message-operator.",
            "자세한 내용에 나온 웹훅의 요구를 따르거나, 웹훅의 담당자에게 "
            "app.kubernetes.io/managed-by=message-operator 레이블이 있는 파드를 제외해 달라고 "
            "요청하십시오.",
        ),
        pattern=r"admission webhook .* denied",
    ),
    Entry(
        ("Forbidden", "Invalid"),
        Text("a policy of the cluster refuses its Pod", "클러스터의 정책이 파드를 거부했습니다"),
        again(
            "Do what the policy demands in the details; the chart's values messagePod.* set the "
            "Pod's labels, resources and more.",
            "자세한 내용에 나온 정책의 요구를 따르십시오. 파드의 레이블과 리소스 등은 차트의 값 "
            "messagePod.*로 지정합니다.",
        ),
        pattern=r"ValidatingAdmissionPolicy",
    ),
    Entry(
        ("Forbidden",),
        Text(
            "the chart names a PriorityClass or RuntimeClass that the cluster does not have",
            "차트가 지정한 PriorityClass나 RuntimeClass가 클러스터에 없습니다",
        ),
        Text(
            "Create it, or change messagePod.priorityClassName or .runtimeClassName.",
            "그것을 만들거나 messagePod.priorityClassName 또는 .runtimeClassName을 바꾸십시오.",
        ),
        pattern=r"no PriorityClass|RuntimeClass .* not found",
    ),
    Entry(
        ("Forbidden",),
        Text("the API server does not admit its Pod", "API 서버가 파드를 허용하지 않습니다"),
        again(
            "The details say who refuses it and why.", "누가 왜 거부했는지 자세한 내용에 있습니다."
        ),
    ),
    Entry(
        (
            "Invalid",
            "BadRequest",
            "RequestEntityTooLarge",
            "UnsupportedMediaType",
            "MethodNotAllowed",
        ),
        Text(
            "the API server rejects its Pod as invalid",
            "파드가 올바르지 않아 API 서버가 거부했습니다",
        ),
        Text(
            "The details name the field. If one of the chart's values messagePod.* sets it, change "
            "that value. If not, report it: it is a bug in the operator.",
            "자세한 내용에 필드가 있습니다. 차트의 값 messagePod.*에 있는 필드이면 그 값을 고치고, "
            "아니면 오퍼레이터의 결함이므로 제보하십시오.",
        ),
    ),
    Entry(
        ("Unauthorized",),
        Text(
            "the API server does not accept the operator's login",
            "API 서버가 오퍼레이터의 인증을 거부했습니다",
        ),
        Text(
            "If its ServiceAccount was deleted and created again, restart the operator: "
            "`kubectl message doctor` says where it is.",
            "서비스어카운트를 지우고 다시 만들었다면 오퍼레이터를 재시작하십시오. 위치는 "
            "`kubectl message doctor`가 알려 줍니다.",
        ),
        runbook="MessageOperatorForbidden",
    ),
    Entry(
        ("NotFound",),
        Text("its namespace no longer exists", "네임스페이스가 더 이상 없습니다"),
        Text(
            "Nothing: the Message is deleted with it.",
            "조치할 필요가 없습니다. Message도 함께 삭제됩니다.",
        ),
    ),
)
