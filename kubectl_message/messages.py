"""Reads a Message, as `kubectl get -o json` prints it."""

from __future__ import annotations

from typing import Any, NamedTuple

from kopf_kit.kubectl import client
from kopf_kit.kubectl.objects import ready

Object = dict[str, Any]

#: The kind's full name: another group may also have a resource `messages`.
KIND = "messages.myorg.dev"
#: The container of a Message's Pod that prints the text.
CONTAINER = "message"


class State(NamedTuple):
    """The state of a Message according to its status."""

    namespace: str
    name: str
    #: The phase; empty if no operator has looked at this version of the Message.
    phase: str
    reason: str
    message: str
    #: When the Ready condition last changed; empty if that is unknown.
    since: str
    pod: str
    node: str
    text: str
    interval: int
    deleting: bool
    #: Whether the operator has only looked at an earlier version of the Message.
    edited: bool

    @property
    def prints(self) -> bool:
        """Whether its Pod prints the text."""
        return self.phase == "Processed"


def state(message: Object) -> State:
    """Return the state of a Message; ignore the status of an earlier version."""
    meta, spec = message["metadata"], message.get("spec") or {}
    status = message.get("status") or {}
    condition = ready(status)
    observed = status.get("observedGeneration", condition.get("observedGeneration"))
    current = bool(condition) and observed == meta.get("generation")
    phase, node = str(status.get("phase") or "Failed"), status.get("nodeName") or ""
    if phase == "Processed" and condition.get("status") != "True":
        phase = "Failed"  # of a former state: the operator could not tell this one
    return State(
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        phase=phase if current else "",
        reason=condition.get("reason", "") if current else "",
        message=condition.get("message", "") if current else "",
        since=(condition.get("lastTransitionTime", "") if current else "")
        or meta.get("creationTimestamp", ""),
        # Not status.podName: a namespace's administrators may write another name there.
        pod=f"msg-{meta['name']}",
        node=node if client.is_name(node) else "",
        text=spec.get("text", ""),
        interval=spec.get("intervalSeconds", 0),
        deleting="deletionTimestamp" in meta,
        edited=bool(condition) and not current,
    )
