"""Says in words what keeps an object from being right, and when it is tried again.

`reconcile` raises a `StopError` for what it finds itself, and asks `of` about any other error; both
end in the object's condition, an Event and a `RetryError`.
"""

from dataclasses import dataclass

from kopf_runtime.client import ApiError
from kopf_runtime.kinds import Kind
from kopf_runtime.queue import RetryError
from kopf_runtime.records import Update, Wanted

#: Seconds after which somebody else's object is looked at again at the earliest: it is not watched.
CONFLICT = 5.0
#: Seconds after which a plan that cannot be is looked at again.
INVALID = 60.0


@dataclass(frozen=True, slots=True)
class Trouble:
    """What keeps the runtime from doing its next step."""

    reason: str
    message: str
    #: Whether waiting alone does not help: somebody has to act.
    final: bool = False


class StopError(Exception):
    """The next step cannot be taken now."""

    def __init__(
        self, trouble: Trouble, retry: RetryError, *, event: str = "", paused: bool = False
    ) -> None:
        super().__init__(trouble.message)
        self.trouble, self.retry = trouble, retry
        #: The reason of the Event that tells of it, empty for none.
        self.event = event
        #: Whether it is no failure: the next step only follows later.
        self.paused = paused


def _stop(reason: str, message: str, again: float, *, final: bool = False) -> StopError:
    """Return a trouble that the runtime found; a final one is told by an Event, too."""
    retry = RetryError(message, pause=again)
    return StopError(Trouble(reason, message, final), retry, event=reason if final else "")


def invalid_plan(problem: str) -> StopError:
    """Return the trouble of an author's plan that cannot be."""
    return _stop("InvalidPlan", problem, INVALID, final=True)


def conflict(wanted: Wanted, word: str) -> StopError:
    """Return the trouble of a child whose name somebody else's object has."""
    kind = wanted.kind.kind
    text = (
        f"{wanted} exists and does not belong to this {word}. It is left "
        f"alone. Delete or rename that {kind}, or give the {word} another name."
    )
    return _stop("Conflict", text, CONFLICT, final=True)


def changed_by_admission(wanted: Wanted, lost: list[str], update: Update) -> StopError:
    """Return the trouble of a child that a webhook took marks from when it was made."""
    text = (
        f"Admission removed or changed {', '.join(lost)} of {wanted}, "
        "by which the operator knows it; exempt it from the webhook or policy that does so"
    )
    if update is Update.REPLACE:
        text += f", then delete that {wanted.kind.kind}"
    return _stop("AdmissionChanged", text, CONFLICT, final=True)


def unserved(kind: Kind, name: str, namespace: str, why: str) -> StopError:
    """Return the trouble of a child in a namespace that is not served."""
    text = f"{kind.kind} {name} is left alone: its namespace {namespace} is not served: {why}."
    return _stop("NamespaceNotServed", text, CONFLICT)


def terminating(kind: Kind, message: str, again: float) -> StopError:
    """Return the trouble of a child on its way out, of whose end no watch tells."""
    return _stop(f"{kind.kind}Terminating", message, again)


def back_off(wanted: Wanted, why: str, again: float) -> StopError:
    """Return the trouble of a child that is replaced too often."""
    text = f"{wanted} was replaced too often: {why}. "
    text += "The next one follows after a pause."
    return StopError(Trouble("BackOff", text), RetryError(text, pause=again), paused=True)


def outside_failed(reason: str, message: str, again: float) -> StopError:
    """Return the trouble of a call to what is outside the cluster."""
    retry = RetryError(message, pause=again)
    return StopError(Trouble(reason, message), retry, event=reason, paused=True)


def of(error: Exception) -> StopError:
    """Return what an error says to a person; raise `RetryError` for what no condition tells."""
    if isinstance(error, StopError):
        return error
    if not isinstance(error, ApiError):
        return _stop("Unreadable", str(error), CONFLICT, final=True)
    if error.reason == "Fenced":
        raise RetryError(str(error))
    trouble = Trouble(error.reason or "Refused", error.message or str(error), error.final)
    timed_out = error.status in (0, 504) and "Timeout" in error.reason
    retry = RetryError(str(error), after=error.after, timed_out=timed_out)
    return StopError(trouble, retry, event="Refused" if error.final else "Delayed")
