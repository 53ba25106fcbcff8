"""The runtime of one controller: the parts that carry out what its author declares.

It connects the sources with the work queue and the reconciler. `manager` runs it.
"""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from kopf_runtime.cluster.fence import only_while
from kopf_runtime.converting.partial import Complete
from kopf_runtime.declaring.context import Context
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.controller_declaration import Declaration
from kopf_runtime.declaring.errors import DeclarationError, RetryError
from kopf_runtime.declaring.kinds import Key
from kopf_runtime.declaring.objects import Identity, Resource, UnreadableError, parse
from kopf_runtime.declaring.records import Child, Owned, Owner
from kopf_runtime.process.changes import Changes
from kopf_runtime.reporting.events import Deps
from kopf_runtime.reporting.status import StatusReporter
from kopf_runtime.reporting.troubles import Outcome
from kopf_runtime.watching.caches import Caches
from kopf_runtime.watching.listing import Lister
from kopf_runtime.watching.observer import Observer
from kopf_runtime.watching.reads import Reads
from kopf_runtime.watching.references import Namers, mapped
from kopf_runtime.watching.selection import Selection
from kopf_runtime.watching.source import Source, Watched
from kopf_runtime.working.act import Actor
from kopf_runtime.working.apply import Applier
from kopf_runtime.working.ending import keep
from kopf_runtime.working.external import External
from kopf_runtime.working.holds import Holds
from kopf_runtime.working.observe import Observation
from kopf_runtime.working.others import Others
from kopf_runtime.working.pace import Pace
from kopf_runtime.working.planner import Planner
from kopf_runtime.working.queue import Retries, WorkQueue
from kopf_runtime.working.reader import Reader
from kopf_runtime.working.reconcile import Reconciler
from kopf_runtime.working.templates import Marks, Templates

if TYPE_CHECKING:
    from kopf_runtime.working.admission import Asked

logger = logging.getLogger(__name__)

_IDENTITY = msgspec.json.Decoder(Identity)


