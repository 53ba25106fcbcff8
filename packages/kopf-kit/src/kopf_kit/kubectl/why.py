"""`kubectl NAME why`: explains why an object is not ready, by its conditions and Events."""

from __future__ import annotations

import difflib
from typing import Any

from kopf_kit.kubectl import advice, checks, client, diagnosis, subject, survey
from kopf_kit.kubectl.advice import FAILS, MARKS, UNKNOWN, WAITS, WELL, Finding, complain, lines
from kopf_kit.kubectl.client import ForbiddenError, Kubectl, KubectlError
from kopf_kit.kubectl.status import NOT_SEEN, State, age, state
from kopf_kit.kubectl.subject import Kind
from kopf_kit.kubectl.text import Text, ago, paint, shown

Object = dict[str, Any]

#: How many of an object's last Events are shown.
EVENTS = 5
#: Of how many Pods of an object the Events are asked for.
MAX_PODS = 3
#: Seconds within which a healthy operator has looked at an object.
PROMPT = 5.0

READY = Text("it is ready")
STALE = Text("it was ready when an operator last looked at it")
#: What is to be done about the object, and about the operator.
AND_DO = Text("{todo} As to the operator: {more}")
NOT_READY = Text("it is not ready ({reason})")
NO_CONDITION = Text("it has no Ready condition; its Events are below")
DELETING = Text("it is being deleted, but something holds it")
FINALIZERS = Text("These finalizers hold it: {it}. Their owners take them off when they are done.")
SOON = Text("the operator is about to look at it")
LOG = Text(
    "The operator runs and leads; its log says what it does. `kubectl {command} doctor` checks the "
    "rest."
)
BESIDES = Text("{says}. Besides, {more}")
EDITED = Text("this is of an earlier version of it; {says}")


def of_name(kubectl: Kubectl, name: str) -> int:
    """Print why each object called NAME, or KIND/NAME, is not ready; return the exit code."""
    word, _, name = name.rpartition("/")
    kinds = [kind for kind in subject.current().kinds if not word or _is_called(kind, word)]
    manifests = [
        (kind, manifest) for kind in kinds if (manifest := kubectl.get(kind.resource, name))
    ]
    if not manifests:
        complain(_unknown(kubectl, kinds, word, name))
        return 3
    codes = [_explain(kubectl, kind, manifest) for kind, manifest in manifests]
    return max(codes)


def _tell(title: str, finding: Finding, reason: str = "", *more: str) -> None:
    """Print a finding, and further lines below it."""
    print(paint(f"{title}: {finding.says}.", MARKS[finding.level][1]))
    if below := [*lines(finding, reason), *more]:
        print("", *below, sep="\n")


def _is_called(kind: Kind, word: str) -> bool:
    plural = kind.resource.partition(".")[0]
    return word.lower() in (kind.kind.lower(), plural, kind.resource)


def _explain(kubectl: Kubectl, kind: Kind, given: Object) -> int:
    now = state(kind, given)
    finding = look(kubectl, now, given)
    seconds = age(now.since)
    reason = now.reason
    if reason and seconds is not None:
        reason = f"{reason}, for {ago(seconds)}"
    more = [f"  Conditions: {shown(', '.join(now.others))}"] if now.others else []
    if finding.level != WELL and (events := _events(kubectl, now)):
        more += ["  Events:", *(f"    {shown(event)}" for event in events)]
    _tell(now.title, finding, reason, *more)
    return 0 if finding.level in (WELL, UNKNOWN) else 1


def look(kubectl: Kubectl, now: State, given: Object) -> Finding:
    """Return the finding about an object; raise `KubectlError`."""
    if now.deleting:
        by = ", ".join(given["metadata"].get("finalizers") or ())
        return Finding(WAITS, DELETING, FINALIZERS.format(it=by) if by else None)
    held_up = held(kubectl, now.namespace, seen=bool(now.ready))
    if now.ready:
        return _with(_seen(now), held_up)
    if held_up is None:
        held_up = _not_seen(now)
    return held_up._replace(says=EDITED.format(says=held_up.says)) if now.edited else held_up


def _seen(now: State) -> Finding:
    """Return what the object's own condition says."""
    if now.ready == "True":
        return Finding(WELL, READY, detail=now.message)
    known = advice.find(now.reason, now.message, now.name, now.namespace)
    if known is None:
        return Finding(FAILS, NOT_READY.format(reason=now.reason), detail=now.message)
    return known._replace(level=FAILS)


