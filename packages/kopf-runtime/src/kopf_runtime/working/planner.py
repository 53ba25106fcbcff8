"""Plans the children of an object with an author's `desired`, and tells whether a plan is current.

The steps of a reconcile use it. A plan that depends on more than the object is made at each
reconcile; before something is deleted for it, all that it depends on is read again.
"""

import asyncio
import logging
import time
from typing import Any

import msgspec
from msgspec.structs import replace

from kopf_runtime.declaring.context import Context, Dry, StepContext
from kopf_runtime.declaring.controller_declaration import Declaration
from kopf_runtime.declaring.errors import MAX_RETRY_SECONDS, PlanError, Wait
from kopf_runtime.declaring.models import manifest
from kopf_runtime.declaring.objects import UnreadableError
from kopf_runtime.declaring.records import Owner, Wanted
from kopf_runtime.reporting import troubles
from kopf_runtime.reporting.events import Deps
from kopf_runtime.reporting.troubles import DONE, Outcome, StepError, changed
from kopf_runtime.watching.caches import Caches
from kopf_runtime.watching.observer import Observer
from kopf_runtime.watching.references import NotReadableError
from kopf_runtime.working.queue import WorkQueue
from kopf_runtime.working.templates import Marks, Templates

logger = logging.getLogger(__name__)


