"""Reports an object's state in its status, in Events, and in the log.

`reconcile` calls the `StatusReporter` with what was done and what failed. An author's `status` then
computes the object's state, and `StatusWriter` writes it if it differs from the stored one.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from msgspec import structs

from kopf_runtime.cluster import tracing
from kopf_runtime.declaring.conditions import Condition, Status, build, condition
from kopf_runtime.declaring.context import StepContext
from kopf_runtime.declaring.errors import ApiError
from kopf_runtime.declaring.foreign import Foreign
from kopf_runtime.declaring.kinds import Key
from kopf_runtime.declaring.records import Child, Owner, Plan, Unreadable, Wanted
from kopf_runtime.reporting import troubles
from kopf_runtime.reporting.events import Deps, about
from kopf_runtime.reporting.foreign_state import ForeignStateWriter
from kopf_runtime.reporting.status_writer import StatusWriter
from kopf_runtime.reporting.troubles import REPORTED, Outcome, StepError, Trouble
from kopf_runtime.watching.observer import Observer
from kopf_runtime.watching.source import Source

logger = logging.getLogger(__name__)

#: If a Retry-After is longer than these seconds, the status reports it at once.
LONG = 10.0


@dataclass(frozen=True, repr=False, kw_only=True)
class Observed(StepContext[Any]):
    """An object's children and how it fares, as `status` sees them: a `StepContext` with the rest.

    `trouble` is why the runtime cannot take the next step, or None. `unready` says which children
    are not ready, and why, such as "Job load: it has not completed yet". `missing` is the number of
    children that do not exist yet.
    """

    trouble: Trouble | None = None
    unready: tuple[str, ...] = ()
    missing: int = 0

    __hash__ = StepContext.__hash__


def default_status(seen: Observed) -> Status:
    """Return the status of an object without an author's `status`: ready if all children are."""
    if seen.trouble is not None:
        return _troubled(Status(False, "", ""), seen.trouble)
    if seen.missing:
        text = f"{seen.missing} of its objects are missing."
        return Status(False, "Progressing", text, transient=True)
    if seen.unready:
        text = "; ".join(reason.rstrip(".") for reason in seen.unready)
        return Status(False, "NotReady", f"{text}.", transient=True)
    return Status(True, "Reconciled", "All of its objects are there.")


def _default(_: Any, seen: Observed) -> Status:
    return default_status(seen)


def _troubled(state: Status, trouble: Trouble | None) -> Status:
    """Return a state that says what keeps the runtime from its work, whatever it said before."""
    if trouble is None:
        return state
    reason, text, passes = trouble.reason, trouble.message, not trouble.final
    return replace(state, ready=False, reason=reason, message=text, transient=passes)