class Runtime:
    """A controller at work."""

    def __init__(self, declaration: Declaration, deps: Deps) -> None:
        """Build the parts; raise `DeclarationError` if the declaration lacks one."""
        declaration.check_complete()
        self.declaration, self.kind, self._deps = declaration, declaration.kind, deps
        self._add_gauges()
        name = deps.metrics.name_of(self.kind)
        workers = declaration.workers or deps.settings.workers
        retries, rate = Retries(*(declaration.backoff or ())), declaration.rate
        self.queue = WorkQueue(name, self._reconcile, workers, deps.metrics, retries, rate)
        foreign = declaration.foreign
        marks = Marks(
            deps.client.manager,
            self.kind,
            foreign=foreign is not None,
            installation=deps.settings.installation,
        )
        self.marks, self.pace = marks, (pace := Pace())
        self.templates = templates = Templates(
            self.kind,
            marks,
            list(declaration.owned.values()),
            self._children_desired,
            pass_on=bool(declaration.watched),
            foreign=foreign is not None,
        )
        self._changes = changes = Changes(deps.client, declaration, self.queue, templates, pace)
        self._decoder = Complete(declaration.type, self.kind.group)
        self.caches = self._built(changes, marks, templates)
        for index in declaration.indexes:
            index.selected = self.caches.selection.has
        observer = Observer(deps.client, lambda: deps.settings, self.caches, marks.uid)
        planner = Planner(deps, declaration, self.caches, observer, templates, marks, self.queue)
        self.external = External(deps, declaration, self.caches, observer, self.queue, marks)
        reporter = StatusReporter(deps, self.caches.owners, observer, declaration.status, foreign)
        self._others = others = Others(deps, self.kind, self.caches.children, marks.installation)
        changes.begin(self.caches, self.external, reporter, others)
        self._holds = Holds(self.caches, declaration.uniques)
        self._applier = Applier(deps.client, templates, marks, self.caches, pace, planner, others)
        observation = Observation(deps.client, declaration, self.caches, self._applier, pace)
        actor = Actor(deps.client, self.caches, planner, self._applier, pace, reporter, self.queue)
        self._reconciler = Reconciler(
            self.caches, planner, observation, actor, self.external, self._holds, reporter
        )

    def _add_gauges(self) -> None:
        metrics = self._deps.metrics
        for name, (meaning, value) in self.declaration.gauges.items():
            try:
                metrics.of_objects(name, meaning, functools.partial(self._values, name, value))
            except ValueError:
                raise DeclarationError(
                    f"another metric has the name {name}; choose another for the "
                    f"gauge of {self.kind.kind}"
                ) from None

    def _built(self, changes: Changes, marks: Marks, templates: Templates) -> Caches:
        declaration, client, metrics = self.declaration, self._deps.client, self._deps.metrics
        namespaces = self._deps.settings.namespace_selector
        selection = Selection(client, metrics, namespaces, changes.turned)
        namers = Namers(self.kind, changes.read, self.why_unserved, selection.has)
        reads = Reads(client, metrics, namers, declaration.read)
        others = [mapped(client, metrics, namers, read) for read in declaration.mapped.values()]
        reader = Reader(declaration, marks, templates, reads.named)
        selector = declaration.foreign.selector if declaration.foreign else ""
        own = Watched(self.kind, declaration.type, selector, selection.has, decoder=self._decoder)
        owners = Source(client, metrics, own, reader.owner, changes.owner, changes.unreadable)

        def source(
            owned: Owned,
            read: Callable[[Any, Child | None], Child],
            changed: Callable[[Child | None, Child | None], object],
        ) -> Source[Child]:
            watched = Watched(
                owned.kind,
                owned.type,
                marks.selector,
                selection.has,
                optional=owned.optional,
                decoder=owned.judge,
            )
            return Source(client, metrics, watched, read, changed)

        children = {
            kind: source(owned, reader.child(owned), changes.child(kind))
            for kind, owned in declaration.owned.items()
        }
        descendants = {
            kind: source(watched, reader.descendant(watched), changes.descendant)
            for kind, watched in declaration.watched.items()
        }
        selects = bool(own.selector)
        return Caches(owners, children, descendants, reads, others, selection, selects)

    def why_unserved(self, namespace: str) -> str:
        """Return why a namespace is not served, or an empty text if it is."""
        return self.caches.why_unserved(namespace)

    def reflect(self, namespace: str | None) -> list[Coroutine[Any, Any, None]]:
        """Return the coroutines that keep the caches of a namespace, or of all, up to date."""
        reflectors, owners = [], self.caches.owners
        period = self._deps.settings.resync_period
        for source in self.caches.sources:
            scope = namespace if source.kind.namespaced else None
            if scope not in source.reflectors:  # else it is of no namespace, and reflected already
                changed = functools.partial(self._changes.listed, scope, source is owners)
                stands_by = lambda: not self.queue.running  # noqa: E731
                reflectors.append(source.reflect(scope, period, changed, stands_by))
        # Children come after what owns them: only then is it known whether they were altered.
        first = owners.reflectors.get(namespace) or owners.reflectors[None]
        return [watch.run(first.tried if watch is not first else None) for watch in reflectors]

    async def differences(self, key: Key) -> list[str]:
        """Return what `--dry-run` prints of an object; raise if that is not known."""
        if (skipped := self.caches.owners.unreadable.get(key)) is not None:
            raise UnreadableError(None, skipped.reason)
        from kopf_runtime.working.diff import diff

        texts, owner = [], self.caches.owners.cache.get(key)
        for action in await self._reconciler.preview(owner, dry=True) if owner is not None else ():
            wanted, child, client = action.wanted, action.child, self._deps.client
            heading = f"# {self.kind.kind} {'/'.join(filter(None, key))}: would {action.text}\n"
            if (wanted is None and child is None) or action.waits:
                texts.append(heading)
                continue
            live, manifest, manager = None, None, client.manager
            if child is not None:
                live = await client.ask("GET", child.kind.at(child.key))
            if wanted is not None and owner is not None:
                update = self.declaration.owned[wanted.kind].update
                manifest, manager = await self._applier.manifest(owner, wanted, update, child)
            texts.append(heading + diff(live, manifest, manager))
        return texts

    def asked(self) -> "Iterator[tuple[str, Asked]]":
        """Yield what answers the API server before a write, with its path."""
        if not self.declaration.webhooks:
            return
        from kopf_runtime.working.admission import Asked

        for webhook in self.declaration.webhooks:
            yield (
                webhook.path,
                Asked(
                    webhook,
                    self.declaration.type,
                    self._decoder,
                    self._given,
                    self._deps.client.user,
                ),
            )

    async def _given(self, thing: Resource) -> dict[str, Any]:
        """Return what the context of such a function has of the operator."""
        if self.declaration.indexes and (
            why := self.caches.why_unserved(thing.metadata.namespace, again=True)
        ):
            raise RetryError(f"what is indexed is not known yet: {why}")
        session = await self.external.session()
        return {"settings": self._deps.settings, "now": self._deps.client.now(), "session": session}

    async def work(self) -> None:
        """Reconcile until cancelled, while this replica leads."""
        self.external.invalidate()
        self._holds.begin()
        self._others.begin()
        if self.declaration.plans_late:
            # What the former leader did or went by may be newer than what our watches have brought.
            self.caches.list_again(owners=bool(self.declaration.indexes))
        async with asyncio.TaskGroup() as group:
            group.create_task(self.queue.run(self.caches.keys))
            adds = self.declaration.contribution or self.declaration.finalize
            if self.caches.selects and (adds or self._writes_state):
                group.create_task(keep(self._find_left))

    @property
    def _writes_state(self) -> bool:
        """Whether the state is written into the objects of others, for which they have no label."""
        foreign = self.declaration.foreign
        return foreign is not None and bool(foreign.annotation or foreign.condition)

    async def _find_left(self) -> None:
        """Queue the objects that have something of ours, and were unselected while nobody led."""
        owners = self.caches.owners
        while not all(reflector.synced for reflector in owners.reflectors.values()):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        for space in owners.reflectors:
            labels = "" if self._writes_state else self.marks.served
            lister = Lister(self._deps.client, self.kind.path(space), labels)
            async with contextlib.aclosing(lister.pages()) as pages:
                async for page, _ in pages:
                    for raw in page.items or ():
                        known = parse(_IDENTITY, raw).metadata
                        key = (known.namespace, known.name)
                        if owners.cache.get(key) is None and self._is_marked(raw):
                            self.queue.add(key, listed=True)

    def _is_marked(self, raw: bytes | msgspec.Raw) -> bool:
        """Return whether an object has something of ours: its label, or a state."""
        foreign = self.declaration.foreign
        if self.marks.served in (parse(_IDENTITY, raw).metadata.labels or {}):
            return True
        with contextlib.suppress(msgspec.MsgspecError, UnicodeError):  # nothing is taken from it
            thing = parse(self._decoder, raw)
            return foreign is not None and foreign.is_by(self.marks.manager, thing.metadata)
        return False

    def enqueue(self, key: Key) -> None:
        """Queue an object because of something outside the cluster."""
        self._changes.read(key)

    async def close(self) -> None:
        """Close what is open."""
        await self.external.close()

    async def _reconcile(self, key: Key) -> Outcome:
        with only_while(lambda: self.caches.selection.has(key[0])):
            return await self._reconciler.reconcile(key)

    def _children_desired(self, thing: Any, context: Context[Any] | None) -> Iterable[Any]:
        return self.declaration.desired(thing, context or Context(self._deps.settings))

    def _values(
        self, name: str, value: Callable[[Owner], float | None]
    ) -> Iterator[tuple[Key, float]]:
        """Yield the value of an author's gauge for each object; log the first error of a scrape."""
        failed = False
        for owner in list(self.caches.owners):  # they may change before the last one has its turn
            try:
                if (number := value(owner)) is not None:
                    yield owner.key, float(number)
            except Exception:
                if not failed:
                    logger.exception("The gauge %s failed for %s/%s", name, *owner.key)
                failed = True


def built(controllers: Sequence[Controller], deps: Deps) -> list[Runtime]:
    """Return the runtimes of controllers; raise `DeclarationError`."""
    refuse_odd(controllers)
    runtimes = [Runtime(controller.declaration, deps) for controller in controllers]
    for controller, runtime in zip(controllers, runtimes, strict=True):
        controller.owners, controller.enqueue = runtime.caches.owners, runtime.enqueue
    return runtimes


def own(controllers: Iterable[Controller]) -> list[Controller]:
    """Return the controllers of the operator's own kinds, which have CRDs."""
    return [each for each in controllers if each.declaration.foreign is None]


def refuse_odd(controllers: Sequence[Controller]) -> None:
    """Raise `DeclarationError` if there is no controller, or if two serve one kind."""
    if not controllers:
        raise DeclarationError(
            "the manager has no controller; declare one with manager.controller_for(CLASS), or "
            "run handlers of kopf alone with `kopf run`, without a manager"
        )
    kinds = [controller.kind for controller in controllers]
    if twice := [kind.kind for kind in kinds if kinds.count(kind) > 1]:
        raise DeclarationError(
            f"{twice[0]} has more than one controller; declare all about a kind with one"
        )
