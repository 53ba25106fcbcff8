"""The objects of one kind that others name, such as a user's Secret: watched, or polled.

Of an object only what `transform` returned is kept, while it is named.
"""

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring import models
from kopf_runtime.declaring.errors import UNSEEN, ApiError
from kopf_runtime.declaring.indexes import Index, several
from kopf_runtime.declaring.kinds import Key, Kind
from kopf_runtime.declaring.objects import Object, UnreadableError, decode
from kopf_runtime.declaring.parsers import DNS_LABEL, NAME
from kopf_runtime.declaring.records import Name, Owner, Read, Seen, Unreadable
from kopf_runtime.watching.source import Source, Watched

#: The view of an object that nobody named when it was read.
UNREAD = object()


class NotReadableError(Exception):
    """What an object names or selects cannot be read."""

    def __init__(self, reason: str, message: str, *, after: float | None = None) -> None:
        super().__init__(message)
        #: The reason and the message for the object's condition.
        self.reason, self.message = reason, message
        #: Seconds until it is tried again; None leaves that to the next change.
        self.after = after

    @property
    def invalid(self) -> bool:
        """Whether the object names what it may not, or an author's function failed."""
        return self.reason == "InvalidPlan"


def invalid(message: str) -> NotReadableError:
    """Return the error of an object that names what it may not."""
    return NotReadableError("InvalidPlan", message)


def unreadable(kind: Kind, key: Key, why: str) -> NotReadableError:
    """Return the error of an object that names one that cannot be read."""
    text = f"{kind.kind} {'/'.join(filter(None, key))} cannot be read: {why}"
    return NotReadableError("ReferenceUnreadable", text)


def keys(read: Read, thing: Object, kind: Kind) -> Iterator[Key]:
    """Yield the keys of what an author's `keys` returns for an object, of a kind."""
    own = thing.metadata.namespace
    for named in several(read.keys(thing)):
        namespace, name = (own, named) if isinstance(named, str) else named
        if not isinstance(namespace, str) or not isinstance(name, str) or not name:
            text = f"{named!r} does not name a {kind.kind}: use a name, or a namespace and a name"
            raise invalid(text)
        yield (namespace if kind.namespaced else ""), name


class Namers(msgspec.Struct, frozen=True):
    """The objects of one kind, and what they name."""

    kind: Kind
    #: Called with the key of one of them when it has to be reconciled.
    changed: Callable[..., object]
    #: Why a namespace is not served, and whether it is selected.
    why_unserved: Callable[[str], str]
    selected: Callable[[str], bool]
    index: Index = msgspec.field(default_factory=lambda: Index(lambda _: ()))

    def queue(self, name: Name) -> None:
        """Queue those that name something."""
        for key in self.index.by_index(name):
            self.changed(key)

    def check(self, owner: Owner, kind: Kind, key: Key) -> None:
        """Refuse what the object's author could not read, and what the operator does not serve."""
        if kind.namespaced and not key[0]:
            raise invalid(f"{kind.kind} {key[1]} is named without a namespace")
        if not NAME.fullmatch(key[1]) or not DNS_LABEL.fullmatch(key[0] or "none"):
            raise invalid(f"no {kind.kind} can have the name {'/'.join(key)!r:.80}")
        if key[0] == owner.key[0] or not kind.namespaced:
            return
        where = f"{kind.kind} {key[0]}/{key[1]}"
        if owner.key[0]:
            raise invalid(
                f"{where} is in another namespace than the {self.kind.kind}; name one in "
                f"{owner.key[0]}"
            )
        if why := self.why_unserved(key[0]):
            text = f"{where} is not read, because its namespace is not served: {why}."
            raise NotReadableError("NamespaceNotServed", text, after=UNSEEN)


