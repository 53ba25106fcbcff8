"""The controller of one kind: what its author declares, and the parts that carry it out.

`Manager.controller_for` returns it. Its author declares what the kind owns, and registers two pure
functions, `desired` and `status`. Two coroutines, `sync` and `finalize`, manage resources outside
the cluster. The controller connects the sources with the work queue and the reconciler.
"""

import functools
import sys
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.fence import only_while
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.conditions import Status
from kopf_runtime.declaring.kinds import Key, Kind
from kopf_runtime.declaring.objects import Object, Resource
from kopf_runtime.declaring.records import Child, Owned, Owner, Update, Wanted
from kopf_runtime.declaring.settings import Settings
from kopf_runtime.reporting import readiness
from kopf_runtime.reporting import status as statuses
from kopf_runtime.reporting.events import Recorder
from kopf_runtime.reporting.status import Observed, StatusReporter
from kopf_runtime.watching.selection import Selection
from kopf_runtime.watching.source import Source
from kopf_runtime.working.apply import Applier
from kopf_runtime.working.external import Call, External
from kopf_runtime.working.pace import Pace
from kopf_runtime.working.queue import WorkQueue
from kopf_runtime.working.reader import Reader
from kopf_runtime.working.reconcile import Reconciler
from kopf_runtime.working.templates import Marks, Templates

F = TypeVar("F", bound=Callable[..., Any])


def _nothing(*_: Any) -> Iterable[dict[str, Any]]:
    return ()


class Behavior:
    """What a controller does for the objects of one kind."""

    def __init__(self, kind: Kind, type_: type[Resource], project: Callable[[Any], Any]) -> None:
        self.kind, self.type = kind, type_
        self._project = project
        #: The declared kinds of children and of grandchildren.
        self.owned: dict[Kind, Owned] = {}
        self.watched: dict[Kind, Owned] = {}
        self._desired: Callable[..., Iterable[dict[str, Any]]] = _nothing
        self._status: Callable[[Observed], Status] = statuses.default_status
        self._sync: Call | None = None
        self._finalize: Call | None = None

    def owns(
        self, kind: Kind, type_: type[Object] | None = None, *, update: Update = Update.APPLY,
        project: Callable[[Any], Any] | None = None, ended: Callable[[Any], str] = lambda _: "",
        unready: Callable[[Any], str] | None = None,
    ) -> None:  # fmt: skip
        """Declare a kind of children.

        `project` returns the part of a child that `status` sees; it should be small. `ended` takes
        that part and returns why the child has ended, or an empty text while it may still run.
        `unready` takes it and returns why the child is not ready, or an empty text if it is. If
        neither a type nor one of them is given, a Deployment, StatefulSet, DaemonSet, Job or Pod
        is ready as its own status says; any other child is ready if it exists. Raise `TypeError` or
        `ValueError` if the declaration cannot be meant.
        """
        self._check(kind, self.owned)
        if not isinstance(update, Update):
            raise TypeError(f"update={update!r}: use kr.APPLY, kr.RECREATE or kr.CREATE")
        if (type_, project, unready) == (None, None, None) and kind in readiness.UNREADY:
            type_, project, unready = readiness.Workload, readiness.UNREADY[kind], str
        self.owned[kind] = Owned(
            kind, type_ or Object, update, project or (lambda _: None), ended,
            unready or (lambda _: ""),
        )  # fmt: skip

    def watches(
        self, kind: Kind, type_: type[Object] = Object, *, project: Callable[[Any], Any]
    ) -> None:
        """Declare a kind of grandchildren: `status` sees what `project` returns of them.

        They are created from the `spec.template` of a child, as the Pods of a Deployment are.
        Raise `TypeError` or `ValueError` as `owns` does.
        """
        self._check(kind, self.watched)
        self.watched[kind] = Owned(kind, type_, Update.RECREATE, project, lambda _: "")

    def _check(self, kind: Kind, declared: dict[Kind, Owned]) -> None:
        if not isinstance(kind, Kind):
            raise TypeError(f"{kind!r} is not a kr.Kind; kr.kinds has the usual ones")
        if kind in declared:
            raise ValueError(f"{kind.kind} is declared twice for {self.kind.kind}; do it once")

    @property
    def unplanned(self) -> str:
        """Which kinds are owned although no function says what an object should have."""
        owned = self.owned if self._desired is _nothing else ()
        return ", ".join(kind.kind for kind in owned)

    def desired(self, function: F) -> F:
        """Register the function that returns the children's manifests for an object and settings.

        It must be pure, and sees no status. The runtime adds labels, owner reference and namespace.
        If there is a `sync`, its result is the third argument.
        """
        self._desired = function
        return function

    def status(self, function: F) -> F:
        """Register the function that computes an object's status (`Observed` -> `Status`)."""
        self._status = function
        return function

    def sync(self, *, every: float = 300.0, timeout: float = 30.0) -> Callable[[F], F]:
        """Register the coroutine that brings external resources in line with an object.

        Its arguments are the object, an `aiohttp.ClientSession` and the settings. Its result is
        kept in memory and passed to `desired` and `status`. It is called whenever the object's
        spec, labels or annotations change, after a restart, and each `every` seconds. If it raises,
        or takes longer than `timeout` seconds, it is retried; `RetryError(…, after=…)` says when.
        It may be called twice for the same state, so it must check before it creates anything.
        """

        def register(function: F) -> F:
            self._sync = Call(function, timeout, every)
            return function

        return register

    def finalize(self, *, timeout: float = 30.0) -> Callable[[F], F]:
        """Register the coroutine that removes external resources before an object is deleted.

        It has the arguments of `sync`, and is retried until it succeeds. Until then a finalizer
        keeps the object; it is set before `sync` is called and before any child is created.
        """

        def register(function: F) -> F:
            self._finalize = Call(function, timeout)
            return function

        return register

    @property
    def cleans_up(self) -> bool:
        """Whether a `finalize` is registered, and objects therefore have a finalizer."""
        return self._finalize is not None


