"""Decides which object has a unique value, and records that in its status.

An author declares the values by `Controller.unique`. The object that has one keeps it until it
needs it no longer or is gone: neither its age nor an edit of another object takes it away. A free
one goes to an object that has children already, else to the oldest that wants it; this is decided
once the leader has listed all objects, which remembers it. Nothing is done for an object before the
API server has confirmed the record of it.

The record is in `status.holds`, which the API server keeps from a `kubectl create` or `edit`. If it
is lost, as by a restore, an object that has children of its generation has what it wants.
"""

from collections.abc import Iterator, Mapping, Sequence

from kopf_runtime.declaring.indexes import Unique
from kopf_runtime.declaring.kinds import Key
from kopf_runtime.declaring.records import HOLDS, Owner, Unreadable
from kopf_runtime.reporting import troubles
from kopf_runtime.reporting.troubles import DONE, Outcome, StepError, changed
from kopf_runtime.watching.availability import Use
from kopf_runtime.watching.caches import Caches
from kopf_runtime.working.fields import RECORD

Held = dict[str, tuple[str, ...]]


class Holds:
    """Who has the unique values of the objects of one kind."""

    def __init__(self, caches: Caches, uniques: Mapping[int, Unique]) -> None:
        self._owners, self._children = caches.owners, caches.children
        self.uniques, self._selected = uniques, caches.selection.has
        # The states of the objects that have a value, or to which it was given: once another one
        # is seen, the status says what it has.
        self._holders: dict[tuple[str, str], tuple[str, int, int]] = {}

    def begin(self) -> None:
        """Forget what a former time as the leader has found."""
        self._holders.clear()

    def taken(self, owner: Owner) -> Outcome:
        """Return what stops an object that cannot have all values that it wants."""
        for unique, value in self._claims(owner) if not owner.deleting else ():
            if (holder := self._holder(unique, value)) is None:
                holder = self._first(unique, value)
            if holder is not None and holder.uid != owner.uid:
                return troubles.taken(self._owners.kind.kind, unique.name, value)
        return DONE

    def drops(self, owner: Owner) -> bool:
        """Return whether an object loses its children, because another one has what it wants."""
        others = (
            unique.drops
            for unique, value in self._claims(owner)
            if (holder := self._holder(unique, value)) is not None and holder.uid != owner.uid
        )
        return any(others)

    async def take(self, owner: Owner) -> Outcome:
        """Give an object the values that it wants, unless another one has one of them."""
        if stop := self.taken(owner):
            await self._record(owner, self._kept(owner))  # which somebody may have added to
            return stop
        unconfirmed = [
            (unique.name, value)
            for unique, value in self._claims(owner)
            if value not in owner.holds(unique.name)
        ]
        if unconfirmed:
            for space in self._owners.reflectors:
                if why := self._owners.why_not(Use.SERVE, space or ""):
                    raise changed(f"who has the {unconfirmed[0][0]} is not known yet: {why}")
        self._holders.update(dict.fromkeys(unconfirmed, owner.state))
        kept, wanted = self._kept(owner), self._wanted(owner)
        every = {name: tuple(dict.fromkeys((*kept[name], *wanted[name]))) for name in kept}
        await self._record(owner, every)
        return DONE

    def lacks(self, owner: Owner) -> bool:
        """Return whether an object has no record of a value that it wants."""
        return any(value not in owner.holds(unique.name) for unique, value in self._claims(owner))

    def surplus(self, owner: Owner, *, everything: bool = False) -> bool:
        """Return whether an object has a value that it does not want, or any at all."""
        wanted = {} if everything else self._wanted(owner)
        return any(
            set(owner.holds(unique.name)).difference(wanted.get(unique.name, ()))
            for unique in self.uniques.values()
        )

    async def release(self, owner: Owner, *, everything: bool = False) -> None:
        """Record that an object has no values but those that it wants, or none at all."""
        wanted = self._wanted(owner)
        await self._record(owner, dict.fromkeys(wanted, ()) if everything else wanted)
        for unique, value in self._claims(owner) if everything else ():
            if self._holders.get((unique.name, value)) == owner.state:
                del self._holders[unique.name, value]

    def _wanted(self, owner: Owner) -> Held:
        wanted: Held = {unique.name: () for unique in self.uniques.values()}
        for unique, value in self._claims(owner):
            wanted[unique.name] += (value,)
        return wanted

    def _kept(self, owner: Owner) -> Held:
        """Return what an object has by right: it may have more according to its status."""
        return {
            unique.name: tuple(
                value
                for value in owner.holds(unique.name)
                if (holder := self._holder(unique, value)) is not None and holder.uid == owner.uid
            )
            for unique in self.uniques.values()
        }

    def _claims(self, owner: Owner) -> Iterator[tuple[Unique, str]]:
        for number, unique in self.uniques.items():
            for value in owner.values[number] if owner.values else ():
                yield unique, str(value)

    def _holder(self, unique: Unique, value: str) -> Owner | Unreadable | None:
        """Return who has a value; None if nobody has."""
        known, entry = self._known(unique.everyone(value)), (unique.name, value)
        remembered = self._holders.pop(entry, None)
        holders = [owner for owner in known if owner.state == remembered]
        holders = holders or [owner for owner in known if value in owner.holds(unique.name)]
        holders = holders or [owner for owner in known if self._has_current_children(owner)]
        if holders:
            holder = min(holders, key=self._rank) if len(holders) > 1 else holders[0]
            self._holders[entry] = holder.state
            return holder
        unreadable = (o for o in self._owners.unreadable if value in o.holds(unique.name))
        return next(unreadable, None)

    def _first(self, unique: Unique, value: str) -> Owner | None:
        """Return which object a free value goes to; None if none can have it now."""
        wanting = [
            owner
            for owner in self._known(unique.everyone(value))
            if not owner.paused and not owner.deleting and self._may_have_all(owner)
        ]
        return min(wanting, key=self._rank) if len(wanting) > 1 else next(iter(wanting), None)

    def _known(self, keys: Sequence[Key]) -> list[Owner]:
        return [owner for key in keys if (owner := self._owners.cache.get(key)) is not None]

    def _may_have_all(self, owner: Owner) -> bool:
        """Return whether an object is served, and nobody else has a value that it wants."""
        served = self._selected(owner.key[0]) and not self._owners.why_not(Use.SERVE, owner.key[0])
        holders = (self._holder(unique, value) for unique, value in self._claims(owner))
        return served and all(holder is None or holder.uid == owner.uid for holder in holders)

    def _rank(self, owner: Owner) -> tuple[bool, float, Key]:
        """Return by what the first of several is known: who has children keeps what they serve."""
        space, name = owner.key
        has = any(
            child.parent == name and child.proven
            for source in self._children.values()
            for child in source.cache.within(space or None)
        )
        return not has, owner.created, owner.key

    def _has_current_children(self, owner: Owner) -> bool:
        """Return whether an object has children that were made from what it is now."""
        generation = owner.generation - owner.deleting  # which its deletion has raised
        every = (child for source in self._children.values() for child in source.owned(owner))
        return any(child.proven and child.generation >= generation for child in every)

    async def _record(self, owner: Owner, held: Held) -> None:
        """Record what an object has, unless it changed meanwhile."""
        if all(owner.holds(name) == values for name, values in held.items()):
            return
        changes = {"status": {HOLDS: {name: list(values) for name, values in held.items()}}}
        stored = await self._owners.patch(
            owner.key, str(owner.version), changes, "status", role=RECORD
        )
        if lost := [name for name, values in held.items() if stored.holds(name) != values]:
            raise StepError(troubles.holds_lost(self._owners.kind.kind, lost[0]))
