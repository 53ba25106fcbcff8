"""The context: what each function of an author's gets beside the object that it is called for.

One class serves all of them, so that an author learns it once. What a function may not depend on is
not there: to use it is an error that says so.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Generic, TypeVar

import aiohttp
import msgspec
from msgspec import Struct

from kopf_runtime.declaring.given import Child
from kopf_runtime.declaring.kinds import Kind

_UNKNOWN = object()
#: Which functions are given what not all of them are.
_GIVEN = {
    **dict.fromkeys(
        ("now", "children", "grandchildren", "stored", "serves"),
        "sync, check, finalize, status and a stepwise desired",
    ),
    **dict.fromkeys(("session", "leads", "record"), "sync, check and finalize"),
}

S = TypeVar("S", covariant=True)
T = TypeVar("T")


def unknown() -> Any:
    """Return the value of what is not given; the class has none, so it is not there."""
    return _UNKNOWN


@dataclass(frozen=True, repr=False)
class Context(Generic[S]):
    """What an author's function gets beside the object; `S` is the class of the settings."""

    #: The operator's settings.
    settings: S
    _: KW_ONLY
    #: The API server's time, in seconds of Unix time.
    now: float = field(default_factory=unknown)
    #: The result of `sync`, or None before it has returned.
    outcome: Any = None
    #: The result of `check`, or None before it has returned.
    checked: Any = None
    #: The children that exist, in the order in which `desired` has them.
    children: Sequence[Child] = field(default_factory=unknown)
    #: The objects of the kinds declared by `watches`, by kind, in the order of their names.
    grandchildren: Mapping[Kind, Sequence[Child]] = field(default_factory=unknown)
    #: A session for external APIs, without credentials of the cluster.
    session: aiohttp.ClientSession = field(default_factory=unknown)
    #: The status as stored in the API server; `last` returns it with its type.
    stored: Mapping[str, Any] = field(default_factory=unknown)
    #: Whether a kind of children is served now, such as one that is declared as optional.
    serves: Callable[[Kind], bool] = field(default_factory=unknown)
    #: Whether this replica leads.
    leads: Callable[[], bool] = field(default_factory=unknown)
    #: Stores these fields of the status at once; with them, the next process knows what was begun.
    record: Callable[[Struct | dict[str, Any]], Awaitable[None]] = field(default_factory=unknown)

    def __post_init__(self) -> None:
        """Leave out what is not given."""
        for name in _GIVEN:
            if getattr(self, name) is _UNKNOWN:
                object.__delattr__(self, name)

    def __getattr__(self, name: str) -> Any:
        """Say why something is not there."""
        given = f": only {_GIVEN[name]} get it" if name in _GIVEN else ""
        raise AttributeError(f"there is no context.{name} here{given}")

    def last(self, type_: type[T]) -> T:
        """Return the status as stored, as an instance of the class that declares its fields.

        Raise `msgspec.ValidationError` if it is none; each field of the class needs a default.
        """
        theirs = self.stored.keys() - {"conditions", "observedGeneration"}
        return msgspec.convert({name: self.stored[name] for name in theirs}, type_)

    @property
    def child(self) -> Child | None:
        """The only child, or None if it does not exist."""
        return self.children[0] if self.children else None

    def children_of(self, kind: Kind) -> tuple[Child, ...]:
        """Return the children of one kind, in the order in which `desired` has them."""
        return tuple(child for child in self.children if child.kind == kind)
