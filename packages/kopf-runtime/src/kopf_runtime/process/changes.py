"""Queues the objects that a change concerns: what client-go calls event handlers.

The sources of a controller call `Changes` with the record of what has changed, and the former one.
"""

from collections.abc import Callable, Hashable

from kopf_runtime.cluster.client import Client
from kopf_runtime.declaring.controller_declaration import Declaration
from kopf_runtime.declaring.kinds import Key, Kind
from kopf_runtime.declaring.records import Child, Owner, Unreadable
from kopf_runtime.reporting import troubles
from kopf_runtime.reporting.status import StatusReporter
from kopf_runtime.watching.availability import Use
from kopf_runtime.watching.caches import Caches
from kopf_runtime.working.external import External
from kopf_runtime.working.others import Others
from kopf_runtime.working.pace import Pace
from kopf_runtime.working.queue import WorkQueue
from kopf_runtime.working.templates import Templates


class Changes:
    """What follows from a change; the sources report none before `begin`."""

    _caches: Caches
    _external: External
    _reporter: StatusReporter
    _others: Others

    def __init__(
        self,
        client: Client,
        declaration: Declaration,
        queue: WorkQueue,
        templates: Templates,
        pace: Pace,
    ) -> None:
        self._client, self._declaration, self._queue = client, declaration, queue
        self._templates, self._pace = templates, pace

    def begin(
        self, caches: Caches, external: External, reporter: StatusReporter, others: Others
    ) -> None:
        """Take the parts that are built from the sources."""
        self._caches, self._external, self._reporter = caches, external, reporter
        self._others = others

    # --- lists and selections -----------------------------------------------------------------

    def turned(self, namespace: str) -> None:
        """Start over with a namespace that has just been selected or deselected."""
        self._external.invalidate(namespace)
        self._caches.reads.turned(namespace)
        for source in self._caches.sources:
            source.warn(namespace)
        if self._caches.selection.synced:  # else all are reconciled at the end of the list
            self._queue_all(namespace)
            for owner in self._caches.owners.cache.within(namespace):
                self._index(owner, owner, turned=True)

    def listed(self, namespace: str | None, own: bool, resync: bool) -> None:
        """Queue the objects of a namespace once a kind is, or is not, served there.

        The resync of the objects' own kind queues them, too: what that of another kind finds out
        has queued those that it concerns.
        """
        if own or not resync:
            self._queue_all(namespace)

    def _queue_all(self, namespace: str | None) -> None:
        space = namespace or "" if self._declaration.kind.namespaced else ""
        if self._caches.why_unserved(space):
            return
        keys = self._caches.keys(namespace)
        for key in (*keys, *self._sharing(keys if namespace else [])):
            self._queue.add(key, listed=True)

    def _sharing(self, keys: list[Key]) -> set[Key]:
        """Return the others that share an index's value with some, which were just listed."""
        sharing = set[Key]()
        for number, index in enumerate(self._declaration.indexes):
            owners = filter(None, map(self._caches.owners.cache.get, keys))
            for value in {value for owner in owners for value in owner.values[number]}:
                sharing.update(index.by_index(value))
        return sharing.difference(keys)

    def _add(self, key: Key, namespace: str | None = None, *, follows: bool = False) -> None:
        """Queue an object because of a change in a namespace, by default its own.

        Until its own is served, nothing can be done for it; then all of its objects are queued.
        """
        selected = self._caches.selection.has(key[0] if namespace is None else namespace)
        if selected and self._queue.running and not self._caches.why_unserved(key[0]):
            self._queue.add(key, follows=follows)

    # --- the objects themselves ---------------------------------------------------------------

    def owner(self, record: Owner | None, former: Owner | None) -> None:
        """Queue an object that has changed, unless the runtime has only written its status."""
        self._caches.reads.follow(record, former)
        self._index(record, former)
        if former is not None and (record is None or record.wanted is not former.wanted):
            # A standby, which sends nothing, would fill up with what is no longer wanted.
            for child in set(former.wanted).difference(record.wanted if record is not None else ()):
                self._templates.forget(child)
        written = self._reporter.is_own_write
        if record is not None and former is not None and written(record, former):
            if self._declaration.stepwise:  # it may depend on its status
                self._queue.add_after(record.key, troubles.SOONEST)
            return
        if (owner := record or former) is not None:
            if record is None:
                self._reporter.forget(owner.key)
                self._external.forget(owner.key)
            self._add(owner.key)

    def unreadable(self, skipped: Unreadable) -> None:
        """Queue an object that cannot be read, or can be again, and who wants what it has."""
        self._add(skipped.key)
        for unique in self._declaration.uniques.values():
            for key in {
                key for value in skipped.holds(unique.name) for key in unique.by_index(value)
            }:
                self._queue.add(key, listed=True)

    def _index(self, record: Owner | None, former: Owner | None, *, turned: bool = False) -> None:
        """Index an object's values, and queue the others with a value that it gained or lost."""
        # The end of a list of all queues all: meanwhile, many with one value would cost its square.
        owner = record or former
        assert owner is not None
        listing = bool(self._caches.owners.why_not(Use.SERVE, owner.key[0]))
        for number, index in enumerate(self._declaration.indexes):
            had, has = (
                (owner.key, owner.created, self._values_of(owner, number)) if owner else None
                for owner in (former, record)
            )
            if had is not None:
                index.remove(*had)
            if has is not None:
                index.add(*has)
            values = {value for entry in (had, has) if entry is not None for value in entry[2]}
            for value in values if turned or (had != has and not listing) else ():
                for holder in index.by_index(value):
                    self._queue.add(holder, listed=True)  # there may be very many

    def _values_of(self, owner: Owner, number: int) -> tuple[Hashable, ...]:
        """Return the values by which an object is found; of unique ones, also those that it has."""
        values = owner.values[number] if owner.values else ()
        if (unique := self._declaration.uniques.get(number)) is None:
            return values
        return tuple(dict.fromkeys((*values, *owner.holds(unique.name))))

    # --- what belongs to them -----------------------------------------------------------------

    def read(self, key: Key, kind: Kind | None = None) -> None:
        """Queue an object because one that it names, or one that is mapped to it, has changed."""
        self._external.outdate(key, kind)
        self._add(key)

    def child(self, kind: Kind) -> Callable[[Child | None, Child | None], None]:
        """Return the function that is called with the children of a kind."""

        def changed(record: Child | None, former: Child | None) -> None:
            if record is not None:
                self._pace.created(kind, record)
                self._others.saw(record, former)
            elif former is not None:
                parent = self._caches.parent(former)
                if parent is None or self._caches.owners.cache.get(parent) is not None:
                    self._pace.lost(kind, former, self._client.now())
            self.descendant(record, former)

        return changed

    def descendant(self, record: Child | None, former: Child | None) -> None:
        """Queue the object that a child or a descendant names."""
        parents = {self._caches.parent(c): c for c in (former, record) if c is not None}
        for parent, child in parents.items():
            if parent is not None:
                self._external.outdate(parent, child.kind)
                # In a backlog, the children of the others come before the next status of this one.
                follows = not self._caches.is_reported(parent)
                self._add(parent, child.key[0], follows=follows)
