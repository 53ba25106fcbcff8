"""Troubles: what stops a reconcile, in words for people, and when the next attempt follows.

Each step of a reconcile returns an `Outcome`. Those of several steps become one by `foremost`, and
an error of the API server one by `of`; `status` reports it, and the work queue obeys it.
"""

from collections.abc import Awaitable, Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from kopf_runtime.declaring.errors import MAX_RETRY_SECONDS, ApiError
from kopf_runtime.declaring.kinds import Kind
from kopf_runtime.declaring.objects import UnreadableError
from kopf_runtime.declaring.records import Child, Plan, Step, Update, Wanted
from kopf_runtime.watching.references import NotReadableError

#: Seconds until somebody else's object, which is not watched, is looked at again, at the least.
CONFLICT = 5.0
#: Seconds after the end of its grace period from which a child counts as stuck.
OVERDUE = 30.0
#: Seconds until what only a change can help is tried again, at the least.
INVALID = 60.0
#: Seconds before an author's function is called again, at least, however soon it asks for that.
SOONEST = 1.0
COLLECTOR = "the garbage collector"
#: The finalizers of `kubectl delete --cascade=foreground` and `--cascade=orphan`, in words.
COLLECTING = {
    "foregroundDeletion": f"{COLLECTOR}, which deletes what it owns first,",
    "orphan": f"{COLLECTOR}, which sets free what it owns first,",
}
#: What the API server says of a null in a custom resource: it makes one of a map to be emptied.
_NULL = 'must be of type object: "null"'
_EMPTIED = (
    "An apply cannot empty a map (kubernetes/kubernetes#135841): remove that field by hand, as by "
    "kubectl edit, or use a release of the operator that leaves it out"
)
#: The reason of what only waits for another child.
WAITING = "Waiting"


class Trouble(Struct, frozen=True):
    """The `reason` and `message` why the runtime cannot take the next step.

    If it is `final`, a retry cannot succeed until somebody acts.
    """

    reason: str
    message: str
    final: bool = False


class Rule(NamedTuple):
    """When the next attempt follows after a trouble, and how it is reported."""

    #: Seconds until then at the least, unless an event comes earlier.
    again: float
    #: Whether each such attempt in a row doubles the delay; else nothing failed: it only waits.
    fails: bool = True
    #: Whether no attempt can succeed until somebody acts; an Event says so.
    final: bool = False


#: By the reason, or what it ends in. What depends on an answer or on the author is not here.
RULES = {
    "InvalidPlan": Rule(INVALID, final=True),
    "HoldsLost": Rule(INVALID, final=True),
    "Taken": Rule(INVALID, fails=False),
    "Waiting": Rule(INVALID, fails=False),
    "Conflict": Rule(CONFLICT, final=True),
    "AdmissionChanged": Rule(CONFLICT, final=True),
    "Unreadable": Rule(CONFLICT, final=True),
    "StuckTerminating": Rule(CONFLICT, final=True),
    "Terminating": Rule(CONFLICT),
    "KindNotServed": Rule(CONFLICT),
    "NamespaceNotServed": Rule(CONFLICT),
    "NotFound": Rule(0.0),
    "AlreadyExists": Rule(0.0),
}


class Outcome(Struct, frozen=True):
    """What a step has led to, and when the next attempt follows."""

    #: What stops it; None if nothing does, or only that what was known is out of date.
    trouble: Trouble | None = None
    #: What to log.
    why: str = ""
    #: Seconds until the next attempt at the least, unless an event comes earlier; None: no attempt.
    again: float | None = None
    #: Seconds for which no event may lead to one either (an API server's Retry-After).
    not_before: float = 0.0
    #: Whether each such outcome in a row doubles the delay.
    fails: bool = False
    #: Seconds after which it is due in any case, however much the delay has grown.
    due: float | None = None
    #: The reason of the Event that reports it; empty for no Event.
    event: str = ""
    timed_out: bool = False
    #: Whether an author's function waits.
    waits: bool = False
    #: Whether the status says so already.
    reported: bool = False

    @property
    def outdated(self) -> bool:
        """Whether what was known is out of date, so that nothing else is to be done for it now."""
        return self.fails and self.trouble is None

    def __bool__(self) -> bool:
        """Return whether something stops the next step."""
        return self.trouble is not None or self.fails

    def sooner(self, seconds: float | None) -> "Outcome":
        """Return the same, with the next attempt after these seconds at the latest."""
        known = [again for again in (self.again, seconds) if again is not None]
        return replace(self, again=min(known, default=None))


#: Nothing stops the next step; and there is nothing else to report.
DONE, REPORTED = Outcome(), Outcome(reported=True)


