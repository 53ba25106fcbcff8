"""The Pod of a Message: what it should be, and what is known of the one that is there.

``reconcile`` builds it, ``controller`` keeps the records. All of it is pure.
Whoever copies this project replaces this module, ``messages`` and ``reconcile``.
"""

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from message_operator.cache import Key
from message_operator.kube import MANAGER
from message_operator.settings import Settings

if TYPE_CHECKING:
    from message_operator.messages import Message

CONTAINER = "message"
TEXT, INTERVAL = "MESSAGE_TEXT", "MESSAGE_INTERVAL"
#: The hash of the manifest that the operator sent: another hash means another text or template.
TEMPLATE = "myorg.dev/template-hash"
#: The uid of the Message: tells whose the Pod is even if somebody took its owner reference away.
OWNER = "myorg.dev/message-uid"
#: The generation of the Message that the Pod was made for: tells that a Message is old news.
GENERATION = "myorg.dev/message-generation"
#: Only Pods with this label are watched.
MANAGED = ("app.kubernetes.io/managed-by", MANAGER)
SELECTOR = "=".join(MANAGED)
#: The labels of every Pod of ours.
LABELS = frozenset({"app.kubernetes.io/name", "app.kubernetes.io/instance", MANAGED[0], OWNER})

#: The text is never a part of the program, so nothing in it is interpreted. The shell is process 1,
#: to which SIGTERM does nothing by default: hence the trap, and the sleep that it may interrupt.
SCRIPT = f"""\
trap 'exit 0' TERM INT
while :; do
  printf '%s\\n' "${TEXT}"
  sleep "${INTERVAL}" & wait $!
done
"""


@dataclass(frozen=True, slots=True)
class Pod:
    """A Pod as it was last seen."""

    key: Key
    uid: str
    version: int
    #: The uid of the Message that it belongs to; None: somebody else's.
    owner: str | None
    #: Whether it has no controller: with its owner reference gone, no garbage collector takes it.
    orphan: bool
    deleting: bool
    #: When its grace ends, by the API server's clock, in seconds of Unix time; 0: not deleted.
    deadline: float
    #: Why it ended, such as ``Evicted``; empty while it may run.
    finished: str
    template: str
    generation: int
    #: Whether something is gone that every Pod of ours is made with: a label, or its owner.
    stripped: bool
    shape: int
    #: The managers who changed it after it was made, the operator and the kubelet aside.
    editors: str
    ready: bool
    reason: str
    note: str
    node: str | None

    @property
    def altered(self) -> str:
        """Say, for an Event, that it was altered, and by whom as far as is known."""
        return "its Pod was altered" + (f" by {self.editors}" if self.editors else "")


def pod_name(message: str) -> str:
    """Give the name of a Message's Pod."""
    return f"msg-{message}"


def message_key(pod: Key) -> Key | None:
    """Give the key of the Message whose Pod has this key; None if no Message's Pod is named so."""
    namespace, name = pod
    return (namespace, name[4:]) if name.startswith("msg-") else None


def path(namespace: str | None, name: str = "") -> str:
    """Give the path of all Pods, of a namespace's, or of one."""
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"/api/v1{scope}/pods" + (f"/{name}" if name else "")


def label_value(name: str) -> str:
    """Fit a name into a label: 63 characters at most (Kubernetes), told apart by a hash."""
    if len(name) <= 63:
        return name
    return f"{name[:52]}-{hashlib.sha256(name.encode()).hexdigest()[:10]}"


def build(message: "Message", settings: Settings) -> dict[str, Any]:
    """Build the manifest of the Message's Pod."""
    namespace, name = message.key
    manifest: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(name),
            "namespace": namespace,
            "labels": {
                "app.kubernetes.io/name": "message",
                "app.kubernetes.io/instance": label_value(name),
                MANAGED[0]: MANAGED[1],
                OWNER: message.uid,
            },
            "annotations": {"kubectl.kubernetes.io/default-container": CONTAINER},
            # Without blockOwnerDeletion: to set it takes the right to finalize Messages
            # (admission plugin OwnerReferencesPermissionEnforcement, which OpenShift enables).
            "ownerReferences": [
                {
                    "apiVersion": "myorg.dev/v1", "kind": "Message", "name": name,
                    "uid": message.uid, "controller": True,
                }
            ],
        },
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,  # a variable per Service: thousands fill the environment
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 5,
            "securityContext": {
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": CONTAINER,
                    "image": settings.message_image,
                    "imagePullPolicy": settings.message_pull_policy,
                    "command": ["/bin/sh", "-c", SCRIPT],
                    "env": [
                        # The kubelet expands $(NAME) in a value and makes $$ a plain $.
                        {"name": TEXT, "value": message.text.replace("$", "$$")},
                        {"name": INTERVAL, "value": str(message.interval)},
                    ],
                    "resources": {
                        "requests": {"cpu": "1m", "memory": "4Mi"},
                        "limits": {"cpu": "100m", "memory": "16Mi"},
                    },
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                        "readOnlyRootFilesystem": True,
                    },
                }
            ],
        },
    }  # fmt: skip
    if settings.message_user is not None:
        manifest["spec"]["securityContext"]["runAsUser"] = settings.message_user
    if settings.message_pull_secrets:
        secrets = [{"name": name} for name in settings.message_pull_secrets]
        manifest["spec"]["imagePullSecrets"] = secrets
    canonical = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
    manifest["metadata"]["annotations"][GENERATION] = str(message.generation)
    manifest["metadata"]["annotations"][TEMPLATE] = hashlib.sha256(canonical).hexdigest()[:16]
    return manifest


