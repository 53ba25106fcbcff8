"""What the API server is known to hold: one slim record an object, the newest that was seen.

Three sources feed a cache: the watch (``handlers``), the answers to our own writes
(``reconcile``), and the sweep's full lists (``controller``). They overtake one another, so each
record carries its resource version, and an older one never replaces a newer. Knows nothing of
what it holds.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Any, Generic, Protocol, TypeVar

Key = tuple[str, str]  # (namespace, name)


class Record(Protocol):
    """What every record has."""

    @property
    def key(self) -> Key:
        """The namespace and the name."""

    @property
    def uid(self) -> str:
        """The object's uid: another object of the same name has another."""

    @property
    def version(self) -> int:
        """The resource version; they are ordered within one resource (KEP-5504)."""


R = TypeVar("R", bound=Record)


class Cache(Generic[R]):
    """Records by key, made from raw objects by ``parse``."""

    def __init__(self, parse: Callable[[dict[str, Any]], R]) -> None:
        self._parse = parse
        self._records: dict[Key, R] = {}
        # The versions at which objects went: a late answer must not bring a dead one back.
        self._deleted: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[R]:
        return iter(self._records.values())

    def get(self, key: Key) -> R | None:
        """Give the newest record of the key, None where there is no object."""
        return self._records.get(key)

    def observe(self, raw: dict[str, Any]) -> Key | None:
        """Take in an object as it was seen; gives its key, None if what is known is as new."""
        record = self._parse(raw)
        known = self._records.get(record.key)
        if known is not None and record.version <= known.version:
            return None
        if record.version <= self._deleted.get(record.key, -1):
            return None
        self._records[record.key] = record
        return record.key

    def forget(self, raw: dict[str, Any]) -> Key | None:
        """Take in that the object is gone; gives its key, None if a newer one is known."""
        record = self._parse(raw)
        known = self._records.get(record.key)
        if known is not None and known.uid != record.uid and known.version > record.version:
            return None
        self._records.pop(record.key, None)
        self._deleted[record.key] = max(record.version, known.version if known else 0)
        return record.key

    def drop(self, record: R) -> None:
        """Take in that the API server does not know this object any more."""
        if self._records.get(record.key) is record:
            del self._records[record.key]

    def newest(self) -> int:
        """Tell the newest version that was seen, 0 if none was."""
        seen = [record.version for record in self._records.values()]
        return max([*seen, *self._deleted.values()], default=0)

    def contradicts(self, seen: dict[Key, int], version: int) -> bool:
        """Tell whether a full list at this version has an object older than is known.

        ``seen`` are the versions of its objects. A list is never older than an answer before it,
        so the server's history was rewritten.
        """
        return any(
            key in seen and seen[key] < record.version <= version
            for key, record in self._records.items()
        )

    def clear(self, namespace: str | None) -> None:
        """Drop all records of a namespace, None for all, as if they had never been seen."""
        for records in (self._records, self._deleted):
            for key in [key for key in records if namespace in (None, key[0])]:
                del records[key]

    def prune(self, seen: Collection[Key], version: int, namespace: str | None) -> list[Key]:
        """Drop the ghosts: records that a full list at this version lacks.

        ``namespace`` is the one that was listed, None for all. Returns the keys of the ghosts.
        """
        ghosts = [
            key
            for key, record in self._records.items()
            if namespace in (None, key[0]) and key not in seen and record.version <= version
        ]
        for key in ghosts:
            del self._records[key]
        for key, gone in list(self._deleted.items()):
            if gone <= version and namespace in (None, key[0]):
                del self._deleted[key]
        return ghosts