class StepError(Exception):
    """A step ends with an outcome; `attempt` returns it."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.why)
        self.outcome = outcome


def changed(why: str) -> StepError:
    """Return the error for what has changed meanwhile: it is looked at again, not reported."""
    return StepError(Outcome(why=why, again=0.0, fails=True))


async def attempt(step: Awaitable[Outcome | None]) -> Outcome:
    """Return the outcome of a step."""
    try:
        outcome = await step
    except (StepError, ApiError, UnreadableError) as error:
        return of(error)
    return DONE if outcome is None else outcome


async def attempt_each(steps: Iterable[Awaitable[Outcome]]) -> Outcome:
    """Take steps until one shows that what is known is out of date; return what they led to."""
    outcomes = list[Outcome]()
    for step in steps:
        outcomes.append(await attempt(step))
        if outcomes[-1].outdated:
            break
    return foremost(outcomes)


def of(error: StepError | ApiError | UnreadableError) -> Outcome:
    """Return the outcome that an error stands for."""
    if isinstance(error, StepError):
        return error.outcome
    if isinstance(error, UnreadableError):
        return _stop("Unreadable", str(error))
    if error.reason == "Fenced":
        return changed(str(error)).outcome
    text = error.message or str(error)
    if _NULL in text:
        text += f". {_EMPTIED}"
    return Outcome(
        Trouble(error.reason or "Refused", text, error.final),
        str(error),
        0.0,
        error.after,
        fails=True,
        event="Refused" if error.final else "Delayed",
        timed_out=error.timed_out,
    )


def foremost(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcome to report of several, with what all of them say of the next attempt.

    A child that only waits must not hide one that was refused, nor delay its next attempt.
    """
    stops = [outcome for outcome in outcomes if outcome]
    if not stops:
        return DONE
    if outdated := next((outcome for outcome in stops if outcome.outdated), None):
        return outdated
    first = next((outcome for outcome in stops if outcome.fails), stops[0])
    return replace(
        first,
        again=min(outcome.again or 0.0 for outcome in stops),
        not_before=max(outcome.not_before for outcome in stops),
        timed_out=any(outcome.timed_out for outcome in stops),
    )


def _stop(
    reason: str, message: str, again: float | None = None, *, rule: str = "", why: str = ""
) -> Outcome:
    """Return the outcome of a trouble; `rule` is that of its reason, unless there is another."""
    found = RULES[rule or reason]
    event = reason if found.final else ""
    seconds = found.again if again is None else again
    trouble = Trouble(reason, message, found.final)
    return Outcome(trouble, why or message, seconds, fails=found.fails, event=event)


def contribution_conflict(word: str, message: str) -> Outcome:
    """Return the outcome if another manager has a field that is to be added to an object."""
    text = f"Others have what is to be added to the {word}: {message[:500]}"
    return _stop("ContributionConflict", text, rule="Conflict")


def left_to(other: str, again: float) -> Outcome:
    """Return the outcome for what is left to another installation, which also tells the status."""
    text = f"it is left to another installation of the operator, {other}"
    return Outcome(Trouble("AnotherInstallation", text), text, again, reported=True)


def author_waits(reason: str, message: str, again: float) -> Outcome:
    """Return the outcome for an object whose author waits."""
    return Outcome(Trouble(reason, message), message, max(SOONEST, again), waits=True)


def kept(children: Sequence[Child]) -> str:
    """Return what is said of children that stay although they are not wanted any more."""
    names = [f"{child.kind.kind} {child.key[1]}" for child in children[:3]]
    more = f" and {len(children) - 3} more" if len(children) > 3 else ""
    return (
        f"Not wanted any more: {', '.join(names)}{more}. It stays because it may hold data; delete "
        "it if nobody needs it. (With prune=, the operator's author declares what becomes of "
        "it.)"
    )


def taken(word: str, name: str, value: str) -> Outcome:
    """Return the outcome for an object that wants a unique value which another one has."""
    text = f"Another {word} has the {name} {value:.200}."
    return _stop(f"{name[:1].upper()}{name[1:]}Taken", text, rule="Taken")


def holds_lost(word: str, name: str) -> Outcome:
    """Return the outcome if the API server does not keep which unique values an object has."""
    text = (
        f"The API server does not keep which {name} this {word} has (status.holds), so nothing is "
        "made for it; install the CRD that comes with this operator, and exempt the status from "
        "webhooks that change it"
    )
    return _stop("HoldsLost", text)


def invalid_plan(problem: str) -> Outcome:
    """Return the outcome of an invalid plan of the author's."""
    return _stop("InvalidPlan", problem)


def not_readable(error: NotReadableError) -> Outcome:
    """Return the outcome for an object that names what cannot be read."""
    if error.invalid:
        return invalid_plan(error.message)
    again = MAX_RETRY_SECONDS if error.after is None else error.after
    return author_waits(error.reason, error.message, again)


