"""Objects by what they share: a value of the author's, or another object that they name."""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any, TypeVar

from kopf_runtime.declaring.kinds import Key

T = TypeVar("T")


def several(values: Iterable[T]) -> Iterable[T]:
    """Return what an author's function returns; refuse a text, whose characters it would be."""
    if isinstance(values, str):
        raise TypeError(f"it returned the text {values!r:.80}, not a list")
    return values


class Index:
    """The objects that have a value; a change costs as much as it has values."""

    def __init__(self, values: Callable[[Any], Iterable[Hashable]]) -> None:
        #: Returns the values of an object.
        self.values = values
        #: Whether a namespace is selected.
        self.selected: Callable[[str], bool] = lambda _: True
        self._holders: dict[Hashable, list[tuple[float, Key]]] = {}

    def by_index(self, value: Hashable) -> tuple[Key, ...]:
        """Return the keys of the objects that have a value, the oldest first."""
        return tuple(key for _, key in self._holders.get(value, ()) if self.selected(key[0]))

    def everyone(self, value: Hashable) -> list[Key]:
        """Return the same with those in namespaces that are not selected."""
        return [key for _, key in self._holders.get(value, ())]

    def add(self, key: Key, created: float, values: Collection[Hashable]) -> None:
        """Add an object that was created at this time."""
        for value in values:
            insort(self._holders.setdefault(value, []), (created, key))

    def remove(self, key: Key, created: float, values: Collection[Hashable]) -> None:
        """Remove an object that was added with the same arguments."""
        for value in values:
            holders = self._holders[value]
            del holders[bisect_left(holders, (created, key))]
            if not holders:
                del self._holders[value]


class Unique(Index):
    """An index in which each value is held by one object, which keeps it."""

    def __init__(self, name: str, values: Callable[[Any], Iterable[str]], *, drops: bool) -> None:
        super().__init__(lambda thing: _texts(values(thing)))
        #: What the values are, in one word, such as `host`.
        self.name = name
        #: Whether an object loses its children while another one holds what it wants.
        self.drops = drops


def _texts(values: Iterable[str]) -> list[str]:
    """Return what an author's function returns; refuse what the status cannot hold as it is."""
    texts = list(several(values))
    if odd := [value for value in texts if not isinstance(value, str)]:
        raise TypeError(f"it returned {odd[0]!r:.80}; a unique value is a text")
    return texts
