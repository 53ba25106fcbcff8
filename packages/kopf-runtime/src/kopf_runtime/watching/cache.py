"""A cache of the API server's objects: the newest known record of each, reduced to what is needed.

Watches, lists, single reads and the answers to our own writes feed a cache. They overtake one
another, so each record carries its resource version, and an older one does not replace a newer one.

A list and a single read are authoritative. What a list does not have is gone. And what it has is
the state as of the list's own version, so a cached version between the two cannot be of the same
history: etcd was restored from a backup, and the cached object or deletion has never happened.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from kopf_runtime.declaring.kinds import Key

#: An owner of more objects than these has them in a dict, which takes more memory than a tuple.
FEW = 8
#: Seconds within which a late answer could bring a deleted object back into the cache.
LATE = 70.0


class Record(Protocol):
    """What every record has."""

    @property
    def key(self) -> Key:
        """The namespace and the name."""

    @property
    def uid(self) -> str:
        """The object's uid; it tells objects apart that have the same name one after the other."""

    @property
    def version(self) -> int:
        """The resource version."""

    @property
    def controller_uid(self) -> str:
        """The uid of the controlling owner, empty if no owner controls it."""


R = TypeVar("R", bound=Record)


class Gone:
    """The uids that a single read has found gone, for as long as a late answer may have them.

    A 404 has no version. So an answer with such an object is older if it was asked for before the
    404 came; otherwise etcd was restored from a backup, and the object is there again.
    """

    def __init__(self) -> None:
        self._found: dict[str, float] = {}

    def add(self, uid: str) -> None:
        """Note that an object was found gone; not all aggregated API servers give uids."""
        now = time.monotonic()
        while self._found and now - next(iter(self._found.values())) > LATE:
            del self._found[next(iter(self._found))]
        if uid:
            self._found.pop(uid, None)
            self._found[uid] = now

    def has(self, uid: str, asked: float) -> bool:
        """Return whether an answer is older, by when it was asked for; 0 if that is unknown."""
        found = self._found.get(uid)
        return found is not None and (asked or time.monotonic() - LATE) < found

    def clear(self) -> None:
        """Forget all."""
        self._found.clear()


class Answers:
    """The answers to our own writes, by their text, until the watch repeats them byte for byte.

    What is repeated so is no news, and need not be decoded; it is two events of five.
    """

    _MOST = 1024  # some answers come after their event, which then is decoded

    def __init__(self) -> None:
        self._known: dict[int, tuple[Key, int]] = {}

    def add(self, answer: bytes, key: Key, version: int) -> None:
        """Note an answer, of this version of the object."""
        if len(self._known) >= self._MOST:
            del self._known[next(iter(self._known))]
        self._known[hash(answer.rstrip())] = key, version

    def repeated(self, event: bytes) -> tuple[Key, int] | None:
        """Return the key and version of an event's object if an answer had the same text."""
        return self._known.pop(hash(event), None) if self._known else None