def _with(finding: Finding, held_up: Finding | None) -> Finding:
    """Return the finding about an object, and why no operator looks at it now."""
    if held_up is None or not held_up.about:  # one may run outside the cluster
        return finding
    says = STALE if finding.level == WELL else finding.says
    todo = held_up.todo
    if finding.todo is not None:
        todo = AND_DO.format(todo=finding.todo, more=held_up.todo)
    return held_up._replace(
        says=BESIDES.format(says=says, more=held_up.says),
        todo=todo,
        detail="; ".join(detail for detail in (finding.detail, held_up.detail) if detail),
        runbook=finding.runbook or held_up.runbook,
    )


def _not_seen(now: State) -> Finding:
    ours = subject.current()
    if not ours.tells:
        return Finding(UNKNOWN, NO_CONDITION)
    if (age(now.since) or 0) < PROMPT:
        return Finding(WAITS, SOON)
    todo = LOG.format(command=ours.command)
    return Finding(WAITS, NOT_SEEN, todo, runbook=ours.alert("QueueStuck"))


def held(kubectl: Kubectl, namespace: str, *, seen: bool) -> Finding | None:
    """Return why no operator looks at the objects of a namespace, or None if there is no reason.

    `seen` says that one did: then it is no trouble if the user may not look for it.
    """
    try:
        operators, alike = survey.look(kubectl)
        serving = [
            operator
            for operator in operators
            if not namespace or checks.serves(kubectl, operator, namespace)
        ]
    except ForbiddenError:
        return None if seen else _may_not_look()
    if not operators:
        absent = checks.not_installed()
        return absent._replace(detail=checks.ignored(alike).says if alike else "")
    if not serving:
        return checks.unserved(operators, namespace)
    for operator in serving:
        for finding in (
            checks.accepted(kubectl, operator),
            diagnosis.runs(operator),
            checks.leads(operator),
            checks.allowed(kubectl, operator, [namespace] if namespace else []),
        ):
            if finding is not None and finding.level == FAILS:
                return checks.about(operator, finding)
    return None


def _may_not_look() -> Finding:
    todo = Text(
        "You may not see the operator: ask an administrator to run `kubectl {command} doctor`."
    )
    return Finding(WAITS, NOT_SEEN, todo.format(command=subject.current().command))


def _events(kubectl: Kubectl, now: State) -> list[str]:
    """Return the last Events of an object and its Pods, the newest first; none if refused."""
    in_namespace = Kubectl(kubectl.options, now.namespace or "default")
    about = [(now.kind.kind, now.name, now.uid)]
    try:
        for pod in in_namespace.list("pods") if now.namespace else []:
            meta = pod["metadata"]
            owners = [owner.get("uid") for owner in meta.get("ownerReferences") or ()]
            if now.uid in owners and client.is_name(meta["name"]) and not survey.is_ready(pod):
                about.append(("Pod", meta["name"], meta.get("uid")))
        events = [
            event
            for kind, name, uid in about[: MAX_PODS + 1]
            for event in in_namespace.list(
                "events", f"--field-selector=involvedObject.name={name},involvedObject.kind={kind}"
            )
            if event["involvedObject"].get("uid") in (None, uid)
        ]
    except KubectlError:
        return []
    events.sort(key=_time, reverse=True)
    return [
        "  ".join(
            (
                ago(age(_time(event)) or 0),
                str(event.get("type")),
                str(event.get("reason")),
                str(event.get("message", "")),
            )
        )
        for event in events[:EVENTS]
    ]


def _time(event: Object) -> str:
    """Return when an Event happened last, however it was counted."""
    series = event.get("series") or {}
    return str(
        series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    )


def _unknown(kubectl: Kubectl, kinds: list[Kind], word: str, name: str) -> Finding:
    if not kinds:
        says = Text("the operator has no kind {kind}")
        todo = Text("It has: {it}.")
        names = ", ".join(kind.kind.lower() for kind in subject.current().kinds)
        return Finding(UNKNOWN, says.format(kind=word), todo.format(it=names))
    existing = [
        manifest["metadata"]["name"] for kind in kinds for manifest in kubectl.list(kind.resource)
    ]
    says = Text("there is no {kinds} {name} in the namespace {here}")
    todo = Text("In another namespace? `kubectl {command} status -A` lists them all.").format(
        command=subject.current().command
    )
    close = difflib.get_close_matches(name, existing, 3)
    if close:
        todo = Text("Did you mean {it}?").format(it=", ".join(close))
    kind_names = " / ".join(kind.kind for kind in kinds)
    return Finding(UNKNOWN, says.format(name=name, here=kubectl.here(), kinds=kind_names), todo)
