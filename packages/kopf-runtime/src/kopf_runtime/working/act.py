"""Carries out what `decide` says: writes and deletes children, and reports what was done.

Nothing else writes children. What may have changed meanwhile is a precondition of the write, or is
read again before it.
"""

from contextlib import AbstractContextManager, nullcontext

from msgspec.structs import replace

from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.fence import only_while
from kopf_runtime.declaring.errors import ApiError
from kopf_runtime.declaring.kinds import Key, Kind, may_hold_data
from kopf_runtime.declaring.records import Child, Fate, Owner, Plan, Step, Update
from kopf_runtime.reporting import troubles
from kopf_runtime.reporting.status import StatusReporter
from kopf_runtime.reporting.troubles import DONE, Outcome, StepError, changed
from kopf_runtime.watching.caches import Caches
from kopf_runtime.working import decide
from kopf_runtime.working.apply import Applier
from kopf_runtime.working.contribution import Contribution
from kopf_runtime.working.decide import Action, Seen
from kopf_runtime.working.pace import Pace
from kopf_runtime.working.planner import Planner
from kopf_runtime.working.queue import WorkQueue

#: An object of a child's name exists, contrary to what was known.
TAKEN = Outcome(why="exists")


class Actor:
    """Takes the steps for the children of the objects of one kind."""

    def __init__(
        self,
        client: Client,
        caches: Caches,
        planner: Planner,
        applier: Applier,
        pace: Pace,
        reporter: StatusReporter,
        queue: WorkQueue,
    ) -> None:
        self._client, self._caches, self._planner = client, caches, planner
        self._applier, self._pace, self._reporter = applier, pace, reporter
        self._queue = queue
        #: What is added to the object itself.
        self.contribution = Contribution(client, caches, planner, applier.marks, applier.others)
        self._word = caches.kind.kind

    def serving(self, owner: Owner, kind: Kind, key: Key) -> AbstractContextManager[None]:
        """Allow writes to a child in another namespace only while that namespace is served."""
        namespace, name = key
        self._queue.progress(owner.key)
        if namespace == owner.key[0]:
            return nullcontext()
        if why := self._caches.why_unserved(namespace):
            raise StepError(troubles.unserved(kind, name, namespace, why))
        return only_while(lambda: not self._caches.why_unserved(namespace))

    async def take(self, action: Action, seen: Seen) -> Outcome:
        """Take the step for a wanted child, unless something stops it."""
        step = action.plan
        if action.stop or step.step is Step.WAIT:
            return action.stop
        if step.step is Step.CREATE:
            return await self._create(seen)
        if step.step is Step.APPLY:
            return await self._apply(seen, step)
        if step.step is Step.DELETE:
            return await self._replace(seen, step)
        if step.step is Step.KEEP:
            self._applier.settled(seen.wanted)
        return DONE

    async def remove(self, owner: Owner, child: Child, update: Update) -> Outcome:
        """Delete a child that is not wanted any more."""
        if self._applier.others.contends(owner, child):
            return DONE
        why = f"the {self._word} does not want it any more"
        with self.serving(owner, child.kind, child.key):
            await self._planner.verify(owner)
            step = Plan(Step.DELETE, why=why)
            try:
                await self._applier.delete(owner, child, step, update)
            except ApiError as error:
                if error.status == 0:  # it may have been carried out
                    self._reporter.child_deleted(owner, child, why, unsure=True)
                raise
        self._reporter.child_deleted(owner, child, why, unsure=False)
        return DONE

    async def _create(self, seen: Seen) -> Outcome:
        """Create a child; return `TAKEN` if an object of its name exists already."""
        owner, wanted = seen.owner, seen.wanted
        former = self._pace.former(wanted, owner.uid)
        if former is not None and (wait := former.until - self._client.now()) > 0:
            return troubles.back_off(wanted, former.cause, wait)
        if wanted.outlives:  # the garbage collector does not delete it if the owner is gone by now
            await self._planner.verify(owner)
        child = await self._applier.create(owner, wanted, seen.owned.update)
        if child is None:
            return TAKEN
        self._reporter.child_created(owner, wanted, former.cause if former is not None else None)
        return decide.admission(owner, wanted, child, seen.owned)

    async def _apply(self, seen: Seen, step: Plan) -> Outcome:
        """Change a child in place."""
        owner, wanted, child, owned = seen.owner, seen.wanted, seen.present, seen.owned
        if step.verify:
            await self._planner.verify(owner)
        try:
            applied = await self._applier.apply(owner, wanted, child, owned.update)
        except ApiError as error:
            if not await self._is_immutable(seen, error):
                raise
            why = f"a field of the {wanted.kind.kind} cannot be changed in place"
            step = replace(step, step=Step.DELETE, reason="Replaced", why=why)
            if (wait := seen.pause(step)) > 0:
                return troubles.back_off(wanted, step, wait)
            return await self._replace(seen, step, orphan=owned.on_immutable is Fate.ORPHAN)
        if stop := decide.admission(owner, wanted, applied, owned):
            return stop
        self._pace.applied(child, wanted, self._client.now())
        self._reporter.child_changed(owner, wanted, step)
        return DONE

    async def _is_immutable(self, seen: Seen, error: ApiError) -> bool:
        """Return whether to replace a child that the API server refused to change in place.

        That it would accept the same manifest as a new object shows both that the change was what
        it refused, and that the deletion will not be in vain.
        """
        if error.status != 422 or seen.owned.on_immutable is None:
            return False
        return await self._applier.would_create(seen.owner, seen.wanted)

    def _is_older(self, owner: Owner, child: Child) -> bool:
        """Return whether a child that an edit replaces is older than all that its plan depends on.

        It was made for an older generation, so what is known of its owner is not from before it;
        one that may hold data is not deleted for what it says of itself.
        """
        return not (may_hold_data(child.kind) or self._planner.depends_on_more)

    async def _replace(self, seen: Seen, step: Plan, *, orphan: bool = False) -> Outcome:
        """Delete a child, and create the next one if it is gone at once."""
        owner, wanted, update = seen.owner, seen.wanted, seen.owned.update
        if not (step.edited and self._is_older(owner, seen.present)):
            owner = await self._planner.verified(owner)
        if wanted not in owner.wanted:
            raise changed(f"the plan for {wanted} changed meanwhile")
        left = await self._applier.delete(
            owner, seen.present, step, update, orphan=orphan, wanted=wanted
        )
        if left is not None:
            return decide.waits_for(left, owner, self._word, self._client.now())
        outcome = await self._create(seen)
        if outcome is TAKEN:
            raise changed(f"somebody else made {wanted}")
        return outcome
