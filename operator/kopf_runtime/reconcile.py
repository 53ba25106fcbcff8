"""Brings one object and its children together: asks `plan`, has `apply` do it, tells the status.

The work queue calls `Reconciler.reconcile` with a key. Everything is decided on what is observed
now, so whatever was missed, repeated or interrupted before, the next step is right.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from kopf_runtime.apply import Applier, MutatedError
from kopf_runtime.client import ApiError, Client
from kopf_runtime.events import Recorder
from kopf_runtime.kinds import Key, Kind
from kopf_runtime.objects import UnreadableError
from kopf_runtime.pace import Pace
from kopf_runtime.plan import Plan, Step, plan, surplus
from kopf_runtime.queue import RetryError
from kopf_runtime.records import Child, Owned, Primary, Update, Wanted
from kopf_runtime.source import Source
from kopf_runtime.status import SETTLE, Observed, Status, StatusWriter, Trouble, ready

logger = logging.getLogger(__name__)

#: Seconds after which somebody else's object is looked at again at the earliest: it is not watched.
CONFLICT = 5.0
#: Seconds that an API server may ask for before the status tells of it at once.
LONG = 10.0


class _StopError(Exception):
    """The next step cannot be taken now; `again` is the seconds until it may be."""

    def __init__(self, trouble: Trouble, *, event: str = "", again: float, paused: bool = False):
        super().__init__(trouble.message)
        self.trouble, self.event, self.again, self.paused = trouble, event, again, paused


class Reconciler:
    """Takes the next steps for the objects of one kind."""

    def __init__(
        self, client: Client, primaries: Source[Primary], children: Mapping[Kind, Source[Child]],
        owned: Mapping[Kind, Owned], applier: Applier, pace: Pace, recorder: Recorder,
        status: Callable[[Observed], Status], serves: Callable[[str], bool],
    ) -> None:  # fmt: skip
        self._client, self._primaries, self._children = client, primaries, children
        self._owned, self._applier, self._pace, self._recorder = owned, applier, pace, recorder
        self._status, self._serves = status, serves
        self.writer = StatusWriter(client, primaries)
        # Why children were deleted, until the next ones are there.
        self._causes: dict[Key, dict[Key, Plan]] = {}
        self._taken: dict[Key, set[Key]] = {}  # names of children that somebody else has
        self._troubles: dict[Key, str] = {}  # what was logged of an object last
        self._word = primaries.kind.kind

    async def reconcile(self, key: Key) -> float | None:
        """Take the next steps for the object of this key.

        Return the seconds after which to look again, None if an event will tell.
        Raise `RetryError` for what may succeed later.
        """
        primary = self._primaries.cache.get(key)
        if primary is None:
            self.forget(key)
            return None  # the garbage collector takes its children
        if not self._serves(key[0]):
            return None  # it is reconciled once the namespace is served
        if primary.deleting:
            held = ", ".join(primary.finalizers) or "the garbage collector"
            gone = Trouble(
                "Terminating", f"The {self._word} is being deleted; {held} holds it.", False
            )
            return await self._tell(key, gone)
        try:
            if primary.problem:
                raise _StopError(
                    Trouble("InvalidPlan", primary.problem, True), event="InvalidPlan", again=60.0
                )
            await self._steps(primary)
        except (ApiError, MutatedError, UnreadableError, _StopError) as error:
            return await self._stopped(primary, error)
        self._troubles.pop(key, None)
        return await self._tell(key, None)

    def forget(self, key: Key) -> None:
        """Forget an object that is gone."""
        self.writer.forget(key)
        self._troubles.pop(key, None)
        self._causes.pop(key, None)
        self._taken.pop(key, None)

    async def _steps(self, primary: Primary) -> None:
        """Take a step for each child; one that fails does not hold up the others."""
        failed: Exception | None = None
        for wanted in primary.wanted:
            try:
                await self._child(primary, wanted)
            except MutatedError as error:
                self._taken.setdefault(primary.key, set()).add(wanted.key)
                failed = failed or error
            except (ApiError, UnreadableError, _StopError) as error:
                failed = failed or error
        if failed is not None:
            raise failed
        for owned in self._owned.values():
            mine = self._children[owned.kind].cache.owned(primary.uid)
            for child in surplus(mine, primary.wanted, owned):
                why = Plan(Step.DELETE, "Deleted", f"the {self._word} does not want it any more")
                await self._applier.delete(owned.kind, child, why)

    async def _child(self, primary: Primary, wanted: Wanted) -> None:
        """Take the next steps for one child: what is there, a second look, its successor."""
        owned = self._owned[wanted.kind]
        child = self._children[wanted.kind].cache.get(wanted.key)
        if child is None and wanted.key in self._taken.pop(primary.key, ()):
            child = await self._applier.look(wanted.kind, wanted)
        for _ in range(3):
            step = plan(primary, wanted, child, owned, self._lives, self._word)
            if step.step is Step.VERIFY and child is not None:
                await self._applier.verify(primary, child)
                step = Plan(Step.DELETE, step.reason, step.why)
            if step.step is Step.DELETE and child is not None:
                child = await self._delete(primary, wanted, child, step)
                if child is not None:
                    self._wait_for(child, primary, wanted)
                    return
            elif step.step in (Step.CREATE, Step.APPLY):
                if await self._write(primary, wanted, child, owned) is not None:
                    self._announce(primary, wanted, step)
                    return
                child = await self._applier.look(wanted.kind, wanted)
                if child is None:
                    raise RetryError(f"{wanted.kind.kind} {wanted.key[1]} came and went")
            else:
                self._leave(primary, wanted, child, step)
                return

    def _leave(self, primary: Primary, wanted: Wanted, child: Child | None, step: Plan) -> None:
        """Leave a child as it is; raise what keeps it from being right."""
        if step.step is Step.CONFLICT:
            self._taken.setdefault(primary.key, set()).add(wanted.key)
            raise self._conflict(wanted)
        if child is None:
            return
        if step.step is Step.WAIT:
            self._wait_for(child, primary, wanted)
        self._applier.check(child)

    def _wait_for(self, child: Child, primary: Primary, wanted: Wanted) -> None:
        """Come back for a child on its way out, unless a watch will tell when it is gone."""
        kind = wanted.kind.kind
        if child.owner != primary.uid:
            text = f"The former {self._word}'s {kind} is about to go."
            raise _StopError(Trouble(f"{kind}Terminating", text, False), again=CONFLICT)
        if not self._applier.is_watched(child):
            text = f"The former {kind} is about to end."
            raise _StopError(Trouble(f"{kind}Terminating", text, False), again=SETTLE)

    async def _delete(
        self, primary: Primary, wanted: Wanted, child: Child, step: Plan
    ) -> Child | None:
        self._applier.check(child)
        self._pause(self._pace.wait(child, self._client.now()), wanted, step)
        self._causes.setdefault(primary.key, {})[wanted.key] = step
        return await self._applier.delete(wanted.kind, child, step)

    async def _write(
        self, primary: Primary, wanted: Wanted, child: Child | None, owned: Owned
    ) -> Child | None:
        now = self._client.now()
        cause = self._causes.get(primary.key, {}).get(wanted.key)
        step = cause or Plan(Step.CREATE, "Healed", f"its {wanted.kind.kind} was gone")
        self._pause(self._pace.wait_to_make(wanted.kind, wanted.key, now), wanted, step)
        if owned.update is Update.APPLY:
            writing = self._applier.apply(primary, wanted, child)
        else:
            writing = self._applier.create(primary, wanted)
        return await self._patiently(primary, wanted, writing)

    def _pause(self, seconds: float, wanted: Wanted, step: Plan) -> None:
        """Stop if the next step comes too soon after the one before."""
        if seconds > 0:
            text = f"{wanted.kind.kind} {wanted.key[1]} was replaced too often: {step.why}. "
            text += "The next one follows after a pause."
            raise _StopError(Trouble("BackOff", text, False), again=seconds, paused=True)

    async def _patiently(
        self, primary: Primary, wanted: Wanted, writing: Coroutine[Any, Any, Child | None]
    ) -> Child | None:
        """Wait for a write, and tell in the status if it takes long."""
        task = asyncio.ensure_future(writing)
        try:
            done, _ = await asyncio.wait({task}, timeout=SETTLE)
            if not done:
                text = (
                    f"The API server has not answered the request for {wanted.kind.kind} "
                    f"{wanted.key[1]} yet; an admission webhook may be slow."
                )
                await self._tell(primary.key, Trouble("SlowApiServer", text, False), at_once=True)
            return await task
        finally:
            task.cancel()

    def _lives(self, uid: str) -> bool:
        return any(one.uid == uid for one in self._primaries.cache)

    # --- what is told -------------------------------------------------------------------------

    def _announce(self, primary: Primary, wanted: Wanted, step: Plan) -> None:
        """Record the Event of a child that was made or changed."""
        name = f"{wanted.kind.kind} {wanted.key[1]}"
        cause = self._causes.get(primary.key, {}).pop(wanted.key, None)
        reference = self.reference(primary)
        if step.step is Step.APPLY:
            self._recorder.normal(reference, step.reason, f"Changed {name}: {step.why}.")
        elif cause is None and not self._was_there(primary, wanted):
            self._recorder.normal(reference, "Created", f"Created {name}.")
        else:
            cause = cause or Plan(Step.CREATE, "Healed", f"its {wanted.kind.kind} was gone")
            replaced = cause.reason == "Replaced"
            done = f"Replaced {name}" if replaced else f"Created {name} again"
            self._recorder.normal(reference, cause.reason, f"{done}: {cause.why}.")

    def _was_there(self, primary: Primary, wanted: Wanted) -> bool:
        """Tell whether the child was there when the status was written."""
        condition = ready(primary.status)
        all_were = condition.get("status") == "True"
        return wanted.key[1] in primary.status.values() or (
            all_were and condition.get("observedGeneration") == primary.generation
        )

    def reference(self, primary: Primary) -> dict[str, Any]:
        """Return the object reference by which Events name an object."""
        return {
            "apiVersion": self._primaries.kind.api_version, "kind": self._word,
            "namespace": primary.key[0], "name": primary.key[1], "uid": primary.uid,
            "resourceVersion": str(primary.version),
        }  # fmt: skip

    def _conflict(self, wanted: Wanted) -> _StopError:
        kind = wanted.kind.kind
        text = (
            f"{kind} {wanted.key[1]} exists and does not belong to this {self._word}. It is left "
            f"alone. Delete or rename that {kind}, or give the {self._word} another name."
        )
        return _StopError(Trouble("Conflict", text, True), event="Conflict", again=CONFLICT)

    async def _stopped(self, primary: Primary, error: Exception) -> float | None:
        """Tell why the next step could not be taken, and have it tried again."""
        if isinstance(error, _StopError):
            trouble, event = error.trouble, error.event
            retry = RetryError(trouble.message, pause=error.again)
        elif isinstance(error, ApiError):
            if error.reason == "Fenced":
                raise RetryError(str(error))
            trouble = Trouble(error.reason or "Refused", error.message or str(error), error.final)
            event = "Refused" if error.final else "Delayed"
            timed_out = error.status in (0, 504) and "Timeout" in error.reason
            retry = RetryError(str(error), after=error.after, timed_out=timed_out)
        else:
            reason = "AdmissionChanged" if isinstance(error, MutatedError) else "Unreadable"
            trouble, event = Trouble(reason, f"{error}"[:1].upper() + f"{error}"[1:], True), reason
            retry = RetryError(str(error), pause=CONFLICT)
        if self._troubles.get(primary.key) != trouble.reason:
            self._troubles[primary.key] = trouble.reason
            logger.warning("%s: %s", trouble.reason, error)
        wait = await self._tell(primary.key, trouble, event=event, at_once=retry.after > LONG)
        if isinstance(error, _StopError) and error.paused:
            return min(error.again, wait or error.again)
        if wait is not None:  # the status is yet to settle
            retry.pause = min(retry.pause or wait, wait)
        raise retry

    async def _tell(
        self, key: Key, trouble: Trouble | None, *, event: str = "", at_once: bool = False
    ) -> float | None:
        """Write how the object fares now; return the seconds after which to look again."""
        primary = self._primaries.cache.get(key)
        if primary is None:
            return None
        children = (self._children[w.kind].cache.get(w.key) for w in primary.wanted)
        mine = tuple(c for c in children if c is not None and c.owner == primary.uid)
        now = self._status(Observed(primary, mine, trouble, self._client.now()))
        try:
            wait, news = await self.writer.tell(primary, now, at_once=at_once)
        except ApiError as error:
            raise RetryError(str(error), after=error.after) from error
        if news and event and trouble is not None:
            self._recorder.warning(self.reference(primary), event, trouble.message)
        waits = [seconds for seconds in (wait, now.again) if seconds is not None]
        return min(waits, default=None)
