"""What to do about an operator's own Pod that does not run, by its reason."""

from __future__ import annotations

from typing import NamedTuple

from kopf_kit.plugin.text import Text

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
