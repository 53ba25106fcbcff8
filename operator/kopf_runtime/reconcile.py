"""Brings one object and its children together: asks `plan`, has `apply` do it, tells the status.

The work queue calls `Reconciler.reconcile` with a key. Everything is decided on what is observed
now, so whatever was missed, repeated or interrupted before, the next step is right.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from kopf_runtime import troubles
from kopf_runtime.apply import Applier
from kopf_runtime.client import ApiError, Client
from kopf_runtime.events import Recorder
from kopf_runtime.kinds import Key, Kind
from kopf_runtime.objects import UnreadableError
from kopf_runtime.pace import Pace
from kopf_runtime.plan import Plan, Step, gone, plan, stripped, surplus
from kopf_runtime.queue import RetryError
from kopf_runtime.records import Child, Owned, Primary, Update, Wanted
from kopf_runtime.source import Source
from kopf_runtime.status import SETTLE, Observed, Status, StatusWriter, ready
from kopf_runtime.troubles import StopError, Trouble

logger = logging.getLogger(__name__)

#: Seconds that an API server may ask for before the status tells of it at once.
LONG = 10.0


C = TypeVar("C")


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
        self._troubles: dict[Key, str] = {}  # what keeps an object from being right
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
            gone = Trouble("Terminating", f"The {self._word} is being deleted; {held} holds it.")
            return await self._tell(key, gone)
        try:
            if primary.problem:
                raise troubles.invalid_plan(primary.problem)
            await self._steps(primary)
        except (ApiError, UnreadableError, StopError) as error:
            return await self._stopped(primary, error)
        self._troubles.pop(key, None)
        return await self._tell(key, None)

    def forget(self, key: Key) -> None:
        """Forget an object that is gone."""
        self.writer.forget(key)
        self._troubles.pop(key, None)

    async def _steps(self, primary: Primary) -> None:
        """Take a step for each child; one that fails does not hold up the others."""
        failed: Exception | None = None
        for wanted in primary.wanted:
            try:
                await self._child(primary, wanted)
            except (ApiError, UnreadableError, StopError) as error:
                failed = failed or error
        if failed is not None:
            raise failed
        for owned in self._owned.values():
            mine = self._children[owned.kind].cache.owned(primary.uid)
            for child in surplus(mine, primary.wanted, owned):
                why = Plan(Step.DELETE, "Deleted", f"the {self._word} does not want it any more")
                await self._applier.delete(owned.kind, child, why)

    async def _child(self, primary: Primary, wanted: Wanted) -> None:
        """Take the next step for one child."""
        owned = self._owned[wanted.kind]
        child = self._children[wanted.kind].cache.get(wanted.key)
        if child is None and (owned.update is Update.APPLY or primary.key in self._troubles):
            child = await self._applier.look(wanted)  # no watch tells of what is not ours
        if child is None:
            if await self._make(primary, wanted):
                return
            if (child := await self._applier.look(wanted)) is None:
                raise RetryError(f"{wanted} came and went")
        step = plan(
            primary, wanted, child, owned, self._lives, self._word,
            as_admitted=child.uid in self._applier.stripped,
        )  # fmt: skip
        match step.step:
            case Step.DELETE | Step.VERIFY:
                await self._replace(primary, wanted, child, step)
            case Step.APPLY:
                applying = self._applier.apply(primary, wanted, child)
                applied = await self._patiently(primary, wanted, applying)
                text = f"Changed {wanted}: {step.why}."
                self._recorder.normal(self.reference(primary), step.reason, text)
                self._check(primary, wanted, applied)
            case Step.WAIT:
                self._wait_for(wanted.kind, child, primary)
            case Step.CONFLICT:
                raise troubles.conflict(wanted, self._word)
            case Step.ADMISSION:
                self._check(primary, wanted, child)

    async def _replace(self, primary: Primary, wanted: Wanted, child: Child, step: Plan) -> None:
        """Delete a child, and make the next one if it is gone at once."""
        if step.step is Step.VERIFY:
            await self._applier.verify(primary, child)
        self._pause(self._pace.wait(child, step, self._client.now()), wanted, step)
        left = await self._applier.delete(wanted.kind, child, step)
        if left is not None:
            self._wait_for(wanted.kind, left, primary)
        elif not await self._make(primary, wanted):
            raise RetryError(f"somebody else made {wanted}")

    def _wait_for(self, kind: Kind, child: Child, primary: Primary) -> None:
        """Come back for a child on its way out, unless a watch will tell when it is gone."""
        if child.owner != primary.uid:
            text = f"The former {self._word}'s {kind.kind} is about to go."
            raise troubles.terminating(kind, text, troubles.CONFLICT)
        if not child.watched:
            raise troubles.terminating(kind, f"The former {kind.kind} is about to end.", SETTLE)

    async def _make(self, primary: Primary, wanted: Wanted) -> bool:
        """Make a child; False if something of its name is there already."""
        former = self._pace.former(wanted.kind, wanted.key)
        if former is not None:
            self._pause(former.until - self._client.now(), wanted, former.cause)
        in_place = self._owned[wanted.kind].update is Update.APPLY
        make = self._applier.apply if in_place else self._applier.create
        child = await self._patiently(primary, wanted, make(primary, wanted))
        if child is None:
            return False
        cause = former.cause if former is not None else None
        if cause is None and self._was_there(primary, wanted):
            cause = gone(wanted.kind)
        self._announce(primary, wanted, cause)
        self._check(primary, wanted, child)
        return True

    def _check(self, primary: Primary, wanted: Wanted, child: Child) -> None:
        """Stop at a child that admission has taken marks from."""
        if lost := stripped(primary, child):
            raise troubles.changed_by_admission(wanted, lost)

    def _pause(self, seconds: float, wanted: Wanted, step: Plan) -> None:
        """Stop if the next step comes too soon after the one before."""
        if seconds > 0:
            raise troubles.back_off(wanted, step.why, seconds)

    async def _patiently(
        self, primary: Primary, wanted: Wanted, writing: Coroutine[Any, Any, C]
    ) -> C:
        """Wait for a write, and tell in the status if it takes long."""
        task = asyncio.ensure_future(writing)
        try:
            done, _ = await asyncio.wait({task}, timeout=SETTLE)
            if not done:
                text = (
                    f"The API server has not answered the request for {wanted} yet; "
                    "an admission webhook may be slow."
                )
                await self._tell(primary.key, Trouble("SlowApiServer", text), at_once=True)
            return await task
        finally:
            task.cancel()

    def _lives(self, uid: str) -> bool:
        return any(one.uid == uid for one in self._primaries.cache)

    # --- what is told -------------------------------------------------------------------------

    def _announce(self, primary: Primary, wanted: Wanted, cause: Plan | None) -> None:
        """Record the Event of a child that was made, in another one's place if there is a cause."""
        reference = self.reference(primary)
        if cause is None:
            self._recorder.normal(reference, "Created", f"Created {wanted}.")
        else:
            done = f"Replaced {wanted}" if cause.reason == "Replaced" else f"Created {wanted} again"
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

    async def _stopped(self, primary: Primary, error: Exception) -> float | None:
        """Tell why the next step could not be taken, and have it tried again."""
        stop = troubles.of(error)
        retry, reason = stop.retry, stop.trouble.reason
        if self._troubles.get(primary.key) != reason:
            self._troubles[primary.key] = reason
            logger.warning("%s: %s", reason, error)
        at_once = retry.after > LONG
        wait = await self._tell(primary.key, stop.trouble, event=stop.event, at_once=at_once)
        if stop.paused:
            return min(retry.pause, wait or retry.pause)
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
