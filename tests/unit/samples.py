"""Raw objects as an API server has them."""

from typing import Any

from message_operator import messages, pods
from message_operator.messages import Message
from message_operator.settings import Settings

SETTINGS = Settings(message_image="busybox:test")


def raw_message(
    text: str = "안녕하세요", *, name: str = "hello", generation: int = 1, version: int = 10,
    status: dict[str, Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    return {
        "apiVersion": "myorg.dev/v1", "kind": "Message",
        "metadata": {
            "namespace": "ns", "name": name, "uid": "uid-of-message",
            "resourceVersion": str(version), "generation": generation,
        },
        "spec": {"text": text, "intervalSeconds": 10},
        "status": status or {},
    }  # fmt: skip


def message(text: str = "안녕하세요", **changes: Any) -> Message:
    return messages.record(raw_message(text, **changes))


def raw_pod(of: Message, **meta: Any) -> dict[str, Any]:
    """The right Pod of a Message, running."""
    pod = pods.build(of, SETTINGS)
    pod["metadata"].update({
        "uid": "uid-of-pod", "resourceVersion": "20",
        "managedFields": [
            {"manager": "message-operator", "operation": "Update"},
            {"manager": "kubelet", "operation": "Update", "subresource": "status"},
        ],
        **meta,
    })  # fmt: skip
    pod["spec"]["nodeName"] = "node-1"
    pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return pod


def edited(pod: dict[str, Any], by: str = "kubectl-edit") -> dict[str, Any]:
    """The Pod as the API server has it after somebody changed it."""
    pod["metadata"]["managedFields"].append({"manager": by, "operation": "Update"})
    return pod
