"""Knows the objects that others name, such as a user's Secret, and who names them.

Each `engine` has one. Of an object only what `project` returned is kept, while it is named.
"""

import random
import time
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import replace

from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.errors import ApiError, Wait
from kopf_runtime.declaring.indexes import Index
from kopf_runtime.declaring.kinds import Key, Kind
from kopf_runtime.declaring.objects import Object, Resource, UnreadableError, decode
from kopf_runtime.declaring.records import Name, Owner, PlanError, Read, Seen, Unreadable
from kopf_runtime.watching.source import Source

#: Objects of a kind that one may name: they are asked for one after the other.
MAX_NAMES = 100
#: The view of an object that nobody named when it was read.
_UNREAD = object()


class Reads:
    """The objects that those of one kind name.

    `changed` is called with the key of one of these, and the kind of what is only mapped to it.
    """

    def __init__(
        self, client: Client, metrics: Metrics, owner: Kind, reads: Mapping[Kind, Read],
        mapped: Mapping[Kind, Read], changed: Callable[..., object],
        why_unserved: Callable[[str], str],
    ) -> None:  # fmt: skip
        self._client, self._owner, self._reads = client, owner, reads
        self._changed, self._why_unserved = changed, why_unserved
        self._naming = Index(self.names)
        # What was last polled, with when that is to be done again, by `time.monotonic`.
        self._polled: dict[Name, tuple[Any, float]] = {}
        self._decoders = {one.kind: msgspec.json.Decoder(one.type) for one in reads.values()}
        self.sources: dict[Kind, Source[Seen]] = {
            one.kind: Source(
                client, one.kind, one.type, self._reader(one), self._news(one.kind),
                self._unreadable(one.kind), metrics,
            )
            for one in reads.values() if one.every is None
        }  # fmt: skip
        #: The objects that only queue others, with the keys of these and what counts as a change.
        self.mapped: list[Source[Seen]] = [
            Source(
                client, one.kind, one.type, self._mapper(one), self._moved(one.kind),
                lambda _: None, metrics,
            )
            for one in mapped.values()
        ]  # fmt: skip

    # --- who names what -----------------------------------------------------------------------

    def names(self, thing: Resource) -> tuple[Name, ...]:
        """Return the objects that an object names; raise whatever the author's `keys` raises."""
        names: dict[Name, None] = {}
        for kind, read in self._reads.items():
            named = (_key(one, thing.metadata.namespace, kind) for one in read.keys(thing))
            keys = list(dict.fromkeys(islice(named, MAX_NAMES + 1)))
            if len(keys) > MAX_NAMES:
                raise PlanError(f"it names more than {MAX_NAMES} objects of {kind}, the most")
            names |= dict.fromkeys((kind, key) for key in keys)
        return tuple(names)

    def follow(self, record: Owner | None, known: Owner | None) -> None:
        """Note what an object names now, and forget what nobody names any more."""
        if known is not None:
            self._naming.remove(known.key, known.created, known.names)
        if record is not None:
            self._naming.add(record.key, record.created, record.names)
        for kind, key in known.names if known is not None else ():
            if not self._naming.holders((kind, key)):
                self._polled.pop((kind, key), None)
                source = self.sources.get(kind)
                if source is not None and (seen := source.cache.get(key)) is not None:
                    source.cache.put(replace(seen, view=_UNREAD))

    def _queue(self, name: Name) -> None:
        for key in self._naming.holders(name):
            self._changed(key)

    # --- what is named ------------------------------------------------------------------------

    def views(self, owner: Owner) -> dict[Kind, dict[Key, Any]]:
        """Return the views of the objects that an object names; None stands for a missing one."""
        views: dict[Kind, dict[Key, Any]] = {kind: {} for kind in self._reads}
        for kind, key in owner.names:
            if (source := self.sources.get(kind)) is None:
                view = self._polled.get((kind, key), (None, 0.0))[0]
            else:
                seen = source.cache.get(key)
                view = seen.view if seen is not None and seen.view is not _UNREAD else None
            views[kind][key] = view
        return views

    def due(self, owner: Owner) -> float | None:
        """Return the seconds until an object has to be asked for again, or None."""
        polled = (self._polled[name][1] for name in owner.names if name in self._polled)
        at = min(polled, default=None)
        return None if at is None else max(0.0, at - time.monotonic())

    async def prepare(self, owner: Owner) -> None:
        """Read what an object names and is not known yet.

        Raise `PlanError`, `Wait` or `ApiError` if that is not possible.
        """
        for kind, key in owner.names:
            self._check(owner, kind, key)
            if (source := self.sources.get(kind)) is None:
                await self._poll(owner, kind, key)
                continue
            if why := source.why_missing(key[0]):
                raise Wait("KindNotServed", f"{kind.plural} cannot be read: {why}", after=5.0)
            if (left_out := source.unreadable.get(key)) is not None:
                raise _unreadable(kind, key, left_out.reason)
            if (seen := source.cache.get(key)) is not None and seen.view is _UNREAD:
                try:
                    await source.fetch(key)
                except UnreadableError as error:
                    raise _unreadable(kind, key, str(error)) from error

    def _check(self, owner: Owner, kind: Kind, key: Key) -> None:
        """Refuse what the object's author could not read, and what the operator does not serve."""
        if key[0] == owner.key[0] or not kind.namespaced:
            return
        where = f"{kind.kind} {key[0]}/{key[1]}"
        if not key[0]:
            raise PlanError(f"{kind.kind} {key[1]} is named without a namespace")
        if owner.key[0] and not self._reads[kind].across_namespaces:
            raise PlanError(
                f"{where} is in another namespace than the {self._owner.kind}; name one in "
                f"{owner.key[0]}"
            )
        if why := self._why_unserved(key[0]):
            text = f"{where} is not read, because its namespace is not served: {why}."
            raise Wait("NamespaceNotServed", text, after=5.0)

    async def _poll(self, owner: Owner, kind: Kind, key: Key) -> None:
        read, now = self._reads[kind], time.monotonic()
        known, at = self._polled.get((kind, key), (_UNREAD, 0.0))
        if now < at:
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
        if known is not _UNREAD and view != known:
            self._queue((kind, key))

    def _reader(self, read: Read) -> Callable[[Object, Seen | None], Seen]:
        def seen(thing: Object, _: Seen | None) -> Seen:
            meta = thing.metadata
            named = self._naming.holders((read.kind, meta.key))
            view = read.project(thing) if named else _UNREAD
            return Seen(meta.key, meta.uid, meta.version, view)

        return seen

    def _news(self, kind: Kind) -> Callable[[Seen | None, Seen | None], None]:
        def changed(record: Seen | None, known: Seen | None) -> None:
            one = record or known
            if one is not None and (record is None or known is None or record.view != known.view):
                self._queue((kind, one.key))

        return changed

    def _unreadable(self, kind: Kind) -> Callable[[Unreadable], None]:
        return lambda left_out: self._queue((kind, left_out.key))

    def _mapper(self, read: Read) -> Callable[[Object, Seen | None], Seen]:
        def seen(thing: Object, _: Seen | None) -> Seen:
            meta = thing.metadata
            keys = tuple(_key(one, meta.namespace, self._owner) for one in read.keys(thing))
            return Seen(meta.key, meta.uid, meta.version, (keys, read.project(thing)))

        return seen

    def _moved(self, kind: Kind) -> Callable[[Seen | None, Seen | None], None]:
        def moved(record: Seen | None, known: Seen | None) -> None:
            said = [(one.uid, one.view) for one in (record, known) if one is not None]
            if len(said) == 1 or said[0] != said[1]:
                for key in {key for _, (keys, _) in said for key in keys}:
                    self._changed(key, kind)

        return moved


def _unreadable(kind: Kind, key: Key, why: str) -> Wait:
    text = f"{kind.kind} {'/'.join(filter(None, key))} cannot be read: {why}"
    return Wait("ReferenceUnreadable", text)


def _key(named: Any, own: str, kind: Kind) -> Key:
    """Return the key of what an author names: a name, or a namespace and a name."""
    namespace, name = (own, named) if isinstance(named, str) else named
    if not isinstance(namespace, str) or not isinstance(name, str) or not name:
        raise PlanError(f"{named!r} names no {kind.kind}: use a name, or a namespace and a name")
    return (namespace if kind.namespaced else ""), name