class Planner:
    """Plans the children of the objects of one kind."""

    def __init__(
        self,
        deps: Deps,
        declaration: Declaration,
        caches: Caches,
        observer: Observer,
        templates: Templates,
        marks: Marks,
        queue: WorkQueue,
    ) -> None:
        self._deps, self._declaration, self._caches = deps, declaration, caches
        self._observer, self._templates, self._marks = observer, templates, marks
        self._queue = queue
        self._word = declaration.kind.kind
        self._listing, self._lists_begun, self._list_read = asyncio.Lock(), 0, 0

    def plan(self, owner: Owner, needed: Wanted | None = None) -> Owner:
        """Return an object with its children, planned with all that is known now if need be."""
        if owner.thing is None:
            return owner
        wanted, problem = self._templates.plan(owner.thing, self._context(owner), needed)
        owner = replace(owner, wanted=wanted, problem=problem)
        self._caches.owners.cache.put(owner)
        return owner

    def _context(self, owner: Owner) -> Context[Any]:
        observer, declaration = self._observer, self._declaration
        if declaration.stepwise:
            for kind, why in observer.unseen(owner).items():
                raise StepError(troubles.missing(kind, why))
            given = observer.given(owner, observer.children(owner))
        else:
            given = observer.results(owner)
        if self._deps.settings.dry_run:
            return Dry(**given | self._unknown_results())
        return (StepContext if declaration.stepwise else Context)(**given)

    def contribution(self, owner: Owner) -> dict[str, Any]:
        """Return what is to be added to an object, which is JSON; raise `StepError`."""
        function = self._declaration.contribution
        if function is None or owner.thing is None:
            return {}
        try:
            given = function(owner.thing, self._context(owner))
            added = msgspec.to_builtins(manifest(given or {}))
            if not isinstance(added, dict):
                raise TypeError(f"it returned a {type(added).__name__}, not a mapping")
        except Wait as wait:
            raise StepError(troubles.author_waits(wait.reason, wait.message, _left(wait))) from wait
        except PlanError as error:
            raise StepError(troubles.invalid_plan(str(error))) from error
        except Exception as error:
            logger.exception("The contribution to %s/%s failed", *owner.key)
            text = f"the contribution failed: {type(error).__name__}: {error}"[:500]
            raise StepError(troubles.invalid_plan(text)) from error
        return added

    def _unknown_results(self) -> dict[str, PlanError]:
        """Return the results that a dry run lacks, with the error for a plan that asks for one.

        What would be changed in the cluster is not known then.
        """
        calls = {"sync_result": self._declaration.sync, "check_result": self._declaration.check}
        return {
            field: PlanError(f"it depends on what {call} returns, which a dry run does not call")
            for field, call in calls.items()
            if call is not None
        }

    async def planned(self, owner: Owner) -> Owner:
        """Return an object with its plan; raise `StepError` if it has none now."""
        if why := self._caches.why_unserved(owner.key[0]):  # such as while all is listed again
            raise changed(why)
        if not self._caches.reads.ready(owner):  # without them, the plan may drop children
            raise changed(f"what the {self._word} names changed meanwhile")
        owner = self.plan(owner)
        if isinstance(wait := owner.problem, Wait) and owner.thing is None and _left(wait) <= 0:
            owner = await self._planned_again(owner)
        if isinstance(wait := owner.problem, Wait):
            raise StepError(troubles.author_waits(wait.reason, wait.message, _left(wait)))
        if owner.problem:
            raise StepError(troubles.invalid_plan(str(owner.problem)))
        return owner

    async def _planned_again(self, owner: Owner) -> Owner:
        """Return an object that waited with a new plan: without a change, nothing else plans it."""
        owners = self._caches.owners
        fetched = await owners.fetch(owner.key)
        if fetched is None or fetched[0].state != owner.state:
            raise changed(f"the {self._word} changed meanwhile")
        planned = self.plan(replace(fetched[0], thing=fetched[1]))
        owner = replace(planned, thing=None)  # it would stay in memory
        owners.cache.put(owner)
        return owner

    async def read(self, owner: Owner) -> Outcome:
        """Read what the object names."""
        try:
            await self._caches.reads.prepare(owner)
        except NotReadableError as error:
            return troubles.not_readable(error)
        return DONE

    # --- whether a plan is current --------------------------------------------------------------

    async def verify(self, owner: Owner) -> None:
        """Read the object itself, so that no child is deleted because of stale data.

        Raise `StepError` if it differs from the cache.
        """
        fetched = await self._caches.owners.fetch(owner.key)
        fresh = fetched[0] if fetched is not None else None
        if fresh is None or fresh.deleting or fresh.state != owner.state:
            raise changed(f"the {self._word} changed meanwhile")

    async def verified(self, owner: Owner, *, planned: bool = True) -> Owner:
        """Read all that the plan depends on; return the object, `planned` by what is there now.

        Raise `StepError` if a watch was late: the plan was of another state.
        """
        if not self.depends_on_more:
            await self.verify(owner)
            return owner
        try:
            current = await self._is_current(owner)
        except NotReadableError as error:
            raise StepError(troubles.not_readable(error)) from error
        if not current:
            raise changed(f"what the {self._word} depends on changed meanwhile")
        await self.verify(owner)  # and stores its status, on which the plan may depend
        owner = self._caches.owners.cache.get(owner.key) or owner
        return await self.planned(owner) if planned else owner

    @property
    def depends_on_more(self) -> bool:
        """Whether a plan depends on more than the object itself."""
        return self._declaration.stepwise or self._declaration.depends_on_others

    async def _is_current(self, owner: Owner) -> bool:
        """Return whether the API server knows nothing newer that the plan depends on."""
        caches = self._caches
        sources = (*caches.children.values(), *caches.descendants.values())
        known = [
            await source.is_current(owner, self._marks.uid)
            for source in (sources if self._declaration.stepwise else ())
        ]
        known.append(await caches.reads.is_current(owner, lambda: self._queue.progress(owner.key)))
        if self._declaration.indexes:
            await self._read_holders()
        return all(known)

    async def _read_holders(self) -> None:
        """Read all objects of the kind again: any of them may have gained or lost a value.

        Those that ask while a list is being read share the next one.
        """
        owners, asked = self._caches.owners, self._lists_begun
        async with self._listing:
            if self._list_read > asked:  # it began after we asked
                return
            self._lists_begun += 1
            number = self._lists_begun
            listed = set(await owners.select("", ""))
            for key in [known.key for known in owners.cache if known.key not in listed]:
                try:
                    await owners.fetch(key)
                except UnreadableError as error:
                    owners.skip(error)
            self._list_read = number


def _left(wait: Wait) -> float:
    """Return the seconds until a plan that waits is made again."""
    after = MAX_RETRY_SECONDS if wait.after is None else wait.after
    return wait.at + max(troubles.SOONEST, after) - time.monotonic()
