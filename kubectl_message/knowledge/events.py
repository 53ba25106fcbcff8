"""The Events that the operator records about a Message, and what to do about each."""

from __future__ import annotations

from typing import NamedTuple

from kopf_kit.kubectl.text import Text


class Event(NamedTuple):
    """The entry for an Event; `type` is Kubernetes' own word for how bad it is."""

    reason: str
    type: str
    says: Text
    todo: Text


_NOTHING = Text("Nothing.", "할 일은 없습니다.")
_CONDITION = Text(
    "See the reason of the same name: `kubectl message why {name}`.",
    "같은 이름의 이유를 참고하십시오: `kubectl message why {name}`.",
)

EVENTS = (
    Event(
        "Created",
        "Normal",
        Text("the operator created the Message's first Pod", "오퍼레이터가 첫 파드를 만들었습니다"),
        _NOTHING,
    ),
    Event(
        "Replaced",
        "Normal",
        Text(
            "the operator replaced the Pod, because the Message was edited or the Pod's template "
            "changed, as after an upgrade",
            "Message가 수정되었거나, 업그레이드 등으로 파드의 템플릿이 바뀌어 파드를 교체했습니다",
        ),
        _NOTHING,
    ),
    Event(
        "Healed",
        "Normal",
        Text(
            "the Pod was gone, had ended or was altered, so the operator created it again",
            "파드가 없어지거나 종료되거나 변경되어 오퍼레이터가 다시 만들었습니다",
        ),
        Text(
            "Nothing, unless this happens again and again: then find out who deletes or alters the "
            "Pod. If it was altered, the Event names the field manager that did it.",
            "되풀이되지 않으면 조치할 필요가 없습니다. 되풀이되면 누가 파드를 삭제하거나 "
            "변경하는지 찾으십시오. 변경된 것이면 필드를 바꾼 관리자(field manager)가 이벤트에 "
            "나옵니다.",
        ),
    ),
    Event(
        "Deleted",
        "Normal",
        Text(
            "the operator deleted a Pod that the Message does not want any more",
            "Message에 더는 필요 없는 파드를 오퍼레이터가 삭제했습니다",
        ),
        _NOTHING,
    ),
    Event(
        "LeftAlone",
        "Warning",
        Text(
            "a Pod has some of the Message's marks, as a copy has; the operator does not touch it",
            "사본처럼 Message의 표시가 일부만 맞는 파드가 있어 오퍼레이터가 그대로 두었습니다",
        ),
        Text(
            "Nothing, unless the Pod should outlive the Message: then remove its "
            "metadata.ownerReferences.",
            "할 일은 없습니다. 다만 Message가 삭제된 뒤에도 파드를 남기려면 그 파드의 "
            "metadata.ownerReferences를 제거하십시오.",
        ),
    ),
    Event(
        "PodStuckTerminating",
        "Warning",
        Text(
            "the Pod of a deleted Message of this name does not end",
            "삭제된 같은 이름의 Message가 남긴 파드가 종료되지 않습니다",
        ),
        _CONDITION,
    ),
    Event(
        "Refused",
        "Warning",
        Text(
            "the API server refused a request for the Pod, and would refuse it again",
            "API 서버가 파드에 대한 요청을 거부했고, 다시 요청해도 거부합니다",
        ),
        Text(
            "The Event quotes the API server: `kubectl message why {name}` says what to do.",
            "API 서버의 답이 이벤트에 그대로 나옵니다. 할 일은 "
            "`kubectl message why {name}` 명령으로 확인하십시오.",
        ),
    ),
    Event(
        "StatusRefused",
        "Warning",
        Text(
            "the API server refused the status, which may be outdated",
            "API 서버가 상태를 거부하여, 보이는 상태가 오래된 것일 수 있습니다",
        ),
        Text(
            "The Event quotes the API server: change the policy or webhook that refuses "
            "`messages/status`.",
            "API 서버의 답이 이벤트에 나옵니다. `messages/status`를 거부하는 정책이나 웹훅을 "
            "고치십시오.",
        ),
    ),
    Event(
        "Delayed",
        "Warning",
        Text(
            "the API server failed or was busy, so a request for the Pod has to be repeated",
            "API 서버가 오류를 반환하거나 과부하 상태여서 파드에 대한 요청을 다시 보내야 합니다",
        ),
        Text(
            "Nothing, unless it lasts: the operator tries again by itself.",
            "계속되지 않으면 조치할 필요가 없습니다. 오퍼레이터가 자동으로 다시 시도합니다.",
        ),
    ),
    Event(
        "Conflict",
        "Warning",
        Text(
            "somebody else's object already has the Pod's name",
            "다른 오브젝트가 파드의 이름을 쓰고 있습니다",
        ),
        _CONDITION,
    ),
    Event(
        "AdmissionChanged",
        "Warning",
        Text(
            "a webhook or policy removed metadata by which the operator recognizes its Pod",
            "오퍼레이터가 파드를 식별하는 데 필요한 메타데이터를 웹훅이나 정책이 제거했습니다",
        ),
        _CONDITION,
    ),
    Event(
        "InvalidPlan",
        "Warning",
        Text(
            "the operator planned a Pod that cannot exist",
            "오퍼레이터가 만들 수 없는 파드를 계획했습니다",
        ),
        _CONDITION,
    ),
    Event(
        "Unreadable",
        "Warning",
        Text(
            "the Pod does not match the definition of its kind",
            "파드가 종류의 정의와 맞지 않습니다",
        ),
        _CONDITION,
    ),
)
BY_REASON = {event.reason: event for event in EVENTS}
