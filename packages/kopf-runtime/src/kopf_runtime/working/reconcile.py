"""Reconciles one object: `observe` looks, `decide` decides, `act` carries it out, `status` reports.

The work queue calls `Reconciler.reconcile` with a key. Each child goes this way by itself, so that
no decision is older than the step before it. What `--dry-run` prints, and the condition of a paused
object says, are the same decisions.
"""

import asyncio

from msgspec.structs import replace

from kopf_runtime.declaring.errors import ApiError
from kopf_runtime.declaring.kinds import Key
from kopf_runtime.declaring.objects import UnreadableError
from kopf_runtime.declaring.records import Child, Owner, Plan, Step, Wanted
from kopf_runtime.reporting import troubles
from kopf_runtime.reporting.status import StatusReporter
from kopf_runtime.reporting.troubles import (
    DONE,
    Outcome,
    StepError,
    Trouble,
    attempt,
    attempt_each,
    changed,
    foremost,
)
from kopf_runtime.watching.caches import Caches
from kopf_runtime.working.act import TAKEN, Actor
from kopf_runtime.working.decide import KEEP, Action, decide
from kopf_runtime.working.external import External
from kopf_runtime.working.holds import Holds
from kopf_runtime.working.observe import First, Observation
from kopf_runtime.working.planner import Planner


