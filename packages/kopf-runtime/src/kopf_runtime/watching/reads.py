"""Knows the objects that others name or select, such as a user's Secret, and who does so.

Each `engine` has one. Of an object only what `project` returned is kept, while it is named.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import replace

from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.errors import UNSEEN, ApiError, PlanError, Wait
from kopf_runtime.declaring.indexes import Index, several
from kopf_runtime.declaring.kinds import Key, Kind
from kopf_runtime.declaring.objects import Object, Resource, UnreadableError, decode
from kopf_runtime.declaring.parsers import DNS_LABEL, LABEL, NAME
from kopf_runtime.declaring.records import (
    Labels,
    Name,
    Owner,
    Read,
    Seen,
    Unreadable,
)
from kopf_runtime.watching.source import Source

#: Objects of a kind that one may name or select: they are asked for one after the other.
MAX_NAMES = 100
#: The view of an object that nobody named when it was read.
_UNREAD = object()
#: By what most objects are selected: an empty set of its own would take 216 bytes for each.
_NOTHING: frozenset[Labels] = frozenset()


class Reads:
    """The objects that those of one kind name or select.

    `changed` is called with the key of one of these, and the kind of what is only mapped to it.
    """

    def __init__(
        self,
        client: Client,
        metrics: Metrics,
        owner: Kind,
        reads: Mapping[Kind, Read],
        mapped: Mapping[Kind, Read],
        changed: Callable[..., object],
        why_unserved: Callable[[str], str],
        selected: Callable[[str], bool],
    ) -> None:
        self._client, self._owner, self._reads = client, owner, reads
        self._changed, self._why_unserved, self._selected = changed, why_unserved, selected
        self._naming = Index(self.names)
        # The keys of what is selected; which may not be all of them; and the labels to compare with
        # those of an object, by its kind, its namespace and one of its labels.
        self._members: dict[Name, set[Key]] = {}
        self._partial: set[Name] = set()
        self._by_label: dict[tuple[Kind, str, tuple[str, str]], set[Labels]] = {}
        # What was last polled, with when that is to be done again, by `time.monotonic`.
        self._polled: dict[Name, tuple[Any, float]] = {}
        self._decoders = {read.kind: msgspec.json.Decoder(read.type) for read in reads.values()}
        self.sources: dict[Kind, Source[Seen]] = {
            read.kind: Source(
                client,
                read.kind,
                read.type,
                self._reader(read),
                self._news(read.kind),
                self._unreadable(read.kind),
                metrics,
                needed=partial(self._needed, read.kind),
            )
            for read in reads.values()
            if read.every is None
        }
        #: The objects that only queue others, with the keys of these and what counts as a change.
        self.mapped: list[Source[Seen]] = [
            Source(
                client,
                read.kind,
                read.type,
                self._mapper(read),
                self._moved(read.kind),
                lambda _: None,
                metrics,
            )
            for read in mapped.values()
        ]

    # --- who names what -----------------------------------------------------------------------

    def named(self, thing: Resource) -> tuple[Name, ...]:
        """Return what an object names; nothing if that cannot be told, as `prepare` tells."""
        with suppress(PlanError):
            return self.names(thing)
        return ()

    def names(self, thing: Resource) -> tuple[Name, ...]:
        """Return the objects that an object names, and what it selects; raise `PlanError`."""
        names: dict[Name, None] = {}
        for kind, read in self._reads.items():
            try:
                keys = list(dict.fromkeys(islice(_keys(read, thing, kind), MAX_NAMES + 1)))
                if read.labels is not None:
                    names[kind, self._labels(read, thing.metadata.namespace, thing)] = None
            except PlanError:
                raise
            except Exception as error:  # the author's code
                text = f"what it names of {kind} failed: {type(error).__name__}: {error}"
                raise PlanError(text[:500]) from error
            if len(keys) > MAX_NAMES:
                raise PlanError(f"it names more than {MAX_NAMES} objects of {kind}, the most")
            names |= dict.fromkeys((kind, key) for key in keys)
        return tuple(names)

    def _labels(self, read: Read, namespace: str, thing: Resource) -> Labels:
        assert read.labels is not None
        pairs = tuple(sorted(dict(read.labels(thing)).items()))
        if not pairs:
            raise PlanError(
                f"labels= returned no label, which would select every {read.kind.kind}; return at "
                "least one"
            )
        for label, value in pairs:
            texts = isinstance(label, str) and isinstance(value, str)
            if not (texts and LABEL.fullmatch(f"{label}={value}")):
                raise PlanError(f"{label!r:.80}: {value!r:.80} cannot be a label of {read.kind}")
        confined = read.kind.namespaced and not read.across_namespaces
        return Labels(namespace if confined else "", pairs)

    def follow(self, record: Owner | None, former: Owner | None) -> None:
        """Note what an object names now, and forget what nobody names any more."""
        if former is not None:
            self._naming.remove(former.key, former.created, former.names)
        if record is not None:
            self._naming.add(record.key, record.created, record.names)
        for name in record.names if record is not None else ():
            if isinstance(name[1], Labels) and name not in self._members:
                self._select(name[0], name[1])
        for name in former.names if former is not None else ():
            if not self._naming.holders(name):
                self._drop(name)

    def _select(self, kind: Kind, labels: Labels) -> None:
        self._members[kind, labels] = set()
        places = [(kind, labels.namespace, pair) for pair in labels.pairs]
        rarest = min(places, key=lambda place: len(self._by_label.get(place, ())))
        self._by_label.setdefault(rarest, set()).add(labels)
        if any(True for _ in self.sources[kind].cache.within(labels.namespace or None)):
            self._partial.add((kind, labels))  # those that are known were not compared

    def _drop(self, name: Name) -> None:
        kind, named = name
        self._polled.pop(name, None)
        self._partial.discard(name)
        if isinstance(named, Labels):
            for pair in named.pairs:  # it is at one of them
                same = self._by_label.get(where := (kind, named.namespace, pair), set())
                same.discard(named)
                if not same:
                    self._by_label.pop(where, None)
        source = self.sources.get(kind)
        for key in self._members.pop(name, ()) if isinstance(named, Labels) else (named,):
            if source is not None and (seen := source.cache.get(key)) is not None:
                others = seen.selected - {named} or _NOTHING
                view = seen.view if others else _UNREAD
                source.cache.put(replace(seen, view=view, selected=others))

    def _selecting(self, kind: Kind, key: Key, labels: Mapping[str, str]) -> frozenset[Labels]:
        """Return the labels by which an object of a kind is selected."""
        return frozenset(
            selector
            for pair in labels.items()
            for namespace in {key[0], ""}
            for selector in self._by_label.get((kind, namespace, pair), ())
            if selector.match(key[0], labels)
        )

    def turned(self, namespace: str) -> None:
        """Queue who selects objects of all namespaces, of which one has just been (de)selected."""
        for (kind, labels), members in self._members.items():
            if any(key[0] == namespace for key in members):
                self._queue((kind, labels))

    def _queue(self, name: Name) -> None:
        for key in self._naming.holders(name):
            self._changed(key)

    # --- what is named ------------------------------------------------------------------------

    def views(self, owner: Owner) -> dict[Kind, dict[Key, Any]]:
        """Return the views of the objects that an object names; None stands for a missing one."""
        views: dict[Kind, dict[Key, Any]] = {kind: {} for kind in self._reads}
        for kind, named in owner.names:
            source = self.sources.get(kind)
            for key in self._chosen(kind, named) if isinstance(named, Labels) else (named,):
                if source is None:
                    view = self._polled.get((kind, key), (None, 0.0))[0]
                else:
                    seen = source.cache.get(key)
                    view = seen.view if seen is not None and seen.view is not _UNREAD else None
                views[kind][key] = view
        return views

    def _chosen(self, kind: Kind, labels: Labels) -> list[Key]:
        members = self._members.get((kind, labels), ())
        return sorted(key for key in members if self._selected(key[0]))

    def due(self, owner: Owner) -> float | None:
        """Return the seconds until an object has to be asked for again, or None."""
        now, waits = time.monotonic(), list[float]()
        for kind, named in owner.names:
            if (polled := self._polled.get((kind, named))) is not None:
                left, every = polled[1] - now, self._reads[kind].every
                waits.append(left if left > 0 else every or 0.0)  # it failed, or has just ended
        return min(waits, default=None)

    async def prepare(self, owner: Owner) -> None:
        """Read what an object names and is not known yet.

        Raise `PlanError`, `Wait` or `ApiError` if that is not possible.
        """
        for kind, named in self._named(owner):
            self._check(owner, kind, named)
            if kind not in self.sources:
                assert not isinstance(named, Labels)
                await self._poll(owner, kind, named)
            elif self._unread(kind, named):
                await self._read(kind, named)
                self._check(owner, kind, named)

    async def is_current(self, owner: Owner, progress: Callable[[], None]) -> bool:
        """Read all again that an object names; return whether its views are what they were.

        `progress` is called before each request. Raise `Wait` or `ApiError` if one fails.
        """
        before = self.views(owner)
        for kind, named in owner.names:
            progress()
            if isinstance(named, Labels) or kind in self.sources:
                await self._read(kind, named)
            else:
                await self._poll(owner, kind, named, again=True)
        return self.views(owner) == before

    async def unread(self, owner: Owner) -> Wait | None:
        """Read what an object that is being deleted names; return why that is not possible."""
        try:
            await self.prepare(owner)
        except (ApiError, PlanError, Wait) as error:
            text = error.message if isinstance(error, Wait) else str(error)
            return Wait(getattr(error, "reason", "") or "ReferenceUnreadable", text, after=UNSEEN)
        return None

    def ready(self, owner: Owner) -> bool:
        """Return whether all that an object names is known, as `prepare` has it."""
        try:
            for kind, named in self._named(owner):
                self._check(owner, kind, named)
        except (PlanError, Wait):
            return False
        return not any(self._unread(*name) for name in owner.names)

    def _named(self, owner: Owner) -> tuple[Name, ...]:
        """Return what an object names; raise `PlanError` if that cannot be told."""
        return owner.names or (self.names(owner.thing) if owner.thing is not None else ())

    def _unread(self, kind: Kind, named: Key | Labels) -> bool:
        """Return whether something that is named has yet to be read."""
        name = kind, named
        if isinstance(named, Labels):
            return name in self._partial or name not in self._members
        if (source := self.sources.get(kind)) is None:
            return name not in self._polled
        return (seen := source.cache.get(named)) is not None and seen.view is _UNREAD

    async def _read(self, kind: Kind, named: Key | Labels) -> None:
        if not isinstance(named, Labels):
            await self._fetch(kind, named)
        elif (members := self._members.get(name := (kind, named))) is not None:
            source = self.sources[kind]
            answered = await source.select(named.namespace, str(named))
            for key in answered:
                if (seen := source.cache.get(key)) is not None and named in seen.selected:
                    members.add(key)
            for key in members.difference(answered):  # it is gone, or has lost a label
                await self._fetch(kind, key)
            if self._members.get(name) is members:  # else it was selected again meanwhile
                self._partial.discard(name)

    async def _fetch(self, kind: Kind, key: Key) -> None:
        try:
            await self.sources[kind].fetch(key)
        except UnreadableError as error:
            self.sources[kind].leave_out(error)
            raise _unreadable(kind, key, str(error)) from error

    def _check(self, owner: Owner, kind: Kind, named: Key | Labels) -> None:
        """Refuse what cannot be read, raising `PlanError` or `Wait`."""
        source = self.sources.get(kind)
        if not isinstance(named, Labels):
            self._check_key(owner, kind, named)
            if source is None:
                return
            space, left_out = named[0], source.unreadable.get(named)
        else:
            assert source is not None
            if len(self._chosen(kind, named)) > MAX_NAMES:
                raise PlanError(
                    f"its labels select more than {MAX_NAMES} objects of {kind}, the most"
                )
            space = named.namespace
            ours = (u for u in source.unreadable.within(space or None) if self._selected(u.key[0]))
            left_out = next((u for u in ours if named.match(u.key[0], u.labels)), None)
        if why := source.why_unseen(space, gone=owner.deleting):
            raise Wait("KindNotServed", f"{kind.plural} cannot be read: {why}", after=UNSEEN)
        if left_out is not None:
            raise _unreadable(kind, left_out.key, left_out.reason)

    def _check_key(self, owner: Owner, kind: Kind, key: Key) -> None:
        """Refuse what the object's author could not read, and what the operator does not serve."""
        if kind.namespaced and not key[0]:
            raise PlanError(f"{kind.kind} {key[1]} is named without a namespace")
        if not NAME.fullmatch(key[1]) or not DNS_LABEL.fullmatch(key[0] or "none"):
            raise PlanError(f"no {kind.kind} can have the name {'/'.join(key)!r:.80}")
        if key[0] == owner.key[0] or not kind.namespaced:
            return
        where = f"{kind.kind} {key[0]}/{key[1]}"
        if owner.key[0] and not self._reads[kind].across_namespaces:
            raise PlanError(
                f"{where} is in another namespace than the {self._owner.kind}; name one in "
                f"{owner.key[0]}"
            )
        if why := self._why_unserved(key[0]):
            text = f"{where} is not read, because its namespace is not served: {why}."
            raise Wait("NamespaceNotServed", text, after=UNSEEN)

    async def _poll(self, owner: Owner, kind: Kind, key: Key, *, again: bool = False) -> None:
        read, now = self._reads[kind], time.monotonic()
        former, at = self._polled.get((kind, key), (_UNREAD, 0.0))
        if now < at and not again:
            return
        view = None
        try:
            raw = await self._client.request("GET", kind.at(key))
        except ApiError as error:
            if error.status != 404:
                raise
        else:
            try:
                view = read.project(decode(self._decoders[kind], raw))
            except Exception as error:  # an author's code may also fail
                raise _unreadable(kind, key, f"{type(error).__name__}: {error}") from error
        if owner.key not in self._naming.holders((kind, key)):
            return  # it no longer is
        assert read.every is not None
        # Objects that a start has asked for together do not stay together.
        self._polled[kind, key] = view, now + read.every * random.uniform(0.9, 1.0)  # noqa: S311
        if former is not _UNREAD and view != former:
            self._queue((kind, key))

    def _reader(self, read: Read) -> Callable[[Object, Seen | None], Seen]:
        def seen(thing: Object, _: Seen | None) -> Seen:
            meta = thing.metadata
            named = self._naming.holders((read.kind, meta.key))
            selected = self._selecting(read.kind, meta.key, meta.labels or {}) or _NOTHING
            view = read.project(thing) if named or selected else _UNREAD
            return Seen(meta.key, meta.uid, meta.version, view, selected)

        return seen

    def _news(self, kind: Kind) -> Callable[[Seen | None, Seen | None], None]:
        def changed(record: Seen | None, former: Seen | None) -> None:
            latest = record or former
            assert latest is not None
            has, had = (
                seen.selected if seen is not None else frozenset() for seen in (record, former)
            )
            for labels in had - has:
                self._members.get((kind, labels), set()).discard(latest.key)
            for labels in has - had:
                self._members[kind, labels].add(latest.key)
            if record is None or former is None or record.view != former.view:
                self._queue((kind, latest.key))
                turned = has | had
            else:
                turned = has ^ had
            for labels in turned:
                self._queue((kind, labels))

        return changed

    def _unreadable(self, kind: Kind) -> Callable[[Unreadable], None]:
        def changed(left_out: Unreadable) -> None:
            for name in self._names_of(kind, left_out):
                self._queue(name)

        return changed

    def _needed(self, kind: Kind, left_out: Unreadable) -> bool:
        """Return whether one that cannot be read is named or selected: others are no trouble."""
        return any(map(self._naming.holders, self._names_of(kind, left_out)))

    def _names_of(self, kind: Kind, left_out: Unreadable) -> list[Name]:
        selecting = self._selecting(kind, left_out.key, left_out.labels)
        return [(kind, left_out.key), *((kind, labels) for labels in selecting)]

    def _mapper(self, read: Read) -> Callable[[Object, Seen | None], Seen]:
        def seen(thing: Object, _: Seen | None) -> Seen:
            meta = thing.metadata
            keys = tuple(_keys(read, thing, self._owner))
            return Seen(meta.key, meta.uid, meta.version, (keys, read.project(thing)))

        return seen

    def _moved(self, kind: Kind) -> Callable[[Seen | None, Seen | None], None]:
        def moved(record: Seen | None, former: Seen | None) -> None:
            states = [(seen.uid, seen.view) for seen in (record, former) if seen is not None]
            if len(states) == 1 or states[0] != states[1]:
                for key in {key for _, (keys, _) in states for key in keys}:
                    self._changed(key, kind)

        return moved


def _unreadable(kind: Kind, key: Key, why: str) -> Wait:
    text = f"{kind.kind} {'/'.join(filter(None, key))} cannot be read: {why}"
    return Wait("ReferenceUnreadable", text)


def _keys(read: Read, thing: Object, kind: Kind) -> Iterator[Key]:
    """Return the keys of what an author names for an object, of a kind."""
    return (_key(name, thing.metadata.namespace, kind) for name in several(read.keys(thing)))


def _key(named: Any, own: str, kind: Kind) -> Key:
    """Return the key of what an author names: a name, or a namespace and a name."""
    namespace, name = (own, named) if isinstance(named, str) else named
    if not isinstance(namespace, str) or not isinstance(name, str) or not name:
        raise PlanError(
            f"{named!r} does not name a {kind.kind}: use a name, or a namespace and a name"
        )
    return (namespace if kind.namespaced else ""), name