class References:
    """The objects of a kind that others name, as a watch brings them."""

    def __init__(self, client: Client, metrics: Metrics, namers: Namers, read: Read) -> None:
        self.kind, self._read, self._namers = read.kind, read, namers
        self.source: Source[Seen] = Source(
            client,
            metrics,
            Watched(read.kind, read.type),
            self._record,
            self._changed,
            self._skipped,
            lambda skipped: any(map(namers.index.by_index, self._names_of(skipped))),
        )

    def names(self, thing: Object) -> Iterator[Any]:
        """Yield what an object names; raise `NotReadableError`."""
        return keys(self._read, thing, self.kind)

    def add(self, named: Any) -> None:
        """Note that something is named."""

    def drop(self, named: Any) -> None:
        """Forget what nobody names any more."""
        if (seen := self.source.cache.get(named)) is not None:
            self.source.cache.put(replace(seen, view=UNREAD))

    def turned(self, namespace: str) -> None:
        """Queue who is concerned by a namespace that has just been (de)selected."""

    def views(self, named: Any) -> dict[Key, Any]:
        """Return what `transform` returned of what is named; None stands for a missing one."""
        seen = self.source.cache.get(named)
        return {named: seen.view if seen is not None and seen.view is not UNREAD else None}

    def unread(self, named: Any) -> bool:
        """Return whether what is named has yet to be read."""
        return (seen := self.source.cache.get(named)) is not None and seen.view is UNREAD

    def due(self, _: Any) -> float | None:
        """Return the seconds until what is named has to be read again, or None."""
        return None

    async def refresh(self, owner: Owner, named: Any) -> None:
        """Read what is named unless it is known; raise `NotReadableError` or `ApiError`."""
        if self.unread(named):
            await self.read(owner, named)

    async def read(self, _: Owner, named: Any) -> None:
        """Read what is named, also again; raise `NotReadableError` or `ApiError`."""
        await self._fetch(named)

    def check(self, owner: Owner, named: Any) -> None:
        """Refuse what cannot be read; raise `NotReadableError`."""
        self._namers.check(owner, self.kind, named)
        self._check_seen(owner, named[0], self.source.unreadable.get(named))

    def _check_seen(self, owner: Owner, namespace: str, skipped: Unreadable | None) -> None:
        if why := self.source.why_unseen(namespace, gone=owner.deleting):
            text = f"{self.kind.plural} cannot be read: {why}"
            raise NotReadableError("KindNotServed", text, after=UNSEEN)
        if skipped is not None:
            raise unreadable(self.kind, skipped.key, skipped.reason)

    async def _fetch(self, key: Key) -> None:
        try:
            await self.source.fetch(key)
        except UnreadableError as error:
            self.source.skip(error)
            raise unreadable(self.kind, key, str(error)) from error

    def _names_of(self, skipped: Unreadable) -> list[Name]:
        """Return by what an object that cannot be read may be named."""
        return [(self.kind, skipped.key)]

    def _skipped(self, skipped: Unreadable) -> None:
        for name in self._names_of(skipped):
            self._namers.queue(name)

    def _record(self, thing: Object, _: Seen | None) -> Seen:
        meta = thing.metadata
        named = self._namers.index.by_index((self.kind, meta.key))
        view = self._read.transform(thing) if named else UNREAD
        return Seen(meta.key, meta.uid, meta.version, view)

    def _changed(self, record: Seen | None, former: Seen | None) -> None:
        latest = record or former
        assert latest is not None
        if record is not None and former is not None:
            known = former.view is not UNREAD or former.version != record.version
            if not known or record.view == former.view:
                return  # who names it reads it right now
        self._namers.queue((self.kind, latest.key))


class Polled(References):
    """The objects of a kind that others name, each of which is asked for now and then."""

    def __init__(self, client: Client, namers: Namers, read: Read, every: float) -> None:
        self.kind, self._read, self._namers = read.kind, read, namers
        self._client, self._every = client, every
        self._decoder = models.decoder(read.type)
        # What was last read, with when that is to be done again, by `time.monotonic`.
        self._views: dict[Key, tuple[Any, float]] = {}

    def drop(self, key: Key) -> None:
        """Forget what nobody names any more."""
        self._views.pop(key, None)

    def views(self, key: Key) -> dict[Key, Any]:
        """Return what `transform` returned of what is named; None stands for a missing one."""
        return {key: self._views.get(key, (None, 0.0))[0]}

    def unread(self, key: Key) -> bool:
        """Return whether what is named has yet to be read."""
        return key not in self._views

    def due(self, key: Key) -> float | None:
        """Return the seconds until what is named has to be read again, or None."""
        if key not in self._views:
            return None
        left = self._views[key][1] - time.monotonic()
        return left if left > 0 else self._every  # it failed, or has just ended

    async def refresh(self, owner: Owner, key: Key) -> None:
        """Read what is named if it is time; raise `NotReadableError` or `ApiError`."""
        if self._views.get(key, (None, 0.0))[1] <= time.monotonic():
            await self.read(owner, key)

    def check(self, owner: Owner, key: Key) -> None:
        """Refuse what may not be read; raise `NotReadableError`."""
        self._namers.check(owner, self.kind, key)

    async def read(self, owner: Owner, key: Key) -> None:
        """Read what is named, also again; raise `NotReadableError` or `ApiError`."""
        now, (former, _) = time.monotonic(), self._views.get(key, (UNREAD, 0.0))
        view = None
        try:
            raw = await self._client.request("GET", self.kind.at(key))
        except ApiError as error:
            if error.status != 404:
                raise
        else:
            try:
                view = self._read.transform(decode(self._decoder, raw))
            except Exception as error:  # an author's code may also fail
                raise unreadable(self.kind, key, f"{type(error).__name__}: {error}") from error
        if owner.key not in self._namers.index.by_index((self.kind, key)):
            return  # it no longer is
        # Objects that a start has asked for together do not stay together.
        self._views[key] = view, now + self._every * random.uniform(0.9, 1.0)  # noqa: S311
        if former is not UNREAD and view != former:
            self._namers.queue((self.kind, key))


def mapped(client: Client, metrics: Metrics, namers: Namers, read: Read) -> Source[Seen]:
    """Return a source of the objects that only queue others, which `watches(to=)` names for them.

    Its records have the keys of the others, and what counts as a change.
    """

    def record(thing: Object, _: Seen | None) -> Seen:
        meta = thing.metadata
        others = tuple(keys(read, thing, namers.kind))
        return Seen(meta.key, meta.uid, meta.version, (others, read.transform(thing)))

    def changed(record: Seen | None, former: Seen | None) -> None:
        states = [(seen.uid, seen.view) for seen in (record, former) if seen is not None]
        if len(states) == 1 or states[0] != states[1]:
            for key in {key for _, (others, _) in states for key in others}:
                namers.changed(key, read.kind)

    return Source(client, metrics, Watched(read.kind, read.type), record, changed)
