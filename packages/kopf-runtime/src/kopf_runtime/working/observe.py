"""Observes an object and its children: all that the decisions of `decide` depend on.

What the caches do not tell is read: an object that has the name of a child, or a child that may
have been altered.
"""

from functools import partial

from msgspec.structs import replace

from kopf_runtime.cluster.client import Client
from kopf_runtime.declaring.controller_declaration import Declaration
from kopf_runtime.declaring.kinds import Kind
from kopf_runtime.declaring.records import Child, Owned, Owner, Plan, Step, Update, Wanted
from kopf_runtime.watching.caches import Caches
from kopf_runtime.watching.observer import served
from kopf_runtime.working.apply import Applier
from kopf_runtime.working.decide import ObservedChildren, Seen
from kopf_runtime.working.pace import Pace

#: The children that have to be ready first, by their kinds, and why they are not.
First = dict[Kind, tuple[Wanted, str] | None]


class Observation:
    """Observes the objects of one kind."""

    def __init__(
        self, client: Client, declaration: Declaration, caches: Caches, applier: Applier, pace: Pace
    ) -> None:
        self._client, self._caches, self._applier, self._pace = client, caches, applier, pace
        self.others = applier.others
        self._word, self._order = declaration.kind.kind, declaration.order()
        self._kinds = (*declaration.owned, *declaration.watched)
        self.owned = {kind: _fated(declaration, o) for kind, o in declaration.owned.items()}

    def observe(self, owner: Owner) -> ObservedChildren:
        """Return an object with its plan and its children, as they are cached."""
        caches = self._caches
        wanted = sorted(served(owner, caches.children), key=lambda child: self._order[child.kind])
        children = {kind: source.owned(owner) for kind, source in caches.children.items()}
        spaces = {owner.key[0], *(child.key[0] for child in wanted)}
        spaces.update(child.key[0] for each in children.values() for child in each)
        return ObservedChildren(
            owner=owner,
            word=self._word,
            owned=self.owned,
            wanted=tuple(wanted),
            named={(w.kind, w.key): caches.children[w.kind].cache.get(w.key) for w in wanted},
            children=children,
            missing={(k, s): caches.why_missing(k, s) for k in self._kinds for s in spaces},
            absent={(k, s) for k in self.owned for s in spaces if caches.children[k].absent(s)},
        )

    def first(self, owner: Owner, wanted: Wanted, known: First) -> tuple[Wanted, str] | None:
        """Return the first child that has to be ready before another one, and why it is not.

        Each kind is looked at once, as there may be a thousand children of each: `known` has what
        was seen. That is when the kinds that come after it begin.
        """
        for kind in self.owned[wanted.kind].after:
            if kind not in known:
                observed = self.observe(owner)
                unready = ((w, observed.why_unready(w)) for w in observed.wanted if w.kind == kind)
                known[kind] = next(((w, why) for w, why in unready if why), None)
            if (first := known[kind]) is not None:
                return first
        return None

    async def child(
        self,
        owner: Owner,
        wanted: Wanted,
        known: First,
        *,
        held: bool,
        look: bool,
        taken: bool = False,
    ) -> Seen:
        """Return a wanted child as it is; raise `ApiError` or `StepError`.

        One that is not cached is looked for if it is changed in place, or with `look`: only our own
        objects are watched.
        """
        owned, first = self.owned[wanted.kind], self.first(owner, wanted, known)
        child = self._caches.children[wanted.kind].cache.get(wanted.key)
        looks = child is None and first is None and (look or owned.update is Update.APPLY)
        if looks or taken:
            child = await self._applier.look(wanted)
        seen = partial(
            Seen,
            owner=owner,
            wanted=wanted,
            owned=owned,
            first=first,
            held=held,
            taken=taken,
            now=self._client.now(),
        )
        if child is None:
            former = self._pace.former(wanted, owner.uid)
            wait = former.until - self._client.now() if former is not None else 0.0
            cause = former.cause if former is not None else None
            return seen(pause=lambda _: wait, cause=cause)
        mine, marks = child.controller_uid == owner.uid, self._applier.marks
        # What is replaced would be deleted as soon as it is handed over.
        hands_over = not mine and owned.update is not Update.RECREATE
        return seen(
            child=child,
            altered=mine and await self._applier.is_altered(owner, wanted, child, owned.update),
            as_admitted=self._applier.as_admitted(wanted, child, owned.update),
            owner_exists=partial(self._caches.owner_exists, owner.key[0]),
            pause=partial(self._pause, child, wanted),
            hand_over=marks.hand_over(owner, child) if hands_over else "",
            contended=partial(self.others.contends, owner, child, wanted),
        )

    def _pause(self, child: Child, wanted: Wanted, step: Plan) -> float:
        """Return the seconds until a child may be changed or replaced."""
        now = self._client.now()
        if step.step is Step.APPLY:
            return self._pace.wait_in_place(child, wanted, step, now)
        return self._pace.wait(child, step, now)


def _fated(declaration: Declaration, owned: Owned) -> Owned:
    """Return a kind of children with what becomes of those that a step leaves out."""
    at_once = declaration.stepwise and owned.prune is None and not owned.keeps_surplus
    return replace(owned, prune=True) if at_once else owned
