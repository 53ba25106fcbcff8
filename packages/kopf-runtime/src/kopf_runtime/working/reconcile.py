"""Reconciles one object: `plan` decides each step, `apply` carries it out, `status` reports it.

The work queue calls `Reconciler.reconcile` with a key. Every decision depends only on the observed
state, so it is right no matter which events were missed, repeated or interrupted.
"""

import asyncio
import dataclasses
import functools
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from kopf_runtime.cluster.fence import only_while
from kopf_runtime.declaring.controller_declaration import Declaration
from kopf_runtime.declaring.errors import MAX_RETRY_SECONDS, ApiError, RetryError, Wait
from kopf_runtime.declaring.kinds import Key, Kind
from kopf_runtime.declaring.objects import UnreadableError
from kopf_runtime.declaring.records import (
    Child,
    Fate,
    Owned,
    Owner,
    Plan,
    Step,
    Update,
    Wanted,
)
from kopf_runtime.reporting import troubles
from kopf_runtime.reporting.deps import Deps
from kopf_runtime.reporting.status import SETTLE, StatusReporter, why_unready
from kopf_runtime.reporting.troubles import StopError, Trouble
from kopf_runtime.watching.caches import Caches
from kopf_runtime.watching.observer import served
from kopf_runtime.watching.references import NotReadableError
from kopf_runtime.working.apply import Applier
from kopf_runtime.working.diff import diff
from kopf_runtime.working.external import External
from kopf_runtime.working.holds import Holds
from kopf_runtime.working.pace import Pace
from kopf_runtime.working.plan import kept, plan, strays, stripped, surplus
from kopf_runtime.working.planner import Planner
from kopf_runtime.working.queue import WorkQueue

#: Returns the child of a kind that is not ready yet, and why.
WhyNotYet = Callable[[Kind], tuple[Wanted, str] | None]

#: The steps that create or change a child.
WRITING = (Step.CREATE, Step.APPLY, Step.DELETE)
_VERBS = {
    Step.CREATE: "create",
    Step.APPLY: "change",
    Step.DELETE: "replace",
    Step.WAIT: "wait for the former",
    Step.CONFLICT: "wait for the other owner of",
}


class Intent(NamedTuple):
    """What would be done next, for a child or for the object itself."""

    what: str
    why: str = ""
    wanted: Wanted | None = None
    child: Child | None = None
    #: Whether nothing is to be done for the child now.
    waits: bool = False

    def __str__(self) -> str:
        return f"{self.what} ({self.why})" if self.why else self.what