class Reconciler:
    """Takes the next steps for the objects of one kind."""

    def __init__(
        self,
        caches: Caches,
        planner: Planner,
        observation: Observation,
        actor: Actor,
        external: External,
        holds: Holds,
        reporter: StatusReporter,
    ) -> None:
        self._caches, self._owners, self._planner = caches, caches.owners, planner
        self._observation, self._actor = observation, actor
        self._external, self._holds, self._reporter = external, holds, reporter
        self._word = caches.kind.kind
        steps = (external.finalize, external.ensure_finalizer), (caches.reads.parts, planner.read)
        self._first = [step for declared, step in steps if declared]  # before all others

    async def reconcile(self, key: Key) -> Outcome:
        """Take the next steps for the object of this key; return when the next ones follow."""
        began = asyncio.get_running_loop().time()
        owner = self._owners.cache.get(key)
        if owner is None:  # the garbage collector deletes its children
            self._reporter.forget(key)
            self._external.forget(key)
            self._actor.contribution.forget(key)
        if self._caches.why_unserved(key[0]):
            return DONE  # it is reconciled once the namespace is served
        if owner is None:
            if (skipped := self._owners.unreadable.get(key)) is not None:
                return await self._reporter.unreadable(skipped)
            return await attempt(self._leave(key)) if self._caches.selects else DONE
        steps = self._pause if owner.paused else self._end if owner.deleting else self._work
        outcome = await attempt(steps(owner))
        if outcome.reported or outcome.outdated:
            return outcome
        if outcome:
            waits = [self._external.due(key, began), self._caches.reads.due(owner)]
            reported = await self._reporter.stopped(owner, outcome)
        else:
            reported = await self._reporter.succeeded(owner)
            waits = [self._external.due(key), self._caches.reads.due(owner)]
        due = min((seconds for seconds in waits if seconds is not None), default=None)
        if reported.fails:  # nothing else calls or asks for it again
            return replace(reported, due=due if outcome else None)
        return reported.sooner(due)

    async def _leave(self, key: Key) -> Outcome:
        """Undo what was done for an object that the author's labels do not select any more."""
        fetched = await self._owners.fetch(key)
        if fetched is None or fetched[0].watched:  # if it is there, it is queued again
            return DONE
        owner = replace(fetched[0], wanted=(), problem="")
        children, stop = self._observation.observe(owner).removals()
        if stop := stop or await self._remove(owner, children):
            return stop
        if self._external.needs_cleanup(owner):
            await self._external.clean_up(owner, None)
        await self._reporter.take_back(self._owners.cache.get(owner.key) or owner)
        return await self._actor.contribution.undo(owner)

    # --- steps for the object itself ----------------------------------------------------------

    async def _pause(self, owner: Owner) -> Outcome:
        """Report what would be done for a paused object, unless another installation does."""
        if stop := self._observation.others.left(owner):
            return stop
        texts = [action.text for action in await self.preview(owner)]
        planned = owner.deleting or self._external.may_plan(owner)
        return await self._reporter.paused(owner, texts, planned=planned)

    async def _end(self, owner: Owner) -> Outcome:
        """Clean up for an object that is being deleted, and report which finalizers remain."""
        if self._external.needs_cleanup(owner):
            await self._external.clean_up(owner, await self._caches.reads.unread(owner))
            return troubles.REPORTED
        held = troubles.holding(owner.finalizers)
        text = f"The {self._word} is being deleted; {held} holds it."
        return await self._reporter.report(owner.key, Trouble("Terminating", text))

    async def _work(self, owner: Owner) -> Outcome:
        """Reconcile an object: what it needs, its external resources, its children, its check."""
        if stop := self._observation.others.left(owner):
            return stop
        if self._holds.uniques:
            if stop := await attempt(self._hold(owner)):
                return stop
            owner = self._owners.cache.get(owner.key) or owner  # with what it holds now
        for step in self._first:
            if stop := await attempt(step(owner)):
                return stop
        if not self._external.calls:
            return foremost([await attempt(self._children(owner, held=False))])
        return await self._work_outside(owner)

    async def _work_outside(self, owner: Owner) -> Outcome:
        """Work with external resources, too, whose results may change which children are wanted."""
        synced = await attempt(self._external.sync(owner))
        if synced.waits or synced.outdated:
            return synced
        # After any other failure, the previous result, if any, still determines the children.
        unchecked = await self._check_first(owner)
        stops = [unchecked]
        for _ in range(2):  # the children are planned again because of what `check` returns
            if unchecked.outdated:
                break
            stops = [stop := await attempt(self._children(owner, held=bool(unchecked)))]
            lacks = stop and not self._caches.has_children(owner)
            if unchecked or lacks or stop.outdated:
                break
            checked, news = await self._check(owner)
            stops.append(checked)
            if not news:
                break
        return foremost([*stops, synced, unchecked])

    async def _check_first(self, owner: Owner) -> Outcome:
        """Call `check` before the plan if its result got lost, as by a restart.

        Without the result, children that are there because of it would not be wanted.
        """
        cached = self._owners.cache.get(owner.key) or owner
        if not self._external.unchecked(cached) or not self._external.may_plan(cached):
            return DONE
        if not self._caches.has_children(cached):
            # Children of a kind that is absent now may be there once it is served again.
            if not any(source.absent(cached.key[0]) for source in self._caches.children.values()):
                self._external.not_checked_yet(cached)
            return DONE
        return (await self._check(cached))[0]

    async def _check(self, owner: Owner) -> tuple[Outcome, bool]:
        """Call `check` if it is due; return what stops it, and whether its result has changed."""
        try:
            return DONE, await self._external.check(owner)
        except (StepError, ApiError, UnreadableError) as error:
            return troubles.of(error), False

    async def _hold(self, owner: Owner) -> Outcome:
        """Have an object hold its unique values, unless another one has one of them."""
        try:
            stop = await self._holds.take(owner)
        except StepError as error:
            stop = error.outcome
        if not stop or stop.outdated:
            return stop
        if self._holds.drops(owner) or not self._caches.has_children(owner):
            return await self._give_up(owner) or stop
        return stop

    async def _give_up(self, owner: Owner) -> Outcome:
        """Delete the children, if any, of an object that cannot have a unique value."""
        bare = replace(owner, wanted=(), problem="")
        children, stop = self._observation.observe(bare).removals()
        if stop:
            return stop
        if children:
            await self._planner.verified(owner, planned=False)
            if not self._holds.drops(owner):
                raise changed(f"who has what the {self._word} wants changed meanwhile")
            if stop := await self._remove(owner, children):
                return stop
        settled = self._observation.observe(bare).is_settled()
        if settled and self._holds.surplus(owner, everything=True):
            await self._holds.release(owner, everything=True)
        return DONE

    # --- steps for its children ---------------------------------------------------------------

    async def _children(self, owner: Owner, *, held: bool) -> Outcome:
        """Plan the children of an object, if they can be planned, and take a step for each."""
        cached = self._owners.cache.get(owner.key)
        if cached is None or cached.uid != owner.uid or cached.deleting or cached.paused:
            raise changed(f"the {self._word} changed meanwhile")
        if self._holds.lacks(cached):  # it was edited after it had got what it wanted before
            raise changed(f"what the {self._word} wants to have alone changed meanwhile")
        if not self._external.may_plan(cached):
            return DONE
        owner = await self._planner.planned(cached)
        if stop := await self._take_steps(owner, held=held):
            return stop
        if stop := await self._actor.contribution.settle(owner):
            return stop
        if (
            not held
            and self._holds.surplus(owner)
            and self._observation.observe(owner).is_settled()
        ):
            await self._holds.release(owner)
        return DONE

    async def _take_steps(self, owner: Owner, *, held: bool) -> Outcome:
        """Take a step for each wanted child, then delete those that are no longer wanted.

        If they are held, those that exist stay as they are, except for an edit of their owner's.
        A kind that cannot be served holds up no other; it is reported at the end. But nothing is
        deleted for a child that cannot be made: it may be what takes the other one's place.
        """
        observed, known = self._observation.observe(owner), First()
        if not held:
            self._reporter.left_alone(owner, observed.strays)
            self._reporter.kept(owner, observed.kept)
        possible = filter(observed.can_be_served, observed.wanted)
        steps = (self._child(owner, wanted, known, held=held) for wanted in possible)
        if stop := await attempt_each(steps):
            return stop
        if stop := observed.why_missing((wanted.kind, wanted.key) for wanted in observed.wanted):
            return stop
        if not held and observed.surplus:
            children, stop = self._observation.observe(owner).removals()
            if children and self._planner.depends_on_more:
                children = await self._confirmed(owner, children)
            if stop := stop or await self._remove(owner, children):
                return stop
        return observed.why_missing((kind, (owner.key[0], "")) for kind in self._caches.descendants)

    async def _child(self, owner: Owner, wanted: Wanted, known: First, *, held: bool) -> Outcome:
        """Observe a child that is wanted, decide what to do about it, and do that."""
        with self._actor.serving(owner, wanted.kind, wanted.key):
            outcome, look = TAKEN, self._reporter.in_trouble(owner.key)
            for taken in (False, True):  # the API server may know an object that we do not
                if outcome is TAKEN:
                    seen = await self._observation.child(
                        owner, wanted, known, held=held, look=look, taken=taken
                    )
                    action = decide(seen, self._word)
                    outcome = await self._actor.take(action, seen)
        if action.plan.step is Step.CREATE and not outcome:
            self._external.recheck(owner.key)
        return outcome

    async def _confirmed(self, owner: Owner, children: list[Child]) -> list[Child]:
        """Return those that a plan of what is there now does not want either."""
        owner = await self._planner.verified(owner)
        uids = {child.uid for child in self._observation.observe(owner).surplus}
        return [child for child in children if child.uid in uids]

    async def _remove(self, owner: Owner, children: list[Child]) -> Outcome:
        """Delete children that are not wanted any more."""
        owned = self._observation.owned
        return await attempt_each(
            self._actor.remove(owner, child, owned[child.kind].update) for child in children
        )

    # --- what would be done -------------------------------------------------------------------

    async def preview(self, owner: Owner, *, dry: bool = False) -> list[Action]:
        """Return what a reconcile would do for an object first; write nothing.

        In a dry run, return what would change in the cluster: `sync` and `check` are not called.
        Raise `StepError` if its children cannot be planned.
        """
        if stop := self._holds.taken(owner):
            if not self._holds.drops(owner):
                raise StepError(stop)
            actions = self._removals(replace(owner, wanted=()), stop.why.rstrip("."))
            if not actions:
                raise StepError(stop)
            return actions
        steps = self._external.pending(owner, dry=dry)
        actions = [Action(KEEP, owner_step=f"{step} the {self._word}") for step in steps]
        if owner.deleting or not (dry or self._external.may_plan(owner)):
            return actions
        if stop := await self._planner.read(owner):
            raise StepError(stop)
        owner = await self._planner.planned(owner)
        held = not dry and self._external.unchecked(owner) and self._caches.has_children(owner)
        if held:
            actions.append(Action(KEEP, owner_step=f"check the {self._word}"))
        observed, known = self._observation.observe(owner), First()
        look = self._reporter.in_trouble(owner.key)
        for wanted in filter(observed.can_be_served, observed.wanted):
            seen = await self._observation.child(owner, wanted, known, held=held, look=look)
            actions.append(decide(seen, self._word))
        actions += [] if held else self._removals(owner, "it is not wanted any more")
        if not held and self._actor.contribution.pending(owner):
            actions.append(Action(KEEP, owner_step=f"change what it adds to the {self._word}"))
        return [action for action in actions if action.text]

    def _removals(self, owner: Owner, why: str) -> list[Action]:
        children, _ = self._observation.observe(owner).removals()
        return [Action(Plan(Step.DELETE, why=why), None, child) for child in children]
