"""Turns the API server's objects of one kind into records, and reports changes to the controller.

There is one `Source` for the kind that a controller serves and one for each kind that it owns. It
has a reflector per namespace; `apply` also passes it the answers to our own writes.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from kopf_runtime.cluster.client import MERGE_PATCH, Client
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring import models
from kopf_runtime.declaring.errors import ApiError
from kopf_runtime.declaring.kinds import Key, Kind
from kopf_runtime.declaring.objects import (
    Decoder,
    Identity,
    Object,
    UnreadableError,
    decode,
    note_empties,
    number,
    parse,
)
from kopf_runtime.declaring.records import Child, Owner, Seen, Selected, Unreadable, held
from kopf_runtime.watching.availability import State, Use, may
from kopf_runtime.watching.cache import Answers, Cache, Gone
from kopf_runtime.watching.listing import Lister
from kopf_runtime.watching.reflector import Reflector, Scope

logger = logging.getLogger(__name__)

_IDENTITY = msgspec.json.Decoder(Identity)

R = TypeVar("R", Owner, Child, Seen, Selected)


Class = type[Object]


class Watched(msgspec.Struct, frozen=True):
    """What is listed and watched of a kind, and how it is decoded."""

    kind: Kind
    type: Class = Object
    #: A label selector.
    selector: str = ""
    #: Returns whether a namespace is selected.
    selected: Callable[[str], bool] = lambda _: True
    #: Whether the API server need not know the kind.
    optional: bool = False
    #: What decodes an object, if not just its type.
    decoder: Decoder[Any] | None = None


class Source(Generic[R]):
    """The objects of one kind; `read` makes a record of one, `changed` gets both."""

    def __init__(
        self,
        client: Client,
        metrics: Metrics,
        watched: Watched,
        read: Callable[[Any, R | None], R],
        changed: Callable[[R | None, R | None], object],
        unreadable: Callable[[Unreadable], object] = lambda _: None,
        needed: Callable[[Unreadable], bool] | None = None,
    ) -> None:
        self._client, self._watched = client, watched
        self.kind, self._selected = watched.kind, watched.selected
        self.cache: Cache[R] = Cache()
        self._gone, self._answers = Gone(), Answers()
        self._decoder = watched.decoder or models.decoder(watched.type)
        self._read: Callable[[Any, R | None], R] = read
        self._changed: Callable[[R | None, R | None], object] = changed
        self._skipped = unreadable
        self._metrics = metrics
        #: Returns whether to warn of an object that it cannot be read.
        self._needed = needed or (lambda skipped: watched.selected(skipped.key[0]))
        #: Objects that are left out because they cannot be read.
        self.unreadable: Cache[Unreadable] = Cache()
        metrics.count_unreadable(
            metrics.name_of(watched.kind), lambda: sum(map(self._needed, self.unreadable))
        )
        self.reflectors: dict[str | None, Reflector] = {}

    def __iter__(self) -> Iterator[R]:
        """Return the records of the objects in selected namespaces."""
        return (record for record in self.cache if self._selected(record.key[0]))

    def keys(self, namespace: str | None) -> list[Key]:
        """Return the keys of the objects in a namespace, or in all, that are in selected ones."""
        return [
            record.key
            for cache in (self.cache, self.unreadable)
            for record in cache.within(namespace)
            if self._selected(record.key[0])
        ]

    def owned(self, owner: Owner) -> list[R]:
        """Return the records of the objects that an object controls.

        An owner in another namespace is invalid, so an owner reference to one is ignored.
        """
        namespace = owner.key[0]
        return [child for child in self.cache.owned(owner.uid) if namespace in ("", child.key[0])]

    def reflect(
        self,
        namespace: str | None,
        resync_period: float,
        changed: Callable[[bool], object],
        stands_by: Callable[[], bool],
    ) -> Reflector:
        """Return a reflector that fills the cache with the objects of a namespace, or of all."""
        path, name = self.kind.path(namespace), self._metrics.name_of(self.kind)
        watched = self._watched
        scope = Scope(path, name, namespace, watched.selector, optional=watched.optional)
        reflector = self.reflectors[namespace] = Reflector(
            self._client, self._metrics, self, scope, resync_period, changed, stands_by
        )
        return reflector

    def why_not(self, use: Use, namespace: str, *, again: bool = False) -> str:
        """Return why the objects of a namespace may not be used so now, empty if they may.

        With `again`, they may also while they are only listed again.
        """
        reflector = self._reflector(namespace)
        if reflector is None:  # --namespace lists others; an object without one is of another kind
            unnamed = namespace and use is not Use.CHANGE
            return "--namespace does not name it" if unnamed else ""
        known = reflector.availability
        if may(use, known.state, again=again):
            return ""
        return known.why or f"{reflector.path} is being listed"

    def why_unseen(self, namespace: str, *, gone: bool = False) -> str:
        """Return why some objects of a namespace, or of all if it is empty, cannot be seen.

        With `gone`, a kind that the API server has not known for a while has no objects.
        """
        spaces = [namespace] if namespace else [space or "" for space in self.reflectors]
        use = Use.SEE_AT_END if gone else Use.SEE
        return next(filter(None, (self.why_not(use, space) for space in spaces)), "")

    def why_unread(self, owner: Owner, label: str) -> str:
        """Return why an object with an owner's uid in a label cannot be read; empty if all can."""
        skipped = (
            f"{'/'.join(record.key)} cannot be read: {record.reason}"
            for record in self.unreadable.within(owner.key[0])
            if record.labels.get(label) == owner.uid
        )
        return next(skipped, "")

    def absent(self, namespace: str) -> bool:
        """Return whether it is an optional kind that the API server does not know now."""
        reflector = self._reflector(namespace) if self._watched.optional else None
        return reflector is not None and reflector.availability.state is State.ABSENT

    def _reflector(self, namespace: str) -> Reflector | None:
        return self.reflectors.get(None) or self.reflectors.get(namespace)

    def read(self, raw: bytes | Raw) -> R:
        """Return the record of an object without storing it; raise `UnreadableError`."""
        thing = self._decode(raw)
        return self._record(thing)

    def learn(self, raw: bytes | Raw) -> R:
        """Store an object, such as the answer to a write; raise `UnreadableError`."""
        record = self._learn(self._decode(raw))
        self._answers.add(bytes(raw), record.key, record.version)
        return record

    async def fetch(self, key: Key) -> tuple[R, Any] | None:
        """Read and store an object; return its record and the object, or None if it is gone.

        The answer comes from etcd, so it is no older than what is known when it is asked for, even
        if the watch is late. Raise `ApiError` or `UnreadableError`.
        """
        found = await self.read_again(key)
        return found[:2] if found is not None else None

    async def read_again(self, key: Key) -> tuple[R, Any, bytes] | None:
        """Do the same, and return the JSON of the object, too."""
        before, at, asked = self.cache.get(key), self._newest(key), time.monotonic()
        try:
            raw = await self._client.request("GET", self.kind.at(key))
        except ApiError as error:
            if error.status != 404:
                raise
            cached = self.cache.get(key)
            if before is not None and cached is not None and cached.uid == before.uid:
                self.drop(cached)  # but not a new object that arrived meanwhile
                self._changed(None, cached)
            return None
        thing = self._decode(raw)
        return self._learn(thing, at, asked), thing, raw

    def drop(self, record: R) -> None:
        """Drop an object that the API server says is gone, so that no late answer brings it back.

        `changed` is not called.
        """
        self._gone.add(record.uid)
        cached = self.cache.get(record.key)
        if cached is not None and cached.uid == record.uid:
            self.cache.remove(record.key, cached.version)

    async def patch(
        self,
        key: Key,
        version: str,
        changes: dict[str, Any],
        subresource: str = "",
        *,
        role: str = "",
    ) -> R:
        """Change an object unless it has another version; return and store what it is now.

        Its new fields belong to a field manager of this role.

        Raise `ApiError` or `UnreadableError`.
        """
        body = {**changes, "metadata": {**changes.get("metadata", {}), "resourceVersion": version}}
        raw = await self._client.request(
            "PATCH",
            self.kind.at(key, subresource),
            body,
            content_type=MERGE_PATCH,
            query=urlencode({"fieldManager": f"{self._client.manager}{role}"}),
        )
        return self.learn(raw)

    def list_again(self) -> None:
        """Serve no namespace until it is listed again."""
        for reflector in self.reflectors.values():
            reflector.list_again()

    async def select(self, namespace: str, labels: str) -> list[Key]:
        """Read and store the objects of a namespace, or of all if it is empty, by their labels.

        Return their keys. Raise `ApiError`.
        """
        keys: list[Key] = []
        asked = time.monotonic()
        for space in self._spaces(namespace):
            lister = Lister(self._client, self.kind.path(space), labels)
            async with contextlib.aclosing(lister.pages()) as pages:
                async for page, version in pages:
                    taken = (self.take(raw, version, asked) for raw in page.items or ())
                    keys += [entry[0] for entry in taken if entry is not None]
        return keys

    def _spaces(self, namespace: str) -> list[str | None]:
        """Return the namespaces to list for those in a namespace, or in all if it is empty."""
        confined = namespace and self.kind.namespaced
        return [namespace] if confined else list(self.reflectors)

    async def is_current(self, owner: Owner, label: str) -> bool:
        """Return whether etcd has no newer state of the objects with an owner's uid in a label.

        Store what is newer. Raise `ApiError` or `UnreadableError`.
        """
        current, selector = True, f"{self._watched.selector},{label}={owner.uid}"
        for namespace in self._spaces(owner.key[0]):
            if self.absent(namespace or ""):
                continue
            uids, asked = set[str](), time.monotonic()
            lister = Lister(self._client, self.kind.path(namespace), selector)
            async with contextlib.aclosing(lister.pages()) as pages:
                async for page, version in pages:
                    for raw in page.items or ():
                        thing = self._decode(raw)
                        uids.add(thing.metadata.uid)
                        if self._put(self._record(thing), thing, version, asked):
                            current = False
            for cached in self.owned(owner):
                if namespace in (None, cached.key[0]) and cached.uid not in uids:
                    # It is gone, or only has another label.
                    found = await self.fetch(cached.key)
                    current &= found is not None and found[0].version == cached.version
        return current

    def _newest(self, key: Key) -> int:
        return max(self.cache.newest(key), self.unreadable.newest(key))

    def _decode(self, raw: bytes | Raw) -> Object:
        thing: Object = decode(self._decoder, raw)
        note_empties(thing, bytes(raw))
        return thing

    def _learn(self, thing: Object, at: int = 0, asked: float = 0.0) -> R:
        record = self._record(thing)
        if record.watched:  # otherwise no event would report its deletion
            self._put(record, thing, at, asked)
        return record

    def _put(self, record: R, thing: Object, at: int, asked: float) -> bool:
        """Store an object's record; return whether it is news, and tell that."""
        if self._gone.has(record.uid, asked):
            return False
        former = self.cache.get(record.key)
        if (skipped := self.unreadable.get(record.key)) is not None:
            if max(record.version, at) < skipped.version:
                return False
            self._take_back(skipped)
        news = self.cache.put(record, at)
        if not news and record != former and self.cache.get(record.key) is record:
            # Once etcd was restored, a version may be of another change. But an author's view may
            # differ each time that it is made.
            news = record == self._record(thing)
        if news:
            self._changed(record, former)
        return news

    def _record(self, thing: Object) -> R:
        try:
            return self._read(thing, self.cache.get(thing.metadata.key))
        except Exception as error:  # an author's code may also fail
            meta = thing.metadata
            identity = Identity.Meta(
                meta.name,
                meta.resource_version,
                meta.namespace,
                meta.uid,
                meta.generation,
                meta.labels,
            )
            why, status = f"{type(error).__name__}: {error}"[:500], getattr(thing, "status", None)
            raise UnreadableError(identity, why, status) from error

    # --- what reflectors bring ----------------------------------------------------------------

    def take(self, raw: Raw, at: int = 0, asked: float = 0.0) -> tuple[Key, int, bool] | None:
        """Store an object, of a list `at` a version; report and leave out an unreadable one."""
        if not at and (known := self._answers.repeated(bytes(raw))) is not None:
            cached = self.cache.get(known[0])
            if cached is not None and cached.version >= known[1]:
                return known[0], known[1], False
        try:
            thing = self._decode(raw)
            if self._gone.has((meta := thing.metadata).uid, asked):
                return meta.key, meta.version, False
            record = self._record(thing)
        except UnreadableError as error:
            return self.skip(error, at, asked)
        return record.key, record.version, self._put(record, thing, at, asked)

    def gone(self, raw: Raw) -> tuple[Key, int] | None:
        """Remove a deleted object; return its key and version, or None if it is unreadable."""
        try:
            meta = parse(_IDENTITY, raw).metadata
            key, version = (meta.namespace, meta.name), number(meta.resource_version)
        except (msgspec.MsgspecError, ValueError):
            return None
        skipped, cached = self.unreadable.get(key), self.cache.get(key)
        if skipped is not None and skipped.version <= version:
            self._take_back(skipped)
        if self.cache.remove(key, version) and cached is not None:
            self._changed(None, cached)
        return key, version

    def replace(self, listed: dict[Key, int], version: int, namespace: str | None) -> list[Key]:
        """Remove the objects that are missing from a full list; return their keys."""
        ghosts = self.cache.replace(listed, version, namespace)
        for skipped in self.unreadable.replace(listed, version, namespace):
            self.cache.remove(skipped.key, version)
            self._skipped(skipped)
        for ghost in ghosts:
            self._changed(None, ghost)
        return [ghost.key for ghost in ghosts]

    def reset(self, namespace: str | None) -> None:
        """Forget a namespace, or all if it is None."""
        self._gone.clear()
        self.unreadable.clear(namespace)
        for record in self.cache.clear(namespace):
            self._changed(None, record)

    # --- what cannot be read ------------------------------------------------------------------

    def warn(self, namespace: str) -> None:
        """Log the unreadable objects of a namespace, if it is selected."""
        for skipped in self.unreadable.within(namespace):
            self._warn(skipped)

    def skip(
        self, error: UnreadableError, at: int = 0, asked: float = 0.0
    ) -> tuple[Key, int, bool] | None:
        """Leave an object out; return its key, its version and False if they are known."""
        identity = error.identity
        if identity is None:
            logger.warning("An object of %s cannot be read and is left out: %s", self.kind, error)
            return None
        key, version = (identity.namespace, identity.name), number(identity.resource_version, 0)
        late = self.cache.newest(key) > max(version, at)
        if late or self._gone.has(identity.uid, asked):
            return key, version, False
        labels = identity.labels if isinstance(identity.labels, dict) else {}
        labels = {name: value for name, value in labels.items() if isinstance(value, str)}
        skipped = Unreadable(
            key,
            identity.uid,
            version,
            identity.generation,
            str(error),
            labels=labels,
            held=held(error.status),
        )
        former = self.unreadable.get(key)
        known = former if skipped.is_as(former) else None
        if known is not None:
            skipped = replace(skipped, reported=known.reported)
        if not self.unreadable.put(skipped, at) and self.unreadable.get(key) is not skipped:
            return key, version, False
        if (cached := self.cache.get(key)) is not None:
            self.cache.drop(cached)
            self._changed(None, cached)  # its owner has to know
        if known is None:
            self._warn(skipped)
        if known is None or replace(known, version=version) != skipped:
            for each in filter(None, (former, skipped)):
                self._skipped(each)
        return key, version, False

    def _take_back(self, skipped: Unreadable) -> None:
        """Forget and tell that an object was unreadable: it can be read again, or is gone."""
        self.unreadable.drop(skipped)
        self._skipped(skipped)

    def _warn(self, skipped: Unreadable) -> None:
        if self._needed(skipped):
            details = self.kind.kind, *skipped.key, skipped.reason
            logger.warning("%s %s/%s cannot be read and is left out: %s", *details)
