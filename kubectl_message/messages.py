"""Reads a Message, as `kubectl get -o json` prints it."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Any, NamedTuple

Object = dict[str, Any]

#: The kind by its full name: others may have one called `messages`, too.
GROUP, VERSION = "myorg.dev", "v1"
KIND = f"messages.{GROUP}"
#: The API's own defaults are in each object; these serve what is asked of an object without them.
CONTAINER = "message"


class State(NamedTuple):
    """How a Message fares, by what the operator wrote last."""

    namespace: str
    name: str
    #: The status's word; empty where no operator has looked at this version of the Message.
    phase: str
    reason: str
    message: str
    #: When the Ready condition last became what it is, empty where that is not known.
    since: str
    pod: str
    node: str
    text: str
    interval: int
    deleting: bool
    #: Whether the operator has looked at a former version of the Message only.
    edited: bool

    @property
    def prints(self) -> bool:
        """Whether its Pod prints the text."""
        return self.phase == "Processed"


def state(message: Object) -> State:
    """Return how a Message fares; an older status is none."""
    meta, spec = message["metadata"], message.get("spec") or {}
    status = message.get("status") or {}
    condition = ready(status)
    observed = status.get("observedGeneration", condition.get("observedGeneration"))
    current = bool(condition) and observed == meta.get("generation")
    return State(
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        phase=(str(status.get("phase") or "Failed")) if current else "",
        reason=condition.get("reason", "") if current else "",
        message=condition.get("message", "") if current else "",
        since=(condition.get("lastTransitionTime", "") if current else "")
        or meta.get("creationTimestamp", ""),
        pod=status.get("podName") or f"msg-{meta['name']}",
        node=status.get("nodeName") or "",
        text=spec.get("text", ""),
        interval=spec.get("intervalSeconds", 0),
        deleting="deletionTimestamp" in meta,
        edited=bool(condition) and not current,
    )


def ready(status: Object) -> Object:
    """Return the Ready condition of a status, empty without one."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Ready":
            return dict(condition)
    return {}


def age(timestamp: str) -> float | None:
    """Return the seconds since a time of the API, None for what is none."""
    plain = timestamp.partition(".")[0].rstrip("Z")
    try:
        then = datetime.strptime(plain, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
    except ValueError:
        return None
    return time.time() - then.timestamp()
