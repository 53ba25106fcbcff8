"""Reasons that mean that the API server does not answer as it should, and what to do."""

from __future__ import annotations

from kopf_kit.kubectl.text import Text
from kubectl_message.knowledge.entry import Entry, again

ENTRIES = (
    Entry(
        ("InternalError",),
        Text(
            "an admission webhook does not answer, so no Pod can be created",
            "어드미션 웹훅이 응답하지 않아 파드를 만들 수 없습니다",
        ),
        again(
            "Fix the webhook that the details name, or exempt the namespace from it: "
            "`kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations`.",
            "자세한 내용에 나온 웹훅을 고치거나 네임스페이스를 웹훅에서 제외하십시오: "
            "`kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations`.",
        ),
        pattern=r"failed calling webhook",
        runbook="MessageOperatorApiErrors",
    ),
    Entry(
        (
            "InternalError",
            "ServiceUnavailable",
            "TooManyRequests",
            "ServerTimeout",
            "Timeout",
            "GatewayTimeout",
            "BadGateway",
            "Expired",
            "AlreadyExists",
        ),
        Text("the API server fails or is busy", "API 서버가 오류를 반환하거나 과부하 상태입니다"),
        again(
            "Wait; if this lasts, check the API server and the admission webhooks: "
            "`kubectl get --raw '/readyz?verbose'`.",
            "기다리십시오. 계속되면 API 서버와 어드미션 웹훅을 확인하십시오: "
            "`kubectl get --raw '/readyz?verbose'`.",
        ),
        runbook="MessageOperatorApiErrors",
    ),
    Entry(
        (
            "ConnectionFailed",
            "ConnectTimeout",
            "UntrustedCertificate",
            "Disconnected",
            "BadAnswer",
            "Refused",
        ),
        Text(
            "the operator got no usable answer from the API server",
            "오퍼레이터가 API 서버에서 제대로 된 응답을 받지 못했습니다",
        ),
        again(
            "If this lasts, check the network between the operator and the API server: a "
            "NetworkPolicy, a proxy, the chart's value networkPolicy.apiServerPorts.",
            "계속되면 오퍼레이터와 API 서버 사이의 네트워크를 확인하십시오: 네트워크폴리시, "
            "프록시, 차트의 값 networkPolicy.apiServerPorts.",
        ),
        runbook="MessageOperatorApiErrors",
    ),
)