def shape(raw: dict[str, Any]) -> int:
    """Hash what a hand may alter in a Pod, and what the operator sets of it.

    The rest of a Pod's spec is immutable (Kubernetes API, Pod updates). The hash holds within
    this process.
    """
    meta, spec = raw["metadata"], raw["spec"]
    labels = meta.get("labels") or {}
    containers: list[dict[str, Any]] = [c for c in spec["containers"] if c["name"] == CONTAINER]
    return hash((
        tuple(labels.get(f"app.kubernetes.io/{name}") for name in ("name", "instance")),
        labels.get(OWNER),
        tuple(owner["uid"] for owner in meta.get("ownerReferences") or ()),
        tuple(container.get("image") for container in containers),
        spec.get("activeDeadlineSeconds"),
    ))  # fmt: skip


def record(raw: dict[str, Any]) -> Pod:
    """Make the record of a raw Pod."""
    meta, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    phase = status.get("phase", "Pending")
    annotations = meta.get("annotations") or {}
    reason, note = _trouble(status)
    return Pod(
        key=(meta["namespace"], meta["name"]),
        uid=meta["uid"],
        version=int(meta["resourceVersion"]),
        owner=_owner(meta),
        orphan=_controller(meta) is None,
        deleting="deletionTimestamp" in meta,
        deadline=_seconds(meta.get("deletionTimestamp")),
        finished=(status.get("reason") or phase) if phase in ("Succeeded", "Failed") else "",
        template=annotations.get(TEMPLATE, ""),
        generation=int(made) if (made := annotations.get(GENERATION, "")).isdecimal() else 0,
        stripped=_stripped(meta),
        shape=shape(raw),
        editors=_editors(meta),
        ready=_condition(status, "Ready").get("status") == "True",
        reason=reason,
        note=note,
        node=spec.get("nodeName"),
    )


def _owner(meta: dict[str, Any]) -> str | None:
    """Tell whose it is: its controller's, or where it has none, the labelled Message's."""
    controller = _controller(meta)
    if controller is not None:
        return str(controller["uid"]) if controller["kind"] == "Message" else None
    return (meta.get("labels") or {}).get(OWNER)


def _controller(meta: dict[str, Any]) -> dict[str, Any] | None:
    owners: list[dict[str, Any]] = meta.get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), None)


def _stripped(meta: dict[str, Any]) -> bool:
    """Tell whether something was taken away: unlike other edits, that leaves no manager's name."""
    missing = LABELS - (meta.get("labels") or {}).keys()
    return bool(missing) or _controller(meta) is None


def _editors(meta: dict[str, Any]) -> str:
    """Name who changed the Pod itself, by the API server's own account (managedFields).

    What an admission webhook changed at the Pod's creation counts as its creator's.
    """
    fields = meta.get("managedFields") or ()
    return ", ".join(
        entry.get("manager", "unknown")
        for entry in fields
        if not entry.get("subresource") and entry.get("manager") != MANAGER
    )


def _seconds(timestamp: str | None) -> float:
    return datetime.fromisoformat(timestamp).timestamp() if timestamp else 0.0


def _condition(status: dict[str, Any], kind: str) -> dict[str, Any]:
    return next((c for c in status.get("conditions") or () if c["type"] == kind), {})


def _trouble(status: dict[str, Any]) -> tuple[str, str]:
    """Find why a Pod is not ready yet: (reason, message), both empty if it says nothing."""
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting")
        if waiting:
            return waiting.get("reason", ""), waiting.get("message", "")
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        return scheduled.get("reason", ""), scheduled.get("message", "")
    return "", ""