def conflict(wanted: Wanted, word: str, hand_over: str = "") -> Outcome:
    """Return the outcome for a child whose name is taken by somebody else's object.

    `hand_over` are the commands that make it a child, unless that would delete it. Nobody is told
    to delete it: it may be the only copy of somebody's data.
    """
    kind = wanted.kind.kind
    text = f"{wanted} exists and does not belong to this {word}. It is left alone. "
    if hand_over:
        text += f"If it should be this {word}'s, hand it over with `{hand_over}`; otherwise, give"
    else:
        text += f"Find out who needs that {kind}, or give"
    text += f" the {word} another name."
    return _stop("Conflict", text)


def stray(word: str, child: Child) -> str:
    """Return what to tell of an object with an owner's marks that is not deleted for it."""
    kind = child.kind.kind
    text = (
        f"{kind} {child.key[1]} has marks of this {word}, but not all of them, or somebody else "
        "set them, as on a copy. It is left alone."
    )
    if not child.retained:
        text += f" The garbage collector deletes it with this {word}, unless you remove its "
        text += "metadata.ownerReferences."
    return text


def changed_by_admission(wanted: Wanted, lost: list[str], update: Update | None = None) -> Outcome:
    """Return the outcome for a child from which admission removed marks at its creation."""
    text = (
        f"Admission removed or changed {', '.join(lost)} of {wanted}, "
        "by which the operator knows it; exempt it from the webhook or policy that does so"
    )
    if update is Update.RECREATE:
        text += f", then delete that {wanted.kind.kind}"
    return _stop("AdmissionChanged", text)


def finalizer_refused(word: str, finalizer: str) -> Outcome:
    """Return the outcome for an object from which admission removes the operator's finalizer."""
    text = (
        f"Admission removed the finalizer {finalizer} of this {word}, without which nothing would "
        "be cleaned up outside the cluster; exempt it from the webhook or policy that does so"
    )
    return _stop("AdmissionChanged", text)


def holding(finalizers: Sequence[str]) -> str:
    """Return who holds an object that is being deleted; two finalizers are Kubernetes' own."""
    return ", ".join(COLLECTING.get(name, name) for name in finalizers) or COLLECTOR


def contradicted(reason: str, message: str) -> Outcome:
    """Return the outcome for an answer that does not fit the others: late, or made by a webhook."""
    return _stop(reason, message)


def unserved(kind: Kind, name: str, namespace: str, why: str) -> Outcome:
    """Return the outcome for a child in a namespace that is not served."""
    text = f"{kind.kind} {name} is left alone: its namespace {namespace} is not served: {why}."
    return _stop("NamespaceNotServed", text)


def missing(kind: Kind, why: str) -> Outcome:
    """Return the outcome for a kind of children that cannot be served."""
    text = f"{kind.plural} cannot be served: {why}"
    return _stop("KindNotServed", text)


def terminating(kind: Kind, message: str, again: float) -> Outcome:
    """Return the outcome for a child that is being deleted without a watch on it."""
    return _stop(f"{kind.kind}Terminating", message, again, rule="Terminating")


def former_left(word: str, child: Child, now: float) -> Outcome:
    """Return the outcome for a child of an object that is gone."""
    kind, name = child.kind.kind, child.key[1]
    held = ", ".join(child.finalizers)
    overdue = child.deleting and now > child.deadline + OVERDUE
    if not child.deleting:
        text = f"The former {word}'s {kind} waits for the garbage collector."
        text += f" If it stays, delete the {kind} {name}."
    elif not overdue:
        text = f"The former {word}'s {kind} is being deleted."
    elif held:
        text = f"The former {word}'s {kind} is held by the finalizer {held}. "
        text += f"The {kind} is replaced once that finalizer is removed; ask its owner."
    else:
        text = f"The former {word}'s {kind} does not end: its node has not confirmed that. "
        text += f"If the node is lost, delete the Node, or the {kind} {name} by force."
    if overdue:
        return _stop(f"{kind}StuckTerminating", text, rule="StuckTerminating")
    return _stop(f"{kind}Terminating", text, rule="Terminating")


def back_off(wanted: Wanted, step: Plan, again: float) -> Outcome:
    """Return the outcome for a child that is replaced, or changed in place, too often."""
    done = "put right" if step.step is Step.APPLY else "replaced"
    text = f"{wanted} was {done} too often: {step.why}. "
    text += "The next one follows after a pause."
    return Outcome(Trouble("BackOff", text), text, again)


def waiting(wanted: Wanted, first: Wanted, why: str) -> Outcome:
    """Return the outcome for a child that comes after another one, which is not ready."""
    text = f"{wanted} waits for {first}: {why.rstrip('.')}."
    return _stop(WAITING, text)


def outside_failed(reason: str, message: str, again: float) -> Outcome:
    """Return the outcome of a failed call to an external API."""
    return Outcome(Trouble(reason, message), message, again, event=reason)
