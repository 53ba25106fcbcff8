"""Troubles: what stops a reconcile, in words for people, and when it is retried.

`reconcile` raises a `StopError` for the troubles that it finds, and `of` converts any other error.
Both are reported in the object's condition and an Event, and end in a `RetryError`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kopf_runtime.declaring.errors import MAX_RETRY_SECONDS, ApiError, RetryError
from kopf_runtime.declaring.kinds import Kind
from kopf_runtime.declaring.records import Child, Plan, Step, Update, Wanted
from kopf_runtime.watching.references import NotReadableError

#: Minimum seconds before a retry after a conflict: somebody else's object is not watched.
CONFLICT = 5.0
#: Seconds after the end of its grace period from which a child counts as stuck.
OVERDUE = 30.0
#: Minimum seconds before a retry of an invalid plan, and of one that waits for another child.
INVALID = 60.0
#: Seconds before an author's function is called again, at least, however soon it asks for that.
SOONEST = 1.0
COLLECTOR = "the garbage collector"
#: The finalizers of `kubectl delete --cascade=foreground` and `--cascade=orphan`, in words.
COLLECTING = {
    "foregroundDeletion": f"{COLLECTOR}, which deletes what it owns first,",
    "orphan": f"{COLLECTOR}, which sets free what it owns first,",
}
#: The reason of what only waits for another child.
WAITING = "Waiting"


@dataclass(frozen=True, slots=True)
class Trouble:
    """The reason why the runtime cannot take the next step."""

    reason: str
    message: str
    #: Whether a retry cannot succeed until somebody acts.
    final: bool = False


class StopError(Exception):
    """The next step cannot be taken now."""

    def __init__(
        self, trouble: Trouble, retry: RetryError, *, event: str = "", paused: bool = False
    ) -> None:
        super().__init__(trouble.message)
        self.trouble, self.retry = trouble, retry
        #: The reason of the Event that reports it; empty for no Event.
        self.event = event
        #: Whether nothing failed, and the next step only has to wait.
        self.paused = paused


class WaitingError(StopError):
    """An author's function waits."""


def author_waits(reason: str, message: str, again: float) -> WaitingError:
    """Return the error for an object whose author waits."""
    retry = RetryError(message, pause=max(SOONEST, again))
    return WaitingError(Trouble(reason, message), retry, paused=True)


def kept(children: Sequence[Child]) -> str:
    """Return what is said of children that stay although they are not wanted any more."""
    names = [f"{child.kind.kind} {child.key[1]}" for child in children[:3]]
    more = f" and {len(children) - 3} more" if len(children) > 3 else ""
    return (
        f"Not wanted any more: {', '.join(names)}{more}. It stays because it may hold data; delete "
        "it if nobody needs it. (With on_surplus=, the operator's author declares what becomes of "
        "it.)"
    )


def taken(word: str, name: str, value: str) -> StopError:
    """Return the error for an object that wants a unique value which another one has."""
    text = f"Another {word} has the {name} {value:.200}."
    reason = f"{name[:1].upper()}{name[1:]}Taken"
    return StopError(Trouble(reason, text), RetryError(text, pause=INVALID), paused=True)


def holds_lost(word: str, name: str) -> StopError:
    """Return the error for an API server that does not keep which unique values an object has."""
    text = (
        f"The API server does not keep which {name} this {word} has (status.holds), so nothing is "
        "made for it; install the CRD that comes with this operator, and exempt the status from "
        "webhooks that change it"
    )
    return _stop("HoldsLost", text, INVALID, final=True)


def _stop(reason: str, message: str, again: float, *, final: bool = False) -> StopError:
    """Return the error for a trouble; a final one is also reported by an Event."""
    retry = RetryError(message, pause=again)
    return StopError(Trouble(reason, message, final), retry, event=reason if final else "")


def invalid_plan(problem: str) -> StopError:
    """Return the error for an invalid plan of the author's."""
    return _stop("InvalidPlan", problem, INVALID, final=True)


def not_readable(error: NotReadableError) -> StopError:
    """Return the error for an object that names what cannot be read."""
    if error.invalid:
        return invalid_plan(error.message)
    again = MAX_RETRY_SECONDS if error.after is None else error.after
    return author_waits(error.reason, error.message, again)