class Controller(Behavior):
    """The controller of one kind."""

    def set_up(
        self, client: Client, settings: Settings, metrics: Metrics, recorder: Recorder
    ) -> None:
        """Make the parts; end the process if the declaration lacks one."""
        if self.unplanned:
            sys.exit(
                f"{client.manager}: no function says which objects of {self.unplanned} a "
                f"{self.kind.kind} should have; register one with @controller.desired."
            )
        self._client, self.settings = client, settings
        marks, self._pace = Marks(client.manager, self.kind), Pace()
        templates = Templates(
            self.kind, marks, list(self.owned.values()), self._children_desired,
            pass_on=bool(self.watched),
        )  # fmt: skip
        self._selection = Selection(client, metrics, settings.namespace_selector, self._turned)
        syncs = self._sync is not None
        reader = Reader(marks, self.kind, self._project, templates, self._wanted, syncs=syncs)
        self.owners: Source[Owner] = Source(
            client, self.kind, self.type, reader.owner, self._owner_changed,
            lambda left_out: self._add(left_out.key), metrics, selected=self._selection.has,
        )  # fmt: skip
        self.children: dict[Kind, Source[Child]] = {
            owned.kind: Source(
                client, owned.kind, owned.type, reader.child(owned),
                self._child_changed(owned.kind), lambda *_: None, metrics, marks.selector,
                self._selection.has,
            )
            for owned in self.owned.values()
        }  # fmt: skip
        self.grandchildren: dict[Kind, Source[Child]] = {
            watched.kind: Source(
                client, watched.kind, watched.type, reader.grandchild(watched),
                self._grandchild_changed, lambda *_: None, metrics, marks.selector,
                self._selection.has,
            )
            for watched in self.watched.values()
        }  # fmt: skip
        #: The sources of all watched kinds.
        self.sources: list[Source[Any]] = [
            self.owners, *self.children.values(), *self.grandchildren.values(),
            *self._selection.sources,
        ]  # fmt: skip
        applier = Applier(client, templates, marks, self.owners, self.children, self._pace)
        self._external = External(
            client, self.owners, templates, lambda: self.settings, marks.finalizer,
            self._sync, self._finalize,
        )  # fmt: skip
        self._reporter = StatusReporter(
            client, self.owners, self.children, self.grandchildren, recorder, self._status
        )
        self._reconciler = Reconciler(
            client, self.owners, self.children, self.owned, self.watched, applier, self._pace,
            self._external, self._reporter, self.why_unserved, self._why_missing,
            lambda key: self.queue.progress(key),  # which is made below
        )  # fmt: skip
        self.queue = WorkQueue(self.kind.plural, self._reconcile, settings.workers, metrics)

    def reflect(self, namespace: str | None) -> list[Coroutine[Any, Any, None]]:
        """Return the coroutines that keep the caches of a namespace, or of all, up to date."""
        reflectors = []
        for source in self.sources:
            scope = namespace if source.kind.namespaced else None
            if scope not in source.reflectors:  # else it is of no namespace, and reflected already
                changed = functools.partial(self._synced, scope)
                reflectors.append(source.reflect(scope, self.settings.resync_period, changed))
        # Children come after what owns them: only then can be told whether they were altered.
        owners = self.owners.reflectors.get(namespace) or self.owners.reflectors[None]
        return [one.run(owners.tried if one is not owners else None) for one in reflectors]

    def why_unserved(self, namespace: str) -> str:
        """Return why a namespace is not served, or an empty text if it is.

        A kind of children that cannot be served there stops only what needs it.
        """
        if not self._selection.has(namespace):
            return "--namespace-selector does not select it"
        dependants = (*self.children.values(), *self.grandchildren.values())
        needed = (s for s in self.sources if s not in dependants or not s.why_missing(namespace))
        return next(filter(None, (source.why_unserved(namespace) for source in needed)), "")

    def _why_missing(self, kind: Kind, namespace: str) -> str:
        """Return why a kind of children or grandchildren cannot be served in a namespace."""
        sources = (self.children.get(kind), self.grandchildren.get(kind))
        reasons = (source.why_missing(namespace) for source in sources if source is not None)
        return next(filter(None, reasons), "")

    def unserved(self) -> tuple[list[str], int]:
        """Return the paths that cannot be served, and the number of those that are."""
        reflectors = [one for source in self.sources for one in source.reflectors.values()]
        waiting = [one for one in reflectors if not one.synced]
        told = [f"{one.path}: {one.trouble or 'is being listed'}" for one in waiting]
        served = [n for n in self.owners.reflectors if self._serves(n or "")]
        first = [one for one in waiting if one.trouble is None]
        return told, 0 if first else len(served)

    def _serves(self, namespace: str) -> bool:
        """Return whether objects of a namespace can have children of any kind."""
        missing = [bool(source.why_missing(namespace)) for source in self.children.values()]
        return not self.why_unserved(namespace) and not (missing and all(missing))

    def last_resync(self) -> float:
        """Return the Unix time since which every served path was compared with a full list.

        0 means that nothing is served; `unserved` returns the paths that are not.
        """
        reflectors = (one for source in self.sources for one in source.reflectors.values())
        return min((one.listed_at for one in reflectors if one.synced), default=0.0)

    def keys(self, namespace: str | None = None) -> list[Key]:
        """Return the keys of all objects, or of those that depend on a namespace."""
        if namespace and not self.kind.namespaced:
            return list(self._related(namespace))
        return self.owners.keys(namespace)

    async def work(self) -> None:
        """Reconcile until cancelled, while this replica leads."""
        self._external.invalidate()
        await self.queue.run(self.keys)

    async def close(self) -> None:
        """Close what is open."""
        await self._external.close()

    def _children_desired(self, thing: Any, outcome: Any) -> Iterable[dict[str, Any]]:
        given = () if self._sync is None else (outcome,)
        return self._desired(thing, self.settings, *given)

    async def _reconcile(self, key: Key) -> float | None:
        with only_while(lambda: self._selection.has(key[0])):
            return await self._reconciler.reconcile(key)

    def _related(self, namespace: str) -> set[Key]:
        """Return the keys of cluster-scoped objects that have or want children in a namespace."""
        children = (c for source in self.children.values() for c in source.cache.within(namespace))
        wanting = (p.key for p in self.owners if any(w.key[0] == namespace for w in p.wanted))
        return {*(("", child.parent) for child in children if child.parent), *wanting}

    def _turned(self, namespace: str) -> None:
        """Start over with a namespace that has just been selected or deselected."""
        self._external.invalidate(namespace)
        for source in self.sources:
            source.warn(namespace)
        if self._selection.synced:  # else all are reconciled at the end of the list
            self._synced(namespace)

    def _synced(self, namespace: str | None) -> None:
        """Queue the objects of a namespace, after each full list."""
        for key in self.keys(namespace):
            self.queue.add(key, listed=True)

    def _add(self, key: Key, namespace: str | None = None) -> None:
        """Queue an object because of a change in a namespace, by default its own.

        Until a namespace is listed, what arrives is mostly what the list brings.
        """
        if self._selection.has(key[0] if namespace is None else namespace):
            self.queue.add(key, listed=bool(self.queue.running and self.why_unserved(key[0])))

    def _wanted(self, parent: Key, kind: Kind, key: Key) -> Wanted | None:
        owner = self.owners.cache.get(parent)
        wanted = owner.wanted if owner is not None else ()
        return next((one for one in wanted if one.key == key and one.kind == kind), None)

    def _owner_changed(self, record: Owner | None, known: Owner | None) -> None:
        if record is not None and known is not None and self._reporter.is_own_write(record, known):
            return
        if (one := record or known) is not None:
            if record is None:
                self._reconciler.forget(one.key)
            self._add(one.key)

    def _child_changed(self, kind: Kind) -> Callable[[Child | None, Child | None], None]:
        def changed(record: Child | None, known: Child | None) -> None:
            if record is not None:
                self._pace.made(kind, record)
            elif known is not None:
                parent = self._parent(known)
                if parent is None or self.owners.cache.get(parent) is not None:
                    self._pace.lost(kind, known, self._client.now())
            self._grandchild_changed(record, known)

        return changed

    def _grandchild_changed(self, record: Child | None, known: Child | None) -> None:
        for child in (record, known):
            if child is not None and (parent := self._parent(child)) is not None:
                self._add(parent, child.key[0])

    def _parent(self, child: Child) -> Key | None:
        """Return the key of the object that a child names as its owner."""
        namespace = child.key[0] if self.kind.namespaced else ""
        return (namespace, child.parent) if child.parent else None