class StatusReporter:
    """Reports the state of the objects of one kind."""

    def __init__(
        self,
        deps: Deps,
        owners: Source[Owner],
        observer: Observer,
        status: Callable[[Any, Any], Status] | None,
        foreign: Foreign | None = None,
    ) -> None:
        metrics = deps.metrics
        self._refusals = metrics.statuses_refused.labels(metrics.name_of(owners.kind))
        self._owners, self._observer = owners, observer
        self._recorder, self._status = deps.recorder, status or _default
        #: What writes the state: into the status, unless that is somebody else's.
        self._writer: StatusWriter | ForeignStateWriter = (
            StatusWriter(deps.client, owners)
            if foreign is None
            else ForeignStateWriter(deps, owners, foreign)
        )
        self._troubles: dict[Key, str] = {}  # the reason of an object's trouble
        self._refused: set[Key] = set()  # the objects whose status cannot be written
        self._would: dict[Key, str] = {}  # what would be done for an object that is paused
        self._kept: dict[Key, str] = {}  # what stays although it is not wanted
        self._strays: dict[Key, frozenset[str]] = {}  # the uids that were reported as left alone

    def forget(self, key: Key) -> None:
        """Forget an object that is gone."""
        self._writer.forget(key)
        self._troubles.pop(key, None)
        self._refused.discard(key)
        self._would.pop(key, None)
        self._strays.pop(key, None)
        self._kept.pop(key, None)

    def is_own_write(self, record: Owner, former: Owner) -> bool:
        """Return whether a change is nothing but the status that is being written."""
        ours = record.deleting, record.finalizers, record.state
        same = ours == (former.deleting, former.finalizers, former.state)
        return same and record.key in self._writer.sending

    async def take_back(self, owner: Owner) -> None:
        """Take the state from an object of others that is not served any more."""
        if isinstance(self._writer, ForeignStateWriter):
            await self._writer.write_state(owner, None)

    def in_trouble(self, key: Key) -> bool:
        """Return whether the last reconcile of the object ended in trouble."""
        return key in self._troubles

    # --- what was done ------------------------------------------------------------------------

    def child_created(self, owner: Owner, wanted: Wanted, cause: Plan | None) -> None:
        """Report a created child; with a cause, it replaces another one."""
        if cause is None or not cause.reason:
            self._record(owner, "Created", f"Created {wanted}.")
        else:
            done = f"Replaced {wanted}" if cause.reason == "Replaced" else f"Created {wanted} again"
            self._record(owner, cause.reason, f"{done}: {cause.why}.")

    def child_changed(self, owner: Owner, wanted: Wanted, step: Plan) -> None:
        """Report a child that was changed in place."""
        self._record(owner, step.reason, f"Changed {wanted}: {step.why}.")

    def child_deleted(self, owner: Owner, child: Child, why: str, *, unsure: bool) -> None:
        """Report a child that was deleted for good; `unsure` means that no answer came."""
        done = "Asked without an answer to delete" if unsure else "Deleted"
        self._record(owner, "Deleted", f"{done} {child.kind.kind} {child.key[1]}: {why}.")

    def kept(self, owner: Owner, children: Sequence[Child]) -> None:
        """Remember what stays although it is not wanted, for the condition that says so."""
        self._kept[owner.key] = troubles.kept(children) if children else ""

    def left_alone(self, owner: Owner, strays: Sequence[Child]) -> None:
        """Report once each of the objects that have an owner's marks and are not deleted for it."""
        reported = self._strays.pop(owner.key, frozenset())
        for child in strays:
            if child.uid not in reported:
                text = troubles.stray(self._owners.kind.kind, child)
                self._recorder.warning(about(self._owners.kind, owner), "LeftAlone", text)
        if strays:
            self._strays[owner.key] = frozenset(child.uid for child in strays)

    def _record(self, owner: Owner, reason: str, message: str) -> None:
        self._recorder.normal(about(self._owners.kind, owner), reason, message)

    # --- how it fares -------------------------------------------------------------------------

    async def succeeded(self, owner: Owner) -> Outcome:
        """Report an object without trouble; return when the next attempt follows."""
        cached = self._owners.cache.get(owner.key)
        if cached is None or cached.state != owner.state:
            return REPORTED  # it changed meanwhile, and is queued again
        self._troubles.pop(owner.key, None)
        return await self.report(owner.key, None)

    async def paused(self, owner: Owner, would: Sequence[str], *, planned: bool) -> Outcome:
        """Report an object that is paused, and what would be done for it.

        If its children are not planned, it stays as it was: how it is doing is not known.
        """
        self._troubles.pop(owner.key, None)
        self._would[owner.key] = f"Would {'; '.join(would)}." if would else "Nothing is to be done."
        return await self.report(owner.key, None, planned=planned)

    async def stopped(self, owner: Owner, outcome: Outcome) -> Outcome:
        """Report what stops the next step; return when the next attempt follows."""
        assert outcome.trouble is not None
        reason = outcome.trouble.reason
        if self._troubles.get(owner.key) != reason:
            self._troubles[owner.key] = reason
            level = logging.INFO if reason == troubles.WAITING else logging.WARNING
            logger.log(level, "%s: %s", reason, outcome.why)
        # What has timed out has lasted, and the next attempt may take a minute before it fails.
        at_once = outcome.not_before > LONG or outcome.timed_out
        event = outcome.event
        try:
            reported = await self.report(owner.key, outcome.trouble, event=event, at_once=at_once)
        except Exception:  # it must not hide how long the next attempt has to wait
            logger.exception("The status failed")
            return structs.replace(outcome, fails=True)
        if reported.fails:
            # However long the step waits, its status is written as soon as that is possible.
            after = max(outcome.not_before, reported.not_before)
            return structs.replace(outcome, fails=True, again=reported.again, not_before=after)
        again = reported.again  # the status is written later
        if again is not None:
            again = min(outcome.again or again, again)
        return structs.replace(
            outcome, again=outcome.again if again is None else again, reported=True
        )

    async def unreadable(self, skipped: Unreadable) -> Outcome:
        """Report once that an object cannot be read."""
        if skipped.reported:
            return REPORTED
        try:
            await self._writer.write_unreadable(skipped)
        except ApiError as error:
            if error.status != 404:  # it is gone, or its kind has no status subresource
                if error.final:
                    self._refusals.inc()
                return _refused(error)
        cached = self._owners.unreadable.get(skipped.key)  # our own write made a newer one
        if cached is not None and skipped.is_as(cached):
            self._owners.unreadable.put(structs.replace(cached, reported=True))
        return REPORTED

    async def report(
        self,
        key: Key,
        trouble: Trouble | None,
        *,
        event: str = "",
        at_once: bool = False,
        planned: bool = True,
    ) -> Outcome:
        """Write the object's current state; return when the next attempt follows.

        Raise the error of the author's code, if any, once the status says so.
        """
        owner = self._owners.cache.get(key)
        if owner is None:
            return REPORTED
        children = self._observer.wanted(owner)
        missing = len(self._observer.served(owner)) - len(children)
        if trouble is not None and not owner.wanted:  # which are wanted may be unknown
            children = self._observer.children(owner)
        unready = tuple(
            f"{c.kind.kind} {c.key[1]}: {why}" for c in children if (why := why_unready(c))
        )
        observed = Observed(
            trouble=trouble,
            unready=unready,
            missing=missing,
            **self._observer.given(owner, children),
        )
        now, wanted, failed = self._state(owner, observed if planned else None)
        tracing.note("reconcile.reason", now.reason)
        try:
            wait, news = await self._writer.write(owner, now, wanted, at_once=at_once)
        except StepError as error:
            return error.outcome
        except ApiError as error:
            self._report_refusal(owner, error)
            return _refused(error)
        if wait is None:  # the status was written, or is as it should be
            self._refused.discard(key)
        if news and event and trouble is not None:
            self._recorder.warning(about(self._owners.kind, owner), event, trouble.message)
        if failed is not None:
            raise failed
        again = None if now.requeue_after is None else max(troubles.SOONEST, now.requeue_after)
        return structs.replace(REPORTED, again=wait).sooner(again)

    def _report_refusal(self, owner: Owner, error: ApiError) -> None:
        """Report once, in the log and in an Event, that the status stays at a former state."""
        if not error.final:
            return
        self._refusals.inc()
        if owner.key not in self._refused:
            self._refused.add(owner.key)
            logger.warning("The status cannot be written: %s", error)
            text = f"The status cannot be written, and may be outdated: {error.message}"
            self._recorder.warning(about(self._owners.kind, owner), "StatusRefused", text)

    def _state(
        self, owner: Owner, observed: Observed | None
    ) -> tuple[Status, dict[str, Any], Exception | None]:
        """Return the state of an object, the status that says so, and the author's error.

        If the author's code fails, that is the state: the former one may not be true any more. But
        a trouble comes first: it may be why the code fails, and an author may forget to report it.
        """
        failed, trouble = None, observed.trouble if observed is not None else None
        try:
            state = (
                self._status(owner.view, observed) if observed is not None else _as_before(owner)
            )
            now = self._with_pause(owner, _troubled(state, trouble))
            wanted = build(owner.status, owner.generation, now)
            if lost := [n for n in owner.recorded if wanted.get(n) != owner.status.get(n)]:
                raise TypeError(
                    f"it would overwrite what context.record has stored in {', '.join(lost)}; "
                    "return a class without these fields"
                )
            msgspec.json.encode(wanted)  # half a character, for example, cannot be sent
        except Exception as error:
            failed = error
            text = f"the status failed: {type(error).__name__}: {error}"[:500]
            now = _troubled(Status(False, "InvalidStatus", text), trouble)
            now = self._with_pause(owner, now)
            wanted = build(owner.status, owner.generation, now)
        return now, wanted, failed

    def _with_pause(self, owner: Owner, now: Status) -> Status:
        """Return the status with the condition `Paused`, if the object is paused or was so."""
        now = self._with_kept(owner, now)
        others = [other for other in now.conditions if other.type != "Paused"]
        if owner.paused:
            would = self._would.get(owner.key, "It is paused by its annotation.")
            pause = Condition("Paused", True, "Annotated", would)
        else:
            self._would.pop(owner.key, None)
            stored = condition(owner.status, "Paused")
            was = (stored.get("status"), stored.get("reason")) == ("True", "Annotated")
            if not was or len(others) < len(now.conditions):  # the author has one of that name
                return now
            pause = Condition("Paused", False, "Resumed")
        return replace(now, conditions=(*others, pause))

    def _with_kept(self, owner: Owner, now: Status) -> Status:
        """Return the status with the condition `ChildrenKept`, if something stays or did so."""
        text = self._kept.get(owner.key)  # None: that is not known yet
        stored = condition(owner.status, "ChildrenKept")
        was = (stored.get("status"), stored.get("reason")) == ("True", "MayHoldData")
        theirs = any(other.type == "ChildrenKept" for other in now.conditions)
        if theirs or text is None or not (text or was):
            return now
        reason = "MayHoldData" if text else "Gone"
        kept = Condition("ChildrenKept", bool(text), reason, text)
        return replace(now, conditions=(*now.conditions, kept))


def _refused(error: ApiError) -> Outcome:
    """Return the outcome of a status that cannot be written: only the log says so."""
    return Outcome(why=str(error), again=0.0, not_before=error.after, fails=True)


def _as_before(owner: Owner) -> Status:
    """Return the stored state of an object, if it is the one of its spec."""
    ready = condition(owner.status, "Ready")
    if not ready or owner.status.get("observedGeneration") != owner.generation:
        return Status(False, "Paused", "It is paused, and what it needs is not known.")
    return Status(
        ready.get("status") == "True", str(ready.get("reason")), str(ready.get("message"))
    )


def why_unready(child: Child) -> str:
    """Return why a child is not ready; its own status may not say that it is about to go."""
    if not child.deleting:
        return child.unready
    held = f"; {troubles.holding(child.finalizers)} holds it" if child.finalizers else ""
    return f"it is being deleted{held}"