def conflict(wanted: Wanted, word: str, hand_over: str = "") -> StopError:
    """Return the error for a child whose name is taken by somebody else's object.

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
    return _stop("Conflict", text, CONFLICT, final=True)


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


def changed_by_admission(
    wanted: Wanted, lost: list[str], update: Update | None = None
) -> StopError:
    """Return the error for a child from which admission removed marks at its creation."""
    text = (
        f"Admission removed or changed {', '.join(lost)} of {wanted}, "
        "by which the operator knows it; exempt it from the webhook or policy that does so"
    )
    if update is Update.RECREATE:
        text += f", then delete that {wanted.kind.kind}"
    return _stop("AdmissionChanged", text, CONFLICT, final=True)


def finalizer_refused(word: str, finalizer: str) -> StopError:
    """Return the error for an object from which admission removes the operator's finalizer."""
    text = (
        f"Admission removed the finalizer {finalizer} of this {word}, without which nothing would "
        "be cleaned up outside the cluster; exempt it from the webhook or policy that does so"
    )
    return _stop("AdmissionChanged", text, CONFLICT, final=True)


def holding(finalizers: Sequence[str]) -> str:
    """Return who holds an object that is being deleted; two finalizers are Kubernetes' own."""
    return ", ".join(COLLECTING.get(name, name) for name in finalizers) or COLLECTOR


def contradicted(reason: str, message: str) -> StopError:
    """Return the error for an answer that does not fit the others: late, or made by a webhook."""
    return _stop(reason, message, 0.0)


def unserved(kind: Kind, name: str, namespace: str, why: str) -> StopError:
    """Return the error for a child in a namespace that is not served."""
    text = f"{kind.kind} {name} is left alone: its namespace {namespace} is not served: {why}."
    return _stop("NamespaceNotServed", text, CONFLICT)


def missing(kind: Kind, why: str) -> StopError:
    """Return the error for a kind of children that cannot be served."""
    text = f"{kind.plural} cannot be served: {why}"
    return _stop("KindNotServed", text, CONFLICT)


def terminating(kind: Kind, message: str, again: float) -> StopError:
    """Return the error for a child that is being deleted without a watch on it."""
    return _stop(f"{kind.kind}Terminating", message, again)


def former_left(word: str, child: Child, now: float) -> StopError:
    """Return the error for a child of an object that is gone."""
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
        return _stop(f"{kind}StuckTerminating", text, CONFLICT, final=True)
    return _stop(f"{kind}Terminating", text, CONFLICT)


def back_off(wanted: Wanted, step: Plan, again: float) -> StopError:
    """Return the error for a child that is replaced, or changed in place, too often."""
    done = "put right" if step.step is Step.APPLY else "replaced"
    text = f"{wanted} was {done} too often: {step.why}. "
    text += "The next one follows after a pause."
    return StopError(Trouble("BackOff", text), RetryError(text, pause=again), paused=True)


def waiting(wanted: Wanted, first: Wanted, why: str) -> StopError:
    """Return the error for a child that comes after another one, which is not ready."""
    text = f"{wanted} waits for {first}: {why.rstrip('.')}."
    return StopError(Trouble(WAITING, text), RetryError(text, pause=INVALID), paused=True)


def outside_failed(reason: str, message: str, again: float) -> StopError:
    """Return the error for a failed call to an external API."""
    retry = RetryError(message, pause=again)
    return StopError(Trouble(reason, message), retry, event=reason, paused=True)


def foremost(errors: list[StopError]) -> StopError:
    """Return the error to report of several, with what all of them say about the next attempt.

    A child that only waits must not hide one that was refused, nor delay its next attempt.
    """
    first = next((error for error in errors if not error.paused), errors[0])
    first.retry.after = max(error.retry.after for error in errors)
    first.retry.pause = min(error.retry.pause for error in errors)
    first.retry.timed_out = any(error.retry.timed_out for error in errors)
    return first


def of(error: Exception) -> StopError:
    """Convert an error to a `StopError`; raise `RetryError` if no condition should report it."""
    if isinstance(error, StopError):
        return error
    if not isinstance(error, ApiError):
        return _stop("Unreadable", str(error), CONFLICT, final=True)
    if error.reason == "Fenced":
        raise RetryError(str(error))
    trouble = Trouble(error.reason or "Refused", error.message or str(error), error.final)
    retry = RetryError(str(error), after=error.after, timed_out=error.timed_out)
    return StopError(trouble, retry, event="Refused" if error.final else "Delayed")
