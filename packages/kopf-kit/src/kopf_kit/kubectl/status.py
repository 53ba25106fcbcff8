"""The state of an operator's objects, and `kubectl NAME status`, which lists them."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Any, NamedTuple

from kopf_kit.kubectl import advice, subject
from kopf_kit.kubectl.advice import FAILS, WAITS, WELL, Finding
from kopf_kit.kubectl.client import Kubectl
from kopf_kit.kubectl.subject import Kind
from kopf_kit.kubectl.text import Cell, Text, ago, paint, printable, table

Object = dict[str, Any]

NOT_SEEN = Text("no operator has looked at it yet")


class State(NamedTuple):
    """The state of an object according to its conditions."""

    kind: Kind
    namespace: str
    name: str
    uid: str
    #: The Ready condition: `True`, `False`, `Unknown`; empty if no operator has looked at this
    #: version of the object, or if it has no such condition.
    ready: str
    reason: str
    message: str
    #: When the Ready condition last changed; empty if that is unknown.
    since: str
    #: The other conditions, as `Available=False (NoQuorum)`.
    others: tuple[str, ...]
    deleting: bool
    #: Whether the operator has only looked at an earlier version of the object.
    edited: bool

    @property
    def title(self) -> str:
        """What a sentence calls it."""
        return f"{self.kind.kind} {self.name}"


def state(kind: Kind, given: Object) -> State:
    """Return the state of an object; a condition of an earlier version does not count."""
    meta, status = given["metadata"], given.get("status") or {}
    condition = ready(status)
    observed = condition.get("observedGeneration", status.get("observedGeneration"))
    current = bool(condition) and observed in (None, meta.get("generation"))
    return State(
        kind=kind,
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        uid=meta.get("uid", ""),
        ready=str(condition.get("status", "")) if current else "",
        reason=str(condition.get("reason", "")) if current else "",
        message=str(condition.get("message", "")) if current else "",
        since=str((condition.get("lastTransitionTime") if current else "") or "")
        or str(meta.get("creationTimestamp", "")),
        others=tuple(
            f"{other.get('type')}={other.get('status')} ({other.get('reason', '')})"
            for other in status.get("conditions") or ()
            if other.get("type") != "Ready"
        ),
        deleting="deletionTimestamp" in meta,
        edited=bool(condition) and not current,
    )


def ready(status: Object) -> Object:
    """Return the Ready condition of a status, or an empty one."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Ready":
            return dict(condition)
    return {}


def age(timestamp: str) -> float | None:
    """Return the seconds since a timestamp of the API, or None if it is invalid."""
    plain = timestamp.partition(".")[0].rstrip("Z")
    try:
        then = datetime.strptime(plain, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
    except ValueError:
        return None
    return time.time() - then.timestamp()


#: Seconds within which a healthy operator has looked at an object.
PROMPT = 60.0


def fare(kind: Kind, objects: list[Object]) -> Finding:
    """Return the state of all objects of a kind, by their Ready conditions."""
    states = [state(kind, manifest) for manifest in objects]
    tells = subject.current().tells
    waiting = [state for state in states if not state.ready and (age(state.since) or 0) > PROMPT]
    if waiting and tells:
        return unseen([f"{state.namespace}/{state.name}".lstrip("/") for state in waiting])
    ready = sum(state.ready == "True" for state in states)
    if not (tells or any(state.ready for state in states)):
        return Finding(WELL, Text.of(len(states)))
    says = Text("{all}: {n} ready").format(all=len(states), n=ready)
    if ready == len(states):
        return Finding(WELL, says)
    todo = Text(
        "`kubectl {command} status -A` lists them, `kubectl {command} why {kind}/NAME` says why."
    )
    words = {"command": subject.current().command, "kind": kind.kind.lower()}
    return Finding(WAITS, says, todo.format(**words))


def unseen(names: list[str]) -> Finding:
    """Return the finding about objects that no operator has looked at."""
    says = Text("{n} were not looked at: {it}")
    says = says.format(n=len(names), it=", ".join(names[:3]))
    return Finding(FAILS, says, runbook=subject.current().alert("QueueStuck"))


COLORS = {"True": "green", "False": "red"}

DELETING = Text("it is being deleted")
NONE_HERE = Text("There are no {many} in the namespace {here}; -A shows all namespaces.")
NONE = Text("There are no {many} in the cluster.")
ASK = Text("`kubectl {command} why KIND/NAME` says more about one.")


def show(kubectl: Kubectl, *, everywhere: bool) -> int:
    """Print all objects of the operator's kinds, those in trouble first; return the exit code."""
    ours = subject.current()
    states = [
        state(kind, manifest)
        for kind in ours.kinds
        for manifest in kubectl.list(kind.resource, everywhere=everywhere)
    ]
    states.sort(key=lambda s: (s.ready == "True", s.namespace, s.kind.kind, s.name))
    if not states:
        here = "" if everywhere else kubectl.here()
        print((NONE if everywhere else NONE_HERE).format(many=ours.many, here=here))
    else:
        print(*_picture(states, everywhere), sep="\n")
    return 0


def _picture(states: list[State], everywhere: bool) -> list[str]:
    """Return the lines of the table, and how to ask for more below it."""
    heads = [*(["NAMESPACE"] if everywhere else []), "NAME", "READY", "SINCE", "WHY"]
    lines = table(heads, [_row(state, everywhere) for state in states])
    if any(state.ready != "True" for state in states):
        lines += ["", paint(ASK.format(command=subject.current().command), "dim")]
    return lines


def _row(state: State, everywhere: bool) -> list[Cell]:
    seconds = age(state.since)
    return [
        *([Cell(state.namespace)] if everywhere else []),
        Cell(f"{state.kind.kind.lower()}/{state.name}"),
        Cell(state.ready or "-", COLORS.get(state.ready, "yellow")),
        Cell("" if seconds is None else ago(seconds)),
        Cell(_why(state)),
    ]


def _why(state: State) -> str:
    if state.deleting:
        return DELETING
    if not state.ready:
        return NOT_SEEN if subject.current().tells else printable(", ".join(state.others))
    if state.ready == "True":
        return ""
    known = advice.find(state.reason, state.message, state.name, state.namespace)
    return printable(f"{state.reason}: {known.says if known else state.message}")