class Cache(Generic[R]):
    """Records by namespace and name, and by the uid of their owner."""

    def __init__(self) -> None:
        self._records: dict[str, dict[str, R]] = {}
        self._owned: dict[str, tuple[Key, ...] | dict[Key, None]] = {}
        # The versions at which objects were deleted, in this minute and in the one before.
        self._deleted: tuple[dict[Key, int], dict[Key, int]] = ({}, {})
        self._turned = time.monotonic()

    def __len__(self) -> int:
        return sum(map(len, self._records.values()))

    def __iter__(self) -> Iterator[R]:
        return self.within(None)

    def within(self, namespace: str | None) -> Iterator[R]:
        """Return the records of a namespace, or all if it is None; look at no other record."""
        everywhere = self._records if namespace is None else (namespace,)
        return (record for where in everywhere for record in self._records.get(where, {}).values())

    def get(self, key: Key) -> R | None:
        """Return the newest record of a key, or None if there is no object."""
        return self._records.get(key[0], {}).get(key[1])

    def owned(self, uid: str) -> list[R]:
        """Return the records of all objects whose controlling owner has this uid."""
        return [self._records[space][name] for space, name in self._owned.get(uid, ())]

    def newest(self, key: Key) -> int:
        """Return the newest version at which an object is known to be there or gone; 0 if none."""
        cached = self.get(key)
        gone = (deleted.get(key, 0) for deleted in self._deleted)
        return max(cached.version if cached is not None else 0, *gone)

    def put(self, record: R, at: int = 0) -> bool:
        """Store a record; return False if the known one is at least as new.

        `at` is a version that the answer with it is no older than, such as that of its list.
        """
        cached, its = self.get(record.key), (record.version, record.uid, record.controller_uid)
        if cached is not None and its == (cached.version, cached.uid, cached.controller_uid):
            # The same object, perhaps read with more knowledge.
            self._records[record.key[0]][record.key[1]] = record
            return False
        if cached is not None and max(record.version, at) < cached.version:
            return False
        self._age()
        for gone in self._deleted:
            if record.version <= gone.get(record.key, -1):
                if at < gone[record.key]:
                    return False
                del gone[record.key]
        if cached is not None:
            self._drop(record.key)
        self._records.setdefault(record.key[0], {})[record.key[1]] = record
        if record.controller_uid:
            self._own(record)
        return True

    def remove(self, key: Key, version: int) -> bool:
        """Remove a deleted object; return False if the known record is newer than the deletion.

        It may be the same object: it left the watch when it lost a label, and came back with it.
        """
        cached = self.get(key)
        if cached is not None and cached.version > version:
            return False
        self._bury(key, version)
        return True

    def _bury(self, key: Key, version: int) -> None:
        """Remove an object that is gone as of a version; what comes late does not bring it back."""
        self._drop(key)
        self._age()
        self._deleted[0][key] = max(version, self.newest(key))

    def _age(self) -> None:
        """Forget the deletions of which no answer can be late any more."""
        if (age := time.monotonic() - self._turned) > LATE:
            self._deleted = ({}, self._deleted[0] if age <= 2 * LATE else {})
            self._turned += age

    def drop(self, record: R) -> None:
        """Forget a record that the API server no longer knows."""
        if self.get(record.key) is record:
            self._drop(record.key)

    def replace(self, listed: Mapping[Key, int], version: int, namespace: str | None) -> list[R]:
        """Drop the records that are missing from a full list at this version, and return them.

        `namespace` is the listed one, or None for all.
        """
        ghosts = [
            record
            for record in self.within(namespace)
            if record.key not in listed and record.version <= version
        ]
        for ghost in ghosts:
            self._bury(ghost.key, version)
        return ghosts

    def clear(self, namespace: str | None) -> list[R]:
        """Forget a namespace, or all if it is None, and its deletions; return its records."""
        for gone in self._deleted:
            for key in [key for key in gone if namespace in (None, key[0])]:
                del gone[key]
        records = list(self.within(namespace))
        for record in records:
            self._drop(record.key)
        return records

    def _drop(self, key: Key) -> None:
        space = self._records.get(key[0], {})
        dropped = space.pop(key[1], None)
        if dropped is not None and not space:
            del self._records[key[0]]
        if dropped is not None and dropped.controller_uid:
            self._disown(dropped)

    def _own(self, record: R) -> None:
        mine = self._owned.get(record.controller_uid, ())
        if isinstance(mine, dict):
            mine[record.key] = None
        elif len(mine) < FEW:
            self._owned[record.controller_uid] = (*mine, record.key)
        else:
            self._owned[record.controller_uid] = dict.fromkeys((*mine, record.key))

    def _disown(self, record: R) -> None:
        mine = self._owned[record.controller_uid]
        if isinstance(mine, dict):
            del mine[record.key]
        else:
            mine = tuple(key for key in mine if key != record.key)
            self._owned[record.controller_uid] = mine
        if not mine:
            del self._owned[record.controller_uid]