class Reconciler:
    """Takes the next steps for the objects of one kind."""

    def __init__(
        self,
        deps: Deps,
        declaration: Declaration,
        caches: Caches,
        planner: Planner,
        applier: Applier,
        pace: Pace,
        external: External,
        reporter: StatusReporter,
        holds: Holds,
        queue: WorkQueue,
    ) -> None:
        self._client, self._planner, self._holds = deps.client, planner, holds
        self._caches, self._owners, self._children = caches, caches.owners, caches.children
        self._owned = {kind: _fated(declaration, o) for kind, o in declaration.owned.items()}
        self._watched, self._order = declaration.watched, declaration.order()
        self._applier, self._pace, self._external = applier, pace, external
        self._reporter, self._queue, self._reads = reporter, queue, caches.reads
        self._why_unserved, self._why_missing = caches.why_unserved, caches.why_missing
        self._word = declaration.kind.kind

    async def reconcile(self, key: Key) -> float | None:
        """Take the next steps for the object of this key.

        Return the seconds after which to requeue it, or None if an event will.
        Raise `RetryError` if a step failed that may succeed later.
        """
        began = asyncio.get_running_loop().time()
        owner = self._owners.cache.get(key)
        if owner is None:
            self.forget(key)  # the garbage collector deletes its children
        if self._why_unserved(key[0]):
            return None  # it is reconciled once the namespace is served
        if owner is None:
            if (left_out := self._owners.unreadable.get(key)) is not None:
                await self._reporter.unreadable(left_out)
            return None
        try:
            if owner.paused:
                would = await self.preview(owner)
                planned = owner.deleting or self._external.may_plan(owner)
                texts = [str(intent) for intent in would]
                return await self._reporter.paused(owner, texts, planned=planned)
            if owner.deleting:
                return await self._end(owner)
            await self._work(owner)
        except (ApiError, UnreadableError, StopError) as error:
            dues = [self._external.due(key, began), self._reads.due(owner)]
            if isinstance(error, StopError):  # nothing else calls or asks for it again
                error.retry.due = min((due for due in dues if due is not None), default=None)
            waits = [await self._reporter.stopped(owner, error), *dues]
        else:
            waits = [await self._reporter.well(owner), self._external.due(key)]
            waits.append(self._reads.due(owner))
        return min((seconds for seconds in waits if seconds is not None), default=None)

    def forget(self, key: Key) -> None:
        """Forget an object that is gone."""
        self._reporter.forget(key)
        self._external.forget(key)

    async def _end(self, owner: Owner) -> float | None:
        """Clean up for an object that is being deleted, and report which finalizers remain."""
        if self._external.needs_cleanup(owner):
            await self._external.clean_up(owner, await self._reads.unread(owner))
            return None
        held = troubles.holding(owner.finalizers)
        text = f"The {self._word} is being deleted; {held} holds it."
        return await self._reporter.report(owner.key, Trouble("Terminating", text))

    async def _work(self, owner: Owner) -> None:
        """Reconcile an object: first its external resources, then its children, then its check."""
        owner = await self._hold(owner)
        await self._external.ensure_finalizer(owner)
        await self._read(owner)
        stops, late = list[StopError](), list[StopError]()
        try:
            await self._external.sync(owner)
        except troubles.WaitingError:
            raise
        except StopError as error:
            late.append(error)  # the previous result, if any, still determines the children
        unchecked = await self._check_first(owner)
        if unchecked is not None:
            late.append(troubles.of(unchecked))
        for _ in range(2):  # the children are planned again because of what `check` returns
            try:
                stops = []
                await self._take_steps(owner, held=unchecked is not None)
            except StopError as error:
                stops = [error]
            try:
                if unchecked is not None or (stops and not self._caches.has_children(owner)):
                    break
                if not await self._external.check(owner):
                    break
            except StopError as error:
                stops.append(error)
                break
        if stops or late:
            raise troubles.foremost([*stops, *late])

    async def _read(self, owner: Owner) -> None:
        """Read what the object names; raise `StopError` or `ApiError` if that is not possible."""
        try:
            await self._reads.prepare(owner)
        except NotReadableError as error:
            raise troubles.not_readable(error) from error

    async def _check_first(self, owner: Owner) -> Exception | None:
        """Call `check` before the plan if its result got lost, as by a restart; return its error.

        Without the result, children that are there because of it would not be wanted.
        """
        cached = self._owners.cache.get(owner.key) or owner
        if not self._external.unchecked(cached) or not self._external.may_plan(cached):
            return None
        if not self._caches.has_children(cached):
            # Children of a kind that is absent now may be there once it is served again.
            if not any(source.absent(cached.key[0]) for source in self._children.values()):
                self._external.not_checked_yet(cached)
            return None
        try:
            await self._external.check(cached)
        except (ApiError, StopError) as error:
            return error
        return None

    async def _take_steps(self, owner: Owner, *, held: bool = False) -> None:
        """Plan the children of an object, if they can be planned, and take a step for each."""
        cached = self._owners.cache.get(owner.key)
        if cached is None or cached.uid != owner.uid or cached.deleting or cached.paused:
            raise RetryError(f"the {self._word} changed meanwhile")
        owner = cached
        if self._external.may_plan(owner):
            await self._steps(owner := await self._with_plan(owner), held=held)
            if self._holds.surplus(owner) and not held and self._is_settled(owner):
                await self._holds.release(owner)

    async def _hold(self, owner: Owner) -> Owner:
        """Have an object hold its unique values; raise `StopError` if another one has one."""
        try:
            return await self._holds.take(owner)
        except StopError:
            if self._holds.drops(owner):
                await self._give_up(owner)
            raise

    async def _give_up(self, owner: Owner) -> None:
        """Delete the children of an object that cannot have a unique value."""
        if former := self._former(bare := replace(owner, wanted=(), problem="")):
            self._wait_to_remove(former)
            await self._verified(owner, planned=False)
            if not self._holds.drops(owner):
                raise RetryError(f"who has what the {self._word} wants changed meanwhile")
            await _each(self._remove(owner, child) for child in former if not self._missing(child))
        if self._holds.surplus(owner, everything=True) and self._is_settled(bare):
            await self._holds.release(owner, everything=True)

    def _is_settled(self, owner: Owner) -> bool:
        """Return whether an object has no child of a former plan any more that is to change."""
        wanted = {(wish.kind, wish.key): wish.template for wish in owner.wanted}
        for kind, source in self._children.items():
            once = self._owned[kind].update is Update.CREATE
            for child in source.owned(owner):
                template = wanted.get((kind, child.key))
                if child.deleting or (template and not once and child.template != template):
                    return False
        return not self._former(owner)

    async def _with_plan(self, owner: Owner) -> Owner:
        """Return an object with its plan; raise `StopError` or `RetryError` if it has none now."""
        if why := self._why_unserved(owner.key[0]):  # such as while all is listed again
            raise RetryError(why)
        if not self._reads.ready(owner):  # without them, the plan may drop children
            raise RetryError(f"what the {self._word} names changed meanwhile")
        owner = self._planner.plan(owner)
        if isinstance(wait := owner.problem, Wait) and owner.thing is None and _left(wait) <= 0:
            owner = await self._planned_again(owner)
        if isinstance(wait := owner.problem, Wait):
            raise troubles.author_waits(wait.reason, wait.message, _left(wait))
        if owner.problem:
            raise troubles.invalid_plan(str(owner.problem))
        return owner

    async def _planned_again(self, owner: Owner) -> Owner:
        """Return an object that waited with a new plan: without a change, nothing else plans it."""
        fetched = await self._owners.fetch(owner.key)
        if fetched is None or fetched[0].state != owner.state:
            raise RetryError(f"the {self._word} changed meanwhile")
        planned = self._planner.plan(replace(fetched[0], thing=fetched[1]))
        owner = replace(planned, thing=None)  # it would stay in memory
        self._owners.cache.put(owner)
        return owner

    async def _steps(self, owner: Owner, *, held: bool) -> None:
        """Take a step for each wanted child, then delete those that are no longer wanted.

        If they are held, those that exist stay as they are, except for an edit of their owner's.

        A kind that cannot be served holds up no other; it is reported at the end. But nothing is
        deleted for a child that cannot be made: it may be what takes the other one's place.
        """
        former = [] if held else self._former(owner)
        if not held:
            self._reporter.left_alone(owner, self._unwanted(owner, strays))
            self._reporter.kept(owner, self._unwanted(owner, kept))
        wishes = self._wishes(owner)
        why = self._why_not_yet(owner)
        await _each(self._child(owner, w, why, held=held) for w in wishes if not self._missing(w))
        self._tell_missing(owner, ((w.kind, w.key) for w in wishes))
        self._wait_to_remove(former)
        former = self._dispensable(owner, former)
        if former and self._planner.depends_on_more:
            former = await self._confirmed(owner, former)
        await _each(self._remove(owner, child) for child in former if not self._missing(child))
        left = ((child.kind, child.key) for child in former)
        grandchildren = ((kind, (owner.key[0], "")) for kind in self._watched)
        self._tell_missing(owner, (*left, *grandchildren))

    def _wait_to_remove(self, former: list[Child]) -> None:
        """Raise `StopError` if others cannot be seen beside these, which they may still need."""
        for namespace in {child.key[0] for child in former}:
            for kind, source in self._children.items():
                why = self._why_missing(kind, namespace)
                if why and not source.absent(namespace):
                    raise troubles.missing(kind, why)

    def _dispensable(self, owner: Owner, former: list[Child]) -> list[Child]:
        """Return which children can go now: what is wanted may need the others until it is ready.

        A rollout that goes on needs the ConfigMap of the Pods that it has not replaced yet.
        """
        if any(self._owned[child.kind].on_surplus is None for child in former) and any(
            self._why_unready(owner, wish) for wish in self._wishes(owner)
        ):
            return [child for child in former if self._owned[child.kind].on_surplus is not None]
        return former

    def _tell_missing(self, owner: Owner, children: Iterable[tuple[Kind, Key]]) -> None:
        """Raise `StopError` if the kind of one of these children cannot be served."""
        for kind, (namespace, name) in children:
            if why := self._why_missing(kind, namespace):
                if namespace != owner.key[0]:
                    raise troubles.unserved(kind, name, namespace, why)
                raise troubles.missing(kind, why)

    async def _confirmed(self, owner: Owner, former: list[Child]) -> list[Child]:
        """Return those of these children that a plan of what is there now does not want either."""
        uids = {child.uid for child in former}
        owner = await self._verified(owner)
        return [child for child in self._former(owner) if child.uid in uids]

    async def _verified(self, owner: Owner, *, planned: bool = True) -> Owner:
        """Read all that the plan depends on; return the object, `planned` by what is there now.

        Raise `RetryError` if a watch was late: the plan was of another state.
        """
        if not self._planner.depends_on_more:
            await self._applier.verify(owner)
            return owner
        try:
            current = await self._planner.is_current(owner)
        except NotReadableError as error:
            raise troubles.not_readable(error) from error
        if not current:
            raise RetryError(f"what the {self._word} depends on changed meanwhile")
        await self._applier.verify(owner)  # and stores its status, on which the plan may depend
        owner = self._owners.cache.get(owner.key) or owner
        return await self._with_plan(owner) if planned else owner

    def _wishes(self, owner: Owner) -> list[Wanted]:
        """Return the wanted children of served kinds, in their order."""
        return sorted(served(owner, self._children), key=lambda child: self._order[child.kind])

    def _former(self, owner: Owner) -> list[Child]:
        """Return the children that are no longer wanted, and are to be deleted."""
        return self._unwanted(owner, surplus)

    def _unwanted(
        self, owner: Owner, which: Callable[[Owner, list[Child], Owned], list[Child]]
    ) -> list[Child]:
        return [
            child
            for kind, owned in self._owned.items()
            for child in which(owner, self._children[kind].owned(owner), owned)
        ]

    async def preview(self, owner: Owner, *, dry: bool = False) -> list[Intent]:
        """Return what a reconcile would do for an object first; write nothing.

        In a dry run, return what would change in the cluster: `sync` and `check` are not called.
        Raise `StopError` if its children cannot be planned.
        """
        if (stop := self._holds.taken(owner)) is not None:
            return self._without_value(owner, stop)
        steps = self._external.pending(owner, dry=dry)
        intents = [Intent(f"{action} the {self._word}") for action in steps]
        if owner.deleting or not (dry or self._external.may_plan(owner)):
            return intents
        await self._read(owner)
        owner = await self._with_plan(owner)
        held = not dry and self._external.unchecked(owner) and self._caches.has_children(owner)
        if held:
            intents.append(Intent(f"check the {self._word}"))
        why_not_yet = self._why_not_yet(owner)
        for wanted in self._wishes(owner):
            if not self._missing(wanted):
                child = await self._find(owner, wanted)
                step = Plan(Step.CREATE)
                if child is not None:
                    step = await self._plan(owner, wanted, child, held=held)
                if verb := _VERBS.get(step.step):
                    waits, why = step.step in (Step.WAIT, Step.CONFLICT), step.why
                    try:
                        self._await(wanted, step.step, why_not_yet)
                    except StopError as error:
                        verb, why, waits = "hold back", str(error).rstrip("."), True
                    intents.append(Intent(f"{verb} {wanted}", why, wanted, child, waits))
        former = [] if held else self._dispensable(owner, self._former(owner))
        return [*intents, *self._deletions(former, "it is not wanted any more")]

    def _deletions(self, former: list[Child], why: str) -> list[Intent]:
        return [
            Intent(f"delete {child.kind.kind} {child.key[1]}", why, child=child)
            for child in former
            if not self._missing(child)
        ]

    def _without_value(self, owner: Owner, stop: StopError) -> list[Intent]:
        """Return what would be done for an object that cannot have a unique value; or raise why."""
        former = self._former(replace(owner, wanted=())) if self._holds.drops(owner) else []
        if not former:
            raise stop
        return self._deletions(former, str(stop).rstrip("."))

    async def differences(self, owner: Owner) -> list[str]:
        """Return what `--dry-run` prints of an object; raise as `preview` does."""
        texts = []
        for intent in await self.preview(owner, dry=True):
            wanted, child = intent.wanted, intent.child
            heading = f"# {self._word} {'/'.join(filter(None, owner.key))}: would {intent}\n"
            if (wanted is None and child is None) or intent.waits:
                texts.append(heading)
                continue
            live, manifest, manager = None, None, self._client.manager
            if child is not None:
                live = await self._client.ask("GET", child.kind.at(child.key))
            if wanted is not None:
                update = self._owned[wanted.kind].update
                manifest, manager = await self._applier.manifest(owner, wanted, update, child)
            texts.append(heading + diff(live, manifest, manager))
        return texts

    async def _plan(self, owner: Owner, wanted: Wanted, child: Child, *, held: bool) -> Plan:
        owned = self._owned[wanted.kind]
        mine = child.controller_uid == owner.uid
        step = plan(
            owner,
            wanted,
            child,
            owned,
            partial(self._caches.lives, owner.key[0]),
            self._word,
            altered=mine and await self._applier.is_altered(owner, wanted, child, owned.update),
            as_admitted=self._applier.as_admitted(wanted, child, owned.update),
        )
        another = step.step in WRITING and child.template != wanted.template and not step.edited
        return Plan(Step.KEEP) if held and another else step

    def _missing(self, child: Wanted | Child) -> bool:
        return bool(self._why_missing(child.kind, child.key[0]))

    def _serving(self, owner: Owner, kind: Kind, key: Key) -> AbstractContextManager[None]:
        """Allow writes to a child in another namespace only while that namespace is served."""
        namespace, name = key
        self._queue.progress(owner.key)
        if namespace == owner.key[0]:
            return nullcontext()
        if why := self._why_unserved(namespace):
            raise troubles.unserved(kind, name, namespace, why)
        return only_while(lambda: not self._why_unserved(namespace))

    async def _remove(self, owner: Owner, child: Child) -> None:
        why = f"the {self._word} does not want it any more"
        update = self._owned[child.kind].update
        with self._serving(owner, child.kind, child.key):
            await self._applier.verify(owner)
            try:
                await self._applier.delete(owner, child, Plan(Step.DELETE, why=why), update)
            except ApiError as error:
                if error.status == 0:  # it may have been carried out
                    self._reporter.child_deleted(owner, child, why, unsure=True)
                raise
        self._reporter.child_deleted(owner, child, why, unsure=False)

    async def _child(self, owner: Owner, wanted: Wanted, why: WhyNotYet, *, held: bool) -> None:
        with self._serving(owner, wanted.kind, wanted.key):
            if self._children[wanted.kind].cache.get(wanted.key) is None:
                self._await(wanted, Step.CREATE, why)  # before a GET: it may wait for days
            await self._step(owner, wanted, why, held=held)

    async def _step(self, owner: Owner, wanted: Wanted, why: WhyNotYet, *, held: bool) -> None:
        """Take the next step for one child."""
        child = await self._find(owner, wanted)
        if child is None:
            self._await(wanted, Step.CREATE, why)
            if await self._make(owner, wanted):
                self._external.recheck(owner.key)
                return
            if (child := await self._applier.look(wanted)) is None:
                text = f"The API server says that {wanted} exists, but does not find it."
                raise troubles.contradicted("AlreadyExists", text)
        step = await self._plan(owner, wanted, child, held=held)
        self._await(wanted, step.step, why)
        match step.step:
            case Step.KEEP:
                self._applier.settled(wanted)
            case Step.DELETE:
                await self._replace(owner, wanted, child, step)
            case Step.APPLY:
                await self._apply(owner, wanted, child, step)
            case Step.WAIT:
                self._wait_for(wanted.kind, child, owner)
            case Step.CONFLICT:
                # What is replaced would be deleted as soon as it is handed over.
                kept = self._owned[wanted.kind].update is not Update.RECREATE
                hand_over = self._applier.marks.hand_over(owner, child) if kept else ""
                raise troubles.conflict(wanted, self._word, hand_over)
            case Step.ADMISSION:
                self._check(owner, wanted, child)

    def _await(self, wanted: Wanted, step: Step, why_not_yet: WhyNotYet) -> None:
        """Raise `StopError` if the step writes, and a child that comes first is not ready."""
        for kind in self._owned[wanted.kind].after if step in WRITING else ():
            if (blocking := why_not_yet(kind)) is not None:
                raise troubles.waiting(wanted, *blocking)

    def _why_not_yet(self, owner: Owner) -> WhyNotYet:
        """Return a function that returns the first child of a kind that is not ready, and why.

        It looks at each kind once, when the kinds that come after it begin: there may be a thousand
        children of each.
        """

        @functools.cache
        def why_not_yet(kind: Kind) -> tuple[Wanted, str] | None:
            for first in served(owner, self._children):
                if first.kind == kind and (why := self._why_unready(owner, first)):
                    return first, why
            return None

        return why_not_yet

    def _why_unready(self, owner: Owner, first: Wanted) -> str:
        update = self._owned[first.kind].update
        child = self._children[first.kind].cache.get(first.key)
        if child is None or child.controller_uid != owner.uid:
            return "it does not exist yet"
        if update is not Update.CREATE and child.template != first.template:
            return "it is not up to date yet"
        return why_unready(child)

    async def _find(self, owner: Owner, wanted: Wanted) -> Child | None:
        """Return the object that has a child's name; read it if the cache does not suffice."""
        child = self._children[wanted.kind].cache.get(wanted.key)
        if child is None:  # we watch only our own objects
            in_place = self._owned[wanted.kind].update is Update.APPLY
            if in_place or self._reporter.in_trouble(owner.key):
                return await self._applier.look(wanted)
        return child

    async def _apply(self, owner: Owner, wanted: Wanted, child: Child, step: Plan) -> None:
        """Change a child in place."""
        wait = self._pace.wait_in_place(child, wanted, step, self._client.now())
        self._pause(wait, wanted, step)
        if step.verify:
            await self._applier.verify(owner)
        owned = self._owned[wanted.kind]
        try:
            applied = await self._applier.apply(owner, wanted, child, owned.update)
        except ApiError as error:
            if not await self._is_immutable(owner, wanted, error):
                raise
            why = f"a field of the {wanted.kind.kind} cannot be changed in place"
            step = dataclasses.replace(step, step=Step.DELETE, reason="Replaced", why=why)
            orphan = owned.on_immutable is Fate.ORPHAN
            await self._replace(owner, wanted, child, step, orphan=orphan)
            return
        self._check(owner, wanted, applied)
        self._pace.applied(child, wanted, self._client.now())
        self._reporter.child_changed(owner, wanted, step)

    async def _is_immutable(self, owner: Owner, wanted: Wanted, error: ApiError) -> bool:
        """Return whether to replace a child that the API server refused to change in place.

        That it would accept the same manifest as a new object shows both that the change was what
        it refused, and that the deletion will not be in vain.
        """
        if error.status != 422 or self._owned[wanted.kind].on_immutable is Fate.REFUSE:
            return False
        return await self._applier.would_create(owner, wanted)

    async def _replace(
        self, owner: Owner, wanted: Wanted, child: Child, step: Plan, *, orphan: bool = False
    ) -> None:
        """Delete a child, and create the next one if it is gone at once."""
        self._pause(self._pace.wait(child, step, self._client.now()), wanted, step)
        if wanted not in (await self._verified(owner)).wanted:
            raise RetryError(f"the plan for {wanted} changed meanwhile")
        update = self._owned[wanted.kind].update
        left = await self._applier.delete(owner, child, step, update, orphan=orphan)
        if left is not None:
            self._wait_for(wanted.kind, left, owner)
        elif not await self._make(owner, wanted):
            raise RetryError(f"somebody else made {wanted}")

    def _wait_for(self, kind: Kind, child: Child, owner: Owner) -> None:
        """Requeue because of a child that is being deleted, unless a watch reports its end."""
        if child.controller_uid != owner.uid:
            raise troubles.former_left(self._word, child, self._client.now())
        if not child.watched:
            raise troubles.terminating(kind, f"The former {kind.kind} is about to end.", SETTLE)

    async def _make(self, owner: Owner, wanted: Wanted) -> bool:
        """Create a child; return False if an object of its name exists already."""
        former = self._pace.former(wanted, owner.uid)
        if former is not None:
            self._pause(former.until - self._client.now(), wanted, former.cause)
        if wanted.outlives:  # the garbage collector does not delete it if the owner is gone by now
            await self._applier.verify(owner)
        child = await self._applier.create(owner, wanted, self._owned[wanted.kind].update)
        if child is None:
            return False
        self._reporter.child_created(owner, wanted, former.cause if former is not None else None)
        self._check(owner, wanted, child)
        return True

    def _check(self, owner: Owner, wanted: Wanted, child: Child) -> None:
        """Raise `StopError` if admission has removed marks from a child."""
        if lost := stripped(owner, child):
            raise troubles.changed_by_admission(wanted, lost, self._owned[wanted.kind].update)

    def _pause(self, seconds: float, wanted: Wanted, step: Plan) -> None:
        """Raise `StopError` if the next step has to wait."""
        if seconds > 0:
            raise troubles.back_off(wanted, step, seconds)


def _fated(declaration: Declaration, owned: Owned) -> Owned:
    """Return a kind of children with what becomes of those that a step leaves out."""
    at_once = declaration.stepwise and owned.on_surplus is None and not owned.keeps_surplus
    return replace(owned, on_surplus=Fate.DELETE) if at_once else owned


async def _each(steps: Iterable[Awaitable[None]]) -> None:
    """Take the steps one after the other, even if one fails; then raise the foremost error."""
    failed: list[StopError] = []
    for step in steps:
        try:
            await step
        except (ApiError, UnreadableError, StopError) as error:
            failed.append(troubles.of(error))
    if failed:
        raise troubles.foremost(failed)


def _left(wait: Wait) -> float:
    """Return the seconds until a plan that waits is made again."""
    return wait.at + max(troubles.SOONEST, _after(wait)) - time.monotonic()


def _after(wait: Wait) -> float:
    return MAX_RETRY_SECONDS if wait.after is None else wait.after
