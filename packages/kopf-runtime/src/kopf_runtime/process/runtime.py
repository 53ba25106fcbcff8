"""The engine of one controller: the parts that carry out what its author declares.

It connects the sources with the work queue and the reconciler. `manager` runs it.
"""

import asyncio
import functools
import logging
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Any

from msgspec.structs import replace

from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.fence import only_while
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.context import Context, Dry
from kopf_runtime.declaring.errors import DeclarationError, RetryError
from kopf_runtime.declaring.kinds import Key, Kind
from kopf_runtime.declaring.objects import Resource, UnreadableError
from kopf_runtime.declaring.records import Child, Fate, Owned, Owner, Unreadable, Wanted
from kopf_runtime.declaring.settings import Settings
from kopf_runtime.declaring.versions import Complete
from kopf_runtime.process.controller import Controller, nothing
from kopf_runtime.reporting import troubles
from kopf_runtime.reporting.events import Recorder
from kopf_runtime.reporting.status import StatusReporter
from kopf_runtime.watching.availability import State, Use
from kopf_runtime.watching.observer import Observer
from kopf_runtime.watching.reads import Reads
from kopf_runtime.watching.selection import Selection
from kopf_runtime.watching.source import Source
from kopf_runtime.working.admission import Asked
from kopf_runtime.working.apply import Applier
from kopf_runtime.working.external import External
from kopf_runtime.working.holds import Holds
from kopf_runtime.working.pace import Pace
from kopf_runtime.working.queue import WorkQueue
from kopf_runtime.working.reader import Reader
from kopf_runtime.working.reconcile import Reconciler
from kopf_runtime.working.templates import Marks, Templates

logger = logging.getLogger(__name__)


