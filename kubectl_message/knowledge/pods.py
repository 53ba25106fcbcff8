"""Reasons for which a Pod does not run, and what to do about them."""

from __future__ import annotations

from kopf_kit.kubectl.text import Text
from kubectl_message.knowledge.entry import PENDING, Entry

_DESCRIBE = "`kubectl -n {namespace} describe pod {pod}`"
_IMAGE = Text(
    "Set the chart's values messagePod.image.* to an image that the nodes can pull, and "
    "messagePod.imagePullSecrets where the registry asks for a login.",
    "차트의 값 messagePod.image.*를 노드가 받을 수 있는 이미지로 바꾸십시오. 레지스트리가 로그인을 "
    "요구하면 messagePod.imagePullSecrets도 지정하십시오.",
)

ENTRIES = (
    Entry(
        ("Unschedulable",),
        Text(
            "no node takes its Pod: none has room, or the Pod may not run there",
            "파드를 배치할 노드가 없습니다. 여유가 없거나 파드를 실행할 수 없는 노드뿐입니다",
        ),
        Text(
            "The details say what each node lacks: make room, add a node, uncordon one, or set the "
            "chart's values messagePod.tolerations and .nodeSelector.",
            "노드마다 무엇이 부족한지 자세한 내용에 있습니다. 여유를 만들거나 노드를 추가하거나 "
            "uncordon하거나, 차트의 값 messagePod.tolerations와 .nodeSelector를 지정하십시오.",
        ),
        runbook=PENDING,
    ),
    Entry(
        ("SchedulingGated",),
        Text(
            "its Pod waits for a scheduling gate that somebody added to it",
            "누군가 추가한 스케줄링 게이트 때문에 파드가 배치되지 않습니다",
        ),
        Text(
            f"{_DESCRIBE} names the gate; ask its owner.",
            f"{_DESCRIBE} 명령으로 게이트를 확인하고 담당자에게 문의하십시오.",
        ),
        runbook=PENDING,
    ),
    Entry(
        ("PodPending", "ContainerCreating", "PodInitializing"),
        Text("its Pod is starting", "파드가 시작되는 중입니다"),
        Text(
            f"Wait a moment. If it takes longer than a minute, the end of {_DESCRIBE} says what "
            "the node lacks.",
            f"잠시 기다리십시오. 1분이 넘으면 {_DESCRIBE}의 끝에서 노드에 무엇이 부족한지 "
            "확인하십시오.",
        ),
        runbook=PENDING,
    ),
    Entry(
        ("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError"),
        Text(
            "the node cannot pull an image of its Pod", "노드가 파드의 이미지를 내려받지 못합니다"
        ),
        _IMAGE,
    ),
    Entry(
        ("InvalidImageName",),
        Text(
            "the name of its Pod's image is invalid",
            "파드의 이미지 이름이 올바르지 않습니다",
        ),
        _IMAGE,
    ),
    Entry(
        ("ErrImageNeverPull",),
        Text(
            "the node does not have the image, and may not pull it",
            "노드에 이미지가 없고, 내려받는 것도 허용되지 않습니다",
        ),
        Text(
            "Set the chart's value messagePod.image.pullPolicy to IfNotPresent, or load the image "
            "into the nodes.",
            "차트의 값 messagePod.image.pullPolicy를 IfNotPresent로 바꾸거나 이미지를 노드에 "
            "넣으십시오.",
        ),
    ),
    Entry(
        (
            "CrashLoopBackOff",
            "Error",
            "OOMKilled",
            "ContainerCannotRun",
            "StartError",
            "RunContainerError",
            "DeadlineExceeded",
            "Completed",
        ),
        Text(
            "a container of its Pod ends again and again",
            "파드의 컨테이너가 계속 종료됩니다",
        ),
        Text(
            "See its last output: `kubectl -n {namespace} logs {pod} --all-containers --previous`. "
            "OOMKilled: raise messagePod.resources. A container that is not called `message` was "
            "added by a webhook: ask its owner.",
            "마지막 출력을 확인하십시오: "
            "`kubectl -n {namespace} logs {pod} --all-containers --previous`. OOMKilled이면 "
            "messagePod.resources를 늘리십시오. 이름이 `message`가 아닌 컨테이너는 웹훅이 추가한 "
            "것이므로 그 담당자에게 문의하십시오.",
        ),
    ),
    Entry(
        (
            "CreateContainerConfigError",
            "CreateContainerError",
            "PreCreateHookError",
            "PreStartHookError",
            "PostStartHookError",
        ),
        Text(
            "the node cannot create a container of its Pod",
            "노드가 파드의 컨테이너를 만들지 못합니다",
        ),
        Text(
            "The details say why: a missing Secret or ConfigMap, an image that runs as root, or "
            "the container runtime itself.",
            "이유는 자세한 내용에 있습니다. 없는 시크릿이나 컨피그맵, root로 실행되는 이미지, 또는 "
            "컨테이너 런타임의 문제입니다.",
        ),
    ),
)
