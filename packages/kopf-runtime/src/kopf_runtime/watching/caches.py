"""The caches of one controller: the objects of its kind, and of all kinds that belong to it.

They say in which namespaces work can be done, and which objects depend on one.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kopf_runtime.declaring.kinds import Key, Kind
from kopf_runtime.declaring.records import Child, Owner, Seen
from kopf_runtime.watching.availability import State, Use
from kopf_runtime.watching.reads import Reads
from kopf_runtime.watching.reflector import Reflector
from kopf_runtime.watching.selection import Selection
from kopf_runtime.watching.source import Source


class Caches(msgspec.Struct, frozen=True, dict=True):
    """The sources of all watched kinds."""

    owners: Source[Owner]
    children: Mapping[Kind, Source[Child]]
    descendants: Mapping[Kind, Source[Child]]
    reads: Reads
    mapped: Sequence[Source[Seen]]
    selection: Selection
    #: Whether labels select the owners: one that has lost them is still there.
    selects: bool = False

    @functools.cached_property
    def sources(self) -> list[Source[Any]]:
        """The sources of all watched kinds."""
        return [
            self.owners,
            *self.children.values(),
            *self.descendants.values(),
            *self.reads.sources.values(),
            *self.mapped,
            *self.selection.sources,
        ]

    @functools.cached_property
    def _uses(self) -> list[tuple[Source[Any], Use]]:
        needed = (self.owners, *self.selection.sources)
        return [(each, Use.SERVE if each in needed else Use.BESIDE) for each in self.sources]

    @property
    def kind(self) -> Kind:
        """The kind of the owners."""
        return self.owners.kind

    def _reflectors(self) -> list[Reflector]:
        return [watch for source in self.sources for watch in source.reflectors.values()]

    # --- what is served -----------------------------------------------------------------------

    def why_unserved(self, namespace: str, *, again: bool = False) -> str:
        """Return why a namespace is not served, or an empty text if it is.

        With `again`, it also counts as served while it is only being listed again.
        A kind of children that cannot be served there stops only what needs it.
        """
        if not self.selection.has(namespace):
            return "--namespace-selector does not select it"
        for source, use in self._uses:
            if why := source.why_not(use, namespace, again=again):
                return why
        return ""

    def why_missing(self, kind: Kind, namespace: str) -> str:
        """Return why a kind of children or descendants cannot be served in a namespace."""
        sources = (self.children.get(kind), self.descendants.get(kind))
        reasons = (
            source.why_not(Use.CHANGE, namespace) for source in sources if source is not None
        )
        return next(filter(None, reasons), "")

    def unserved(self) -> tuple[list[str], int]:
        """Return the paths that cannot be served, and the number of those that are."""
        waiting = [watch for watch in self._reflectors() if watch.availability.is_waited_for]
        reasons = [f"{w.path}: {w.availability.why or 'is being listed'}" for w in waiting]
        served = [n for n in self.owners.reflectors if self._serves(n or "")]
        first = [watch for watch in waiting if watch.availability.state is State.LISTING]
        return reasons, 0 if first else len(served)

    def _serves(self, namespace: str) -> bool:
        """Return whether objects of a namespace can have children of any kind."""
        needed = [s for s in self.children.values() if not s.absent(namespace)]
        missing = [bool(source.why_not(Use.CHANGE, namespace)) for source in needed]
        return not self.why_unserved(namespace, again=True) and not (missing and all(missing))

    def last_resync(self) -> float:
        """Return the Unix time since which every served path was compared with a full list.

        0 means that nothing is served; `unserved` returns the paths that are not.
        """
        return min((watch.listed_at for watch in self._reflectors() if watch.synced), default=0.0)

    async def first_lists(self) -> list[str]:
        """Wait until each kind was listed, or could not be; return why not."""
        every = self._reflectors()
        for watch in every:
            await watch.tried.wait()
        states = ((watch.path, watch.availability) for watch in every)
        return [f"{path}: {known.why}" for path, known in states if known.is_waited_for]

    def list_again(self, *, owners: bool) -> None:
        """Have all kinds listed again on which a plan depends, with the owners if it does, too."""
        peers = {self.kind: self.owners} if owners else {}
        for kinds in (self.children, self.descendants, self.reads.sources, peers):
            for source in kinds.values():
                source.list_again()

    # --- what belongs together ----------------------------------------------------------------

    def has_children(self, owner: Owner) -> bool:
        """Return whether an object has children, or may have some that cannot be seen."""
        space = owner.key[0]
        return any(
            source.owned(owner) or (self.why_missing(kind, space) and not source.absent(space))
            for kind, source in self.children.items()
        )

    def owner_exists(self, namespace: str, uid: str) -> bool:
        """Return whether an owner in this namespace has the uid: owners are in the same one."""
        caches = self.owners.cache, self.owners.unreadable
        return any(record.uid == uid for cache in caches for record in cache.within(namespace))

    def keys(self, namespace: str | None = None) -> list[Key]:
        """Return the keys of all objects, or of those that depend on a namespace.

        Those whose status is of their generation come last: mostly, nothing is to be done for them.
        """
        related = bool(namespace) and not self.kind.namespaced
        keys = list(self._related(namespace or "")) if related else self.owners.keys(namespace)
        return [
            *sorted(keys, key=self.is_reported),
            *(self._left(namespace) if self.selects else ()),
        ]

    def _left(self, namespace: str | None) -> set[Key]:
        """Return the keys of owners that children name, and that are not selected any more."""
        children = (c for source in self.children.values() for c in source.cache.within(namespace))
        named = {parent for child in children if (parent := self.parent(child)) is not None}
        return {key for key in named if self.owners.cache.get(key) is None}

    def is_reported(self, key: Key) -> bool:
        """Return whether the status of an object is of its generation."""
        owner = self.owners.cache.get(key)
        return owner is not None and owner.status.get("observedGeneration") == owner.generation

    def _related(self, namespace: str) -> set[Key]:
        """Return the keys of cluster-scoped objects that have or want children in a namespace."""
        children = (c for source in self.children.values() for c in source.cache.within(namespace))
        wanting = (p.key for p in self.owners if any(w.key[0] == namespace for w in p.wanted))
        return {*(("", child.parent) for child in children if child.parent), *wanting}

    def parent(self, child: Child) -> Key | None:
        """Return the key of the object that a child names as its owner."""
        namespace = child.key[0] if self.kind.namespaced else ""
        return (namespace, child.parent) if child.parent else None
