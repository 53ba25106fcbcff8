"""What a Message is: its record, its paths, and the status that it is given.

``controller`` keeps the records, ``reconcile`` decides by them and writes the status.
Whoever copies this project replaces this module, ``pods`` and ``reconcile``.
"""

import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from message_operator.cache import Key
from message_operator.pods import Pod

GROUP, VERSION, PLURAL, KIND = "myorg.dev", "v1", "messages", "Message"
API_VERSION = f"{GROUP}/{VERSION}"

#: Seconds after the end of its grace when a Pod is not about to end any more, but stuck.
OVERDUE = 30.0

#: What a container waits for when no waiting will help: somebody has to act.
STUCK = frozenset({
    "CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull",
    "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "RunContainerError",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Message:
    """A Message as it was last seen."""

    key: Key
    uid: str
    version: int
    generation: int
    text: str
    interval: int
    deleting: bool
    #: The status subresource, as it is in the API server.
    status: dict[str, Any]

    @property
    def reference(self) -> dict[str, Any]:
        """The object reference by which Events name it."""
        return {
            "apiVersion": API_VERSION, "kind": KIND, "namespace": self.key[0],
            "name": self.key[1], "uid": self.uid, "resourceVersion": str(self.version),
        }  # fmt: skip


def record(raw: dict[str, Any]) -> Message:
    """Make the record of a raw Message; the API server has filled in the defaults."""
    meta, spec = raw["metadata"], raw.get("spec") or {}
    return Message(
        key=(meta["namespace"], meta["name"]),
        uid=meta["uid"],
        version=int(meta["resourceVersion"]),
        generation=meta["generation"],
        text=spec.get("text", ""),
        interval=spec.get("intervalSeconds", 10),
        deleting="deletionTimestamp" in meta,
        status=_shared(raw.get("status") or {}),
    )


def _shared(value: Any) -> Any:
    """Copy what JSON gave, with each string kept once: thousands of statuses say the same."""
    if isinstance(value, str):
        return sys.intern(value)
    if isinstance(value, dict):
        return {sys.intern(name): _shared(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_shared(part) for part in value]
    return value


def path(namespace: str | None, name: str = "", subresource: str = "") -> str:
    """Give the path of all Messages, of a namespace's, or of one and its subresource."""
    scope = f"/namespaces/{namespace}" if namespace else ""
    rest = "".join(f"/{part}" for part in (name, subresource) if part)
    return f"/apis/{API_VERSION}{scope}/{PLURAL}{rest}"


@dataclass(frozen=True, slots=True)
class State:
    """How a Message fares: the phase, and the Ready condition's reason and message."""

    phase: str  # Pending | Processed | Failed
    reason: str
    message: str


def state(pod: Pod | None, now: float = 0.0) -> State:
    """Tell how a Message fares by its Pod; ``now`` in seconds of Unix time."""
    if pod is None:
        return State("Pending", "PodMissing", "The Pod is about to be created.")
    if pod.deleting and now > pod.deadline + OVERDUE:
        return State(
            "Failed", "PodStuckTerminating",
            f"The former Pod does not end: its node {pod.node} does not answer. It is replaced as "
            "soon as it has gone. If that node is lost, delete the Node, or the Pod by force.",
        )  # fmt: skip
    if pod.deleting:
        return State("Pending", "PodTerminating", "The former Pod is about to end.")
    if pod.ready:
        return State("Processed", "PodRunning", "The Pod prints the text.")
    if pod.reason in STUCK:
        return State("Failed", pod.reason, pod.note or "The Pod's container does not start.")
    return State("Pending", pod.reason or "PodPending", pod.note or "The Pod is starting.")


def status(message: Message, pod: Pod | None, now: State) -> dict[str, Any]:
    """Build the whole status: what a reader of the Message is told.

    A condition's lastTransitionTime moves only when its status does (Kubernetes API conventions).
    """
    ready = {
        "type": "Ready",
        "status": "True" if now.phase == "Processed" else "False",
        # Most reasons are the API server's or the kubelet's; a condition's must be one word.
        "reason": re.sub(r"[^A-Za-z0-9]", "", now.reason).lstrip("0123456789") or "Unknown",
        "message": now.message[:1024],
        "observedGeneration": message.generation,
    }
    conditions = message.status.get("conditions") or []
    former = _ready(message.status)
    if former.get("status") == ready["status"] and "lastTransitionTime" in former:
        ready["lastTransitionTime"] = former["lastTransitionTime"]
    else:
        ready["lastTransitionTime"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "phase": now.phase,
        "observedGeneration": message.generation,
        "podName": pod.key[1] if pod else None,  # null: a merge patch takes the key away
        "nodeName": pod.node if pod else None,
        "conditions": [c for c in conditions if c.get("type") != "Ready"] + [ready],
    }


def _ready(status: dict[str, Any]) -> dict[str, Any]:
    return next((c for c in status.get("conditions") or () if c.get("type") == "Ready"), {})


def ready_reason(status: dict[str, Any]) -> str:
    """Give the reason of a status's Ready condition, empty without one."""
    return str(_ready(status).get("reason", ""))


def differs(message: Message, wanted: dict[str, Any]) -> bool:
    """Tell whether the status has to be written."""
    return any(message.status.get(name) != value for name, value in wanted.items())