class Engine(Controller):
    """A controller at work."""

    @property
    def cleans_up(self) -> bool:
        """Whether a `finalize` is registered, and objects therefore have a finalizer."""
        return self._finalize is not None

    def set_up(
        self, client: Client, settings: Settings, metrics: Metrics, recorder: Recorder
    ) -> None:
        """Make the parts; raise `DeclarationError` if the declaration lacks one."""
        if self.owned and self._desired is nothing:
            owned = ", ".join(kind.kind for kind in self.owned)
            raise DeclarationError(
                f"no function says which objects of {owned} a {self.kind.kind} should have; "
                "register one with @controller.desired"
            )
        order = self._order()
        for call in (self._sync, self._checking):
            for kind in call.on if call is not None else ():
                if not any(kind in kinds for kinds in (self.owned, self.watched, self.mapped)):
                    raise DeclarationError(
                        f"on={kind.kind}: a {self.kind.kind} neither owns nor watches that kind"
                    )
        self._client, self.settings = client, settings
        self._vanished: dict[Key, str] = {}  # uids of objects that `gone` has to be told
        for name, (meaning, value) in self._gauges.items():
            try:
                metrics.of_objects(name, meaning, functools.partial(self._values, name, value))
            except ValueError:
                raise DeclarationError(
                    f"another metric has the name {metrics.full(name)}; choose another for the "
                    f"gauge of {self.kind.kind}"
                ) from None
        self._marks = marks = Marks(client.manager, self.kind)
        self._pace = Pace()
        templates = Templates(
            self.kind,
            marks,
            list(self.owned.values()),
            self._children_desired,
            pass_on=bool(self.watched),
        )
        self._selection = Selection(client, metrics, settings.namespace_selector, self._turned)
        self._templates = templates
        self._reads = Reads(
            client,
            metrics,
            self.kind,
            self.read,
            self.mapped,
            self._read_changed,
            self.why_unserved,
            self._selection.has,
        )
        for index in self.indexes:
            index.selected = self._selection.has
        self._listing, self._lists_begun, self._list_read = asyncio.Lock(), 0, 0
        reader = Reader(
            marks,
            self.kind,
            self._project,
            templates,
            self._reads.named,
            self.indexes,
            late=self._plans_late,
        )
        self._decoder = Complete(self.type, self.kind.group)
        self.owners: Source[Owner] = Source(
            client,
            self.kind,
            self.type,
            reader.owner,
            self._owner_changed,
            self._owner_unreadable,
            metrics,
            selected=self._selection.has,
            decoder=self._decoder,
        )
        self.children: dict[Kind, Source[Child]] = {
            owned.kind: Source(
                client,
                owned.kind,
                owned.type,
                reader.child(owned),
                self._child_changed(owned.kind),
                lambda *_: None,
                metrics,
                marks.selector,
                self._selection.has,
                optional=owned.optional,
                decoder=owned.judge,
            )
            for owned in self.owned.values()
        }
        self.grandchildren: dict[Kind, Source[Child]] = {
            watched.kind: Source(
                client,
                watched.kind,
                watched.type,
                reader.grandchild(watched),
                self._grandchild_changed,
                lambda *_: None,
                metrics,
                marks.selector,
                self._selection.has,
            )
            for watched in self.watched.values()
        }
        #: The sources of all watched kinds.
        self.sources: list[Source[Any]] = [
            self.owners,
            *self.children.values(),
            *self.grandchildren.values(),
            *self._reads.sources.values(),
            *self._reads.mapped,
            *self._selection.sources,
        ]
        self._observer = observer = Observer(
            client, lambda: self.settings, self.children, self.grandchildren, self._reads, marks.uid
        )
        applier = Applier(
            client, templates, marks, self.owners, self.children, self._pace, self._planned
        )
        self._holds = Holds(self.owners, self.children, self.uniques, self._selection.has)
        self._external = External(
            client,
            self.owners,
            observer,
            recorder,
            marks.finalizer,
            self._sync,
            self._finalize,
            self._checking,
            lambda key: self.queue.outside(key),  # which is made below
            lambda: self._session(self.settings),
        )
        self._reporter = StatusReporter(
            client,
            self.owners,
            observer,
            recorder,
            self._status,
            metrics.statuses_refused.labels(metrics.name_of(self.kind)),
        )
        self._reconciler = Reconciler(
            client,
            self.owners,
            self.children,
            {kind: self._fated(owned) for kind, owned in self.owned.items()},
            self.watched,
            applier,
            self._pace,
            self._external,
            self._reporter,
            order,
            self.why_unserved,
            self._why_missing,
            lambda key: self.queue.progress(key),  # which is made below
            self._planned,
            self._reads,
            self._is_current if self._stepwise or self.read or self.indexes else None,
            self._holds,
        )
        workers = self._workers or settings.workers
        self.queue = WorkQueue(metrics.name_of(self.kind), self._reconcile, workers, metrics)

    def _fated(self, owned: Owned) -> Owned:
        """Return a kind of children with what becomes of those that a step leaves out."""
        at_once = self._stepwise and owned.on_surplus is None and not owned.keeps_surplus
        return replace(owned, on_surplus=Fate.DELETE) if at_once else owned

    def _order(self) -> dict[Kind, int]:
        """Return how many kinds come before each kind of children; raise `DeclarationError`."""
        depths: dict[Kind, int] = {}
        named = {kind: owned.after for kind, owned in self.owned.items()}
        try:
            for kind in TopologicalSorter(named).static_order():
                if kind not in named:
                    raise DeclarationError(f"after= names {kind.kind}; declare it with owns(), too")
                depths[kind] = max((depths[earlier] + 1 for earlier in named[kind]), default=0)
        except CycleError as error:
            cycle = " after ".join(kind.kind for kind in error.args[1][::-1])
            raise DeclarationError(f"after= is a circle: {cycle}; leave out one of them") from None
        return depths

    def reflect(self, namespace: str | None) -> list[Coroutine[Any, Any, None]]:
        """Return the coroutines that keep the caches of a namespace, or of all, up to date."""
        reflectors = []
        for source in self.sources:
            scope = namespace if source.kind.namespaced else None
            if scope not in source.reflectors:  # else it is of no namespace, and reflected already
                changed = functools.partial(self._listed, scope, source is self.owners)
                period, stands_by = self.settings.resync_period, lambda: not self.queue.running
                reflectors.append(source.reflect(scope, period, changed, stands_by))
        # Children come after what owns them: only then can be told whether they were altered.
        owners = self.owners.reflectors.get(namespace) or self.owners.reflectors[None]
        return [watch.run(owners.tried if watch is not owners else None) for watch in reflectors]

    def why_unserved(self, namespace: str, *, again: bool = False) -> str:
        """Return why a namespace is not served, or an empty text if it is.

        With `again`, it also counts as served while it is only being listed again.
        A kind of children that cannot be served there stops only what needs it.
        """
        if not self._selection.has(namespace):
            return "--namespace-selector does not select it"
        for source in self.sources:
            needed = source in (self.owners, *self._selection.sources)
            use = Use.SERVE if needed else Use.BESIDE
            if why := source.why_not(use, namespace, again=again):
                return why
        return ""

    def _why_missing(self, kind: Kind, namespace: str) -> str:
        """Return why a kind of children or grandchildren cannot be served in a namespace."""
        sources = (self.children.get(kind), self.grandchildren.get(kind))
        reasons = (
            source.why_not(Use.CHANGE, namespace) for source in sources if source is not None
        )
        return next(filter(None, reasons), "")

    def unserved(self) -> tuple[list[str], int]:
        """Return the paths that cannot be served, and the number of those that are."""
        reflectors = [watch for source in self.sources for watch in source.reflectors.values()]
        waiting = [watch for watch in reflectors if watch.availability.is_waited_for]
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
        reflectors = (watch for source in self.sources for watch in source.reflectors.values())
        return min((watch.listed_at for watch in reflectors if watch.synced), default=0.0)

    def keys(self, namespace: str | None = None) -> list[Key]:
        """Return the keys of all objects, or of those that depend on a namespace.

        Those whose status is of their generation come last: mostly, nothing is to be done for them.
        """
        related = bool(namespace) and not self.kind.namespaced
        keys = list(self._related(namespace or "")) if related else self.owners.keys(namespace)
        return sorted(keys, key=self._is_reported)

    def _is_reported(self, key: Key) -> bool:
        owner = self.owners.cache.get(key)
        return owner is not None and owner.status.get("observedGeneration") == owner.generation

    async def first_lists(self) -> list[str]:
        """Wait until each kind was listed, or could not be; return why not."""
        every = [watch for source in self.sources for watch in source.reflectors.values()]
        for watch in every:
            await watch.tried.wait()
        states = ((watch.path, watch.availability) for watch in every)
        return [f"{path}: {known.why}" for path, known in states if known.is_waited_for]

    async def differences(self, key: Key) -> list[str]:
        """Return what `--dry-run` prints of an object; raise if that cannot be told."""
        if (left_out := self.owners.unreadable.get(key)) is not None:
            raise UnreadableError(None, left_out.reason)
        owner = self.owners.cache.get(key)
        return [] if owner is None else await self._reconciler.differences(owner)

    def asked(self) -> Iterator[tuple[str, Asked]]:
        """Yield what answers the API server before a write, with its path."""
        for webhook in self.webhooks:
            yield (
                webhook.path,
                Asked(webhook, self.type, self._decoder, self._given, self._client.user),
            )

    async def _given(self, thing: Resource) -> dict[str, Any]:
        """Return what the context of such a function has of the operator."""
        if self.indexes and (why := self.why_unserved(thing.metadata.namespace, again=True)):
            raise RetryError(f"what is indexed is not known yet: {why}")
        session = await self._external.session()
        return {"settings": self.settings, "now": self._client.now(), "session": session}

    async def work(self) -> None:
        """Reconcile until cancelled, while this replica leads."""
        self._external.invalidate()
        self._holds.begin()
        if self._plans_late:
            # What the former leader did or went by may be newer than what our watches have brought.
            peers = {self.kind: self.owners} if self.indexes else {}
            for kinds in (self.children, self.grandchildren, self._reads.sources, peers):
                for source in kinds.values():
                    source.list_again()
        await self.queue.run(self.keys)

    async def close(self) -> None:
        """Close what is open."""
        await self._external.close()

    @property
    def _plans_late(self) -> bool:
        """Whether children depend on more than the object, and are planned at each reconcile."""
        calls = self._sync is not None or self._checking is not None
        return self._stepwise or calls or bool(self.read or self.indexes)

    def _planned(self, owner: Owner, needed: Wanted | None = None) -> Owner:
        """Return an object with its children, planned with all that is known now if need be."""
        if owner.thing is None:
            return owner
        observer = self._observer
        if self._stepwise:
            for kind, why in observer.unseen(owner).items():
                raise troubles.missing(kind, why)
            given = observer.given(owner, observer.children(owner))
        else:
            given = observer.results(owner)
        dry = self.settings.dry_run
        context = Dry(**given | self._external.untold()) if dry else Context(**given)
        wanted, problem = self._templates.plan(owner.thing, context, needed)
        owner = replace(owner, wanted=wanted, problem=problem)
        self.owners.cache.put(owner)
        return owner

    async def _is_current(self, owner: Owner) -> bool:
        """Return whether the API server knows nothing newer that the plan depends on."""
        sources = (*self.children.values(), *self.grandchildren.values()) if self._stepwise else ()
        known = [await source.is_current(owner, self._marks.uid) for source in sources]
        known.append(await self._reads.is_current(owner, lambda: self.queue.progress(owner.key)))
        if self.indexes:
            await self._read_holders()
        return all(known)

    async def _read_holders(self) -> None:
        """Read all objects of the kind again: any of them may have gained or lost a value.

        Those that ask while a list is being read share the next one.
        """
        asked = self._lists_begun
        async with self._listing:
            if self._list_read > asked:  # it began after we asked
                return
            self._lists_begun += 1
            number = self._lists_begun
            listed = set(await self.owners.select("", ""))
            for key in [known.key for known in self.owners.cache if known.key not in listed]:
                try:
                    await self.owners.fetch(key)
                except UnreadableError as error:
                    self.owners.leave_out(error)
            self._list_read = number

    def _children_desired(
        self, thing: Any, context: Context[Any] | None
    ) -> Iterable[dict[str, Any]]:
        return self._desired(thing, context or Context(self.settings))

    def _values(
        self, name: str, value: Callable[[Owner], float | None]
    ) -> Iterator[tuple[Key, float]]:
        """Yield the value of an author's gauge for each object; log the first error of a scrape."""
        failed = False
        for owner in list(self.owners):  # they may change before the last one has its turn
            try:
                if (number := value(owner)) is not None:
                    yield owner.key, float(number)
            except Exception:
                if not failed:
                    logger.exception("The gauge %s failed for %s/%s", name, *owner.key)
                failed = True

    def _tell_gone(self, key: Key) -> Exception | None:
        """Tell an author's `gone` of an object, unless it only could not be seen for a while.

        Return its error, if any: it must not hold up the next object of that name.
        """
        if self._gone is None or key not in self._vanished:
            return None
        if self._selection.synced and not self._selection.has(key[0]):
            del self._vanished[key]  # that namespace is left alone, and may stay so for good
            return None
        if self.why_unserved(key[0]):
            return None
        record = self.owners.cache.get(key) or self.owners.unreadable.get(key)
        if record is None or record.uid != self._vanished[key]:
            try:
                self._gone(key)
            except Exception as error:
                return error
        del self._vanished[key]
        return None

    async def _reconcile(self, key: Key) -> float | None:
        failed = self._tell_gone(key)
        with only_while(lambda: self._selection.has(key[0])):
            after = await self._reconciler.reconcile(key)
        if failed is not None:
            raise failed
        return after

    def _related(self, namespace: str) -> set[Key]:
        """Return the keys of cluster-scoped objects that have or want children in a namespace."""
        children = (c for source in self.children.values() for c in source.cache.within(namespace))
        wanting = (p.key for p in self.owners if any(w.key[0] == namespace for w in p.wanted))
        return {*(("", child.parent) for child in children if child.parent), *wanting}

    def _turned(self, namespace: str) -> None:
        """Start over with a namespace that has just been selected or deselected."""
        self._external.invalidate(namespace)
        self._reads.turned(namespace)
        for source in self.sources:
            source.warn(namespace)
        if self._selection.synced:  # else all are reconciled at the end of the list
            self._synced(namespace)
            for owner in self.owners.cache.within(namespace):
                self._index(owner, owner, turned=True)

    def _listed(self, namespace: str | None, own: bool, resync: bool) -> None:
        """Queue the objects of a namespace once a kind is, or is not, served there.

        The resync of the objects' own kind queues them, too: what that of another kind finds out
        has queued those that it concerns.
        """
        if own or not resync:
            self._synced(namespace)

    def _synced(self, namespace: str | None) -> None:
        """Queue the objects of a namespace."""
        served = not self.why_unserved(namespace or "" if self.kind.namespaced else "")
        keys = self.keys(namespace) if served else []
        for key in (*keys, *self._vanished, *self._sharing(keys if namespace else [])):
            self.queue.add(key, listed=True)

    def _sharing(self, keys: list[Key]) -> set[Key]:
        """Return the others that share an index's value with some, which were just listed."""
        sharing = set[Key]()
        for number, index in enumerate(self.indexes):
            owners = filter(None, map(self.owners.cache.get, keys))
            for value in {value for owner in owners for value in owner.values[number]}:
                sharing.update(index.holders(value))
        return sharing.difference(keys)

    def _add(self, key: Key, namespace: str | None = None, *, follows: bool = False) -> None:
        """Queue an object because of a change in a namespace, by default its own.

        Until its own is served, nothing can be done for it; then all of its objects are queued.
        """
        selected = self._selection.has(key[0] if namespace is None else namespace)
        if selected and self.queue.running and not self.why_unserved(key[0]):
            self.queue.add(key, follows=follows)

    def _owner_changed(self, record: Owner | None, former: Owner | None) -> None:
        self._reads.follow(record, former)
        self._index(record, former)
        if former is not None and (record is None or record.wanted is not former.wanted):
            # A standby, which sends nothing, would fill up with what is no longer wanted.
            for child in set(former.wanted).difference(record.wanted if record is not None else ()):
                self._templates.forget(child)
        written = self._reporter.is_own_write
        if record is not None and former is not None and written(record, former):
            if self._stepwise:  # it may depend on its status, which may differ each time
                self.queue.add_after(record.key, troubles.SOONEST)
            return
        must_tell = self._gone is not None and self.queue.running
        if must_tell and former is not None and (record is None or record.uid != former.uid):
            self._vanished.setdefault(former.key, former.uid)
        if (owner := record or former) is not None:
            if record is None:
                self._reconciler.forget(owner.key)
            self._add(owner.key)

    def _read_changed(self, key: Key, kind: Kind | None = None) -> None:
        """Queue an object because one that it names, or one that is mapped to it, has changed."""
        self._external.outdate(key, kind)
        self._add(key)

    def _index(self, record: Owner | None, former: Owner | None, *, turned: bool = False) -> None:
        """Index an object's values, and queue the others with a value that it gained or lost."""
        # The end of a list of all queues all: meanwhile, many with one value would cost its square.
        owner = record or former
        assert owner is not None
        listing = bool(self.owners.why_not(Use.SERVE, owner.key[0]))
        for number, index in enumerate(self.indexes):
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
                for holder in index.holders(value):
                    self.queue.add(holder, listed=True)  # there may be very many

    def _values_of(self, owner: Owner, number: int) -> tuple[Hashable, ...]:
        """Return the values by which an object is found; of unique ones, also those that it has."""
        values = owner.values[number] if owner.values else ()
        if (unique := self.uniques.get(number)) is None:
            return values
        return tuple(dict.fromkeys((*values, *owner.holds(unique.name))))

    def _owner_unreadable(self, left_out: Unreadable) -> None:
        """Queue an object that cannot be read, or can be again, and who wants what it has."""
        self._add(left_out.key)
        for unique in self.uniques.values():
            for key in {
                key for value in left_out.holds(unique.name) for key in unique.holders(value)
            }:
                self.queue.add(key, listed=True)

    def _child_changed(self, kind: Kind) -> Callable[[Child | None, Child | None], None]:
        def changed(record: Child | None, former: Child | None) -> None:
            if record is not None:
                self._pace.made(kind, record)
            elif former is not None:
                parent = self._parent(former)
                if parent is None or self.owners.cache.get(parent) is not None:
                    self._pace.lost(kind, former, self._client.now())
            self._grandchild_changed(record, former)

        return changed

    def _grandchild_changed(self, record: Child | None, former: Child | None) -> None:
        for child in (record, former):
            if child is not None and (parent := self._parent(child)) is not None:
                self._external.outdate(parent, child.kind)
                # In a backlog, the children of the others come before the next status of this one.
                self._add(parent, child.key[0], follows=not self._is_reported(parent))

    def _parent(self, child: Child) -> Key | None:
        """Return the key of the object that a child names as its owner."""
        namespace = child.key[0] if self.kind.namespaced else ""
        return (namespace, child.parent) if child.parent else None
