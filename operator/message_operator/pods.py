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


class _State(msgspec.Struct, rename="camel", frozen=True):
    reason: str = ""
    message: str = ""
    exit_code: int = 0


class _States(msgspec.Struct, rename="camel", frozen=True):
    waiting: _State | None = None
    running: _State | None = None
    terminated: _State | None = None


class _Container(msgspec.Struct, rename="camel", frozen=True):
    name: str = ""
    ready: bool = False
    state: _States = _States()
    env: list[dict[str, Any]] = []


class _Condition(msgspec.Struct, rename="camel", frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _Spec(msgspec.Struct, rename="camel", frozen=True):
    node_name: str | None = None
    containers: list[_Container] = []


class _Status(msgspec.Struct, rename="camel", frozen=True):
    phase: str = "Pending"
    reason: str = ""
    conditions: list[_Condition] = []
    init_container_statuses: list[_Container] = []
    container_statuses: list[_Container] = []


class Pod(kr.Object):
    """The fields of a Pod that are read."""

    spec: _Spec = _Spec()
    status: _Status = _Status()


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


def project(pod: Pod) -> PodState:
    """Return what is kept of a Pod."""
    status = pod.status
    reason, note = _trouble(status)
    return PodState(
        ready=any(c.type == "Ready" and c.status == "True" for c in status.conditions),
        ended=(status.reason or status.phase) if status.phase in ("Succeeded", "Failed") else "",
        reason=sys.intern(reason),
        note=sys.intern(note[:1024]),
        node=sys.intern(pod.spec.node_name) if pod.spec.node_name else None,
        text=_text(pod.spec),
    )


def _text(spec: _Spec) -> int:
    variables = (env for c in spec.containers if c.name == CONTAINER for env in c.env[::-1])
    return hash(
        next((str(env.get("value", "")) for env in variables if env.get("name") == TEXT), "")
    )


def _trouble(status: _Status) -> tuple[str, str]:
    """Return why a Pod is not ready yet: (reason, message), both empty if it gives none.

    This includes containers that admission added; their trouble is reported with their name.
    """
    for container in (*status.init_container_statuses, *status.container_statuses):
        own = container.name == CONTAINER
        waiting, over = container.state.waiting, container.state.terminated
        if waiting is not None and waiting.reason != "PodInitializing":
            text = waiting.message or f"It waits: {waiting.reason}."
            return waiting.reason, text if own else f"Container {container.name}: {text}"
        if over is not None and over.exit_code:
            text = f"Container {container.name} ended with exit code {over.exit_code}"
            return over.reason or "Error", f"{text}: {over.message}" if over.message else f"{text}."
    for condition in status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.reason, condition.message
        started = any(container.state.running for container in status.container_statuses)
        if started and (condition.type, condition.status) == ("Ready", "False"):
            why = condition.message or "its node may not answer"
            return "", f"The Pod has started, but it is not ready: {why}."
    return "", ""


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
