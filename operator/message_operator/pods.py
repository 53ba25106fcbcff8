"""The Pod of a Message: its manifest, and the state that is kept of the existing one."""

import sys
from typing import Any

import msgspec

import kopf_runtime as kr
from message_operator.settings import AUTO, USER, Settings

CONTAINER = "message"
#: A label that all message Pods have.
LABEL = {"app.kubernetes.io/name": "message"}
TEXT, INTERVAL = "MESSAGE_TEXT", "MESSAGE_INTERVAL"

#: The text is never part of the program, so nothing in it is interpreted. The shell is process 1,
#: which ignores SIGTERM by default: hence the trap, and a sleep that it can interrupt.
SCRIPT = f"""\
trap 'exit 0' TERM INT
while :; do
  printf '%s\\n' "${TEXT}"
  sleep "${INTERVAL}" & wait $!
done
"""


class PodState(msgspec.Struct, frozen=True):
    """What is kept of a Pod."""

    ready: bool
    #: Why it ended, such as `Evicted`; empty while it may run.
    ended: str
    #: Why it does not run yet: reason and message; empty if the Pod gives none.
    reason: str
    note: str
    node: str | None
    #: The hash of the text in its environment (`value`).
    text: int


def project(pod: kr.Pod) -> PodState:
    """Return what is kept of a Pod."""
    status = pod.status
    reason, note = pod.trouble(CONTAINER)
    return PodState(
        ready=pod.holds("Ready"),
        ended=(status.reason or status.phase) if status.phase in ("Succeeded", "Failed") else "",
        reason=sys.intern(reason),
        note=sys.intern((note or _unready(pod))[:1024]),
        node=sys.intern(pod.spec.node_name) if pod.spec.node_name else None,
        text=_text(pod),
    )


def _text(pod: kr.Pod) -> int:
    variables = (env for c in pod.spec.containers if c.name == CONTAINER for env in c.env[::-1])
    return hash(
        next((str(env.get("value", "")) for env in variables if env.get("name") == TEXT), "")
    )


def _unready(pod: kr.Pod) -> str:
    """Return why a Pod is not ready that has started; empty if it gives no reason."""
    started = any(container.state.running for container in pod.status.container_statuses)
    for condition in pod.status.conditions if started else ():
        if (condition.type, condition.status) == ("Ready", "False"):
            why = condition.message or "its node may not answer"
            return f"The Pod has started, but it is not ready: {why}."
    return ""


def escape_env_value(text: str) -> str:
    """Return a text as a variable's value: the kubelet expands $(NAME), and replaces $$ with $."""
    return text.replace("$", "$$")


def label_value(name: str) -> str:
    """Shorten a name to a label's 63 characters (Kubernetes); a hash keeps it unique."""
    if len(name) <= 63:
        return name
    return f"{name[:52]}-{kr.short_hash(name)}"


def manifest(name: str, text: str, interval: int, settings: Settings) -> dict[str, Any]:
    """Return the manifest of the Pod that prints a text at an interval in seconds."""
    template = settings.message_pod
    user = USER if settings.message_user == AUTO else settings.message_user
    spec: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,  # otherwise each Service adds environment variables
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 5,
        "securityContext": {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
            **({} if user is None else {"runAsUser": user}),
            **template.pod_security_context,
        },
        "containers": [
            {
                "name": CONTAINER,
                "image": settings.message_image,
                "imagePullPolicy": settings.message_pull_policy,
                "command": ["/bin/sh", "-c", SCRIPT],
                "env": [
                    {"name": TEXT, "value": escape_env_value(text)},
                    {"name": INTERVAL, "value": str(interval)},
                ],
                "resources": template.resources,
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                    "readOnlyRootFilesystem": True,
                    **template.security_context,
                },
            }
        ],
        "imagePullSecrets": [{"name": secret} for secret in settings.message_pull_secrets],
        "nodeSelector": template.node_selector,
        "tolerations": template.tolerations,
        "affinity": template.affinity,
        "topologySpreadConstraints": [
            {"labelSelector": {"matchLabels": LABEL}, **constraint}
            for constraint in template.topology_spread_constraints
        ],
        "priorityClassName": template.priority_class_name,
        "runtimeClassName": template.runtime_class_name,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"msg-{name}",
            "labels": {
                **template.labels,
                **LABEL,
                "app.kubernetes.io/instance": label_value(name),
            },
            "annotations": {
                **template.annotations,
                "kubectl.kubernetes.io/default-container": CONTAINER,
            },
        },
        "spec": {field: value for field, value in spec.items() if value not in ("", [], {})},
    }
