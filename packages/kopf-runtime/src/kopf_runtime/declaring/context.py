"""The context: what each function of an author's gets beside the object that it is called for.

One class serves all of them, so that an author learns it once. What a function may not depend on is
not there: to use it is an error that says so.
"""

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import aiohttp
import msgspec
from msgspec import Struct

from kopf_runtime.declaring.errors import UNSEEN, PlanError, Wait
from kopf_runtime.declaring.given import Child
from kopf_runtime.declaring.indexes import Index
from kopf_runtime.declaring.kinds import Key, Kind

_UNKNOWN = object()
#: Which functions are given what not all of them are.
_GIVEN = {
    **dict.fromkeys(
        ("now", "children", "grandchildren", "stored", "serves"),
        "sync, check, finalize, status and a stepwise desired",
    ),
    **dict.fromkeys(("leads", "record", "event"), "sync, check and finalize"),
    "session": "sync, check, finalize, validate and default",
    **dict.fromkeys(("operation", "old", "user"), "validate and default"),
}

S = TypeVar("S", covariant=True)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class User:
    """Who asks the API server for a write."""

    name: str = ""
    groups: Sequence[str] = ()


class Tell(Protocol):
    """Tells something as an Event."""

    def __call__(self, reason: str, message: str, *, warning: bool = False) -> None:
        """Tell it; raise `ValueError` if the reason is not one CamelCase word."""


def unknown() -> Any:
    """Return the default of a field that may not be given; `Context` then lacks the attribute."""
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
    #: A field of a class that is at its default is left as it is; `{"name": None}` removes one.
    record: Callable[[Struct | dict[str, Any]], Awaitable[None]] = field(default_factory=unknown)
    #: Tells a step as an Event of the object: `context.event("MemberAdded", "Added member m-3.")`.
    #: It does not wait, and an Event that cannot be posted is dropped. An object may have 25 at
    #: once, and one more every five minutes.
    event: Tell = field(default_factory=unknown)
    #: What is done to the object: `create`, `update` or `delete`.
    operation: str = field(default_factory=unknown)
    #: The object before an update, else None.
    old: Any = field(default_factory=unknown)
    #: Who does it.
    user: User = field(default_factory=unknown)
    #: The namespace of the object; empty if it is cluster-scoped.
    namespace: str = ""
    #: The kinds of children and grandchildren that cannot be seen now, with the reasons.
    unseen: Mapping[Kind, str] = field(default_factory=dict)
    #: Why `finalize` cannot have what the object names or selects, or None.
    unread: Wait | None = None
    #: The objects that it names or selects, by kind and key: what `project` returned; None stands
    #: for one that it names, and that is missing.
    reads: Mapping[Kind, Mapping[Key, Any]] = field(default_factory=dict)
    #: For a test: the keys of the objects that have a value, by index and value.
    held: Mapping[Index, Mapping[Any, Sequence[Key]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Leave out what is not given."""
        for name in _GIVEN:
            if getattr(self, name) is _UNKNOWN:
                object.__delattr__(self, name)
        if self.unseen:  # what is not complete may not be taken for all
            vars(self)["_seen"] = vars(self).pop("children", ())
            vars(self).pop("grandchildren", None)

    def __getattr__(self, name: str) -> Any:
        """Say why something is not there."""
        if name in ("children", "grandchildren") and vars(self).get("unseen"):
            self._see(*self.unseen)
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
        """Return the children of one kind, in the order in which `desired` has them.

        In `sync`, `check` and `finalize`, raise `Wait` if the kind cannot be seen now.
        """
        self._see(kind)
        children = vars(self)["_seen"] if self.unseen else self.children
        return tuple(child for child in children if child.kind == kind)

    def _see(self, *kinds: Kind) -> None:
        for kind in kinds:
            if why := self.unseen.get(kind):
                raise Wait("KindNotServed", f"{kind.plural} cannot be seen: {why}", after=UNSEEN)

    def find(self, kind: Kind, name: str, namespace: str | None = None) -> Any:
        """Return what `project` returned of an object that this one names; None if it is missing.

        `namespace` is by default that of this object. Raise `LookupError` if `keys` did not name
        it, or `labels` did not select it.
        """
        key = (self.namespace if namespace is None else namespace, name)
        key = key if kind.namespaced else ("", name)
        if key not in self.reads_of(kind):
            raise LookupError(f"controller.reads did not name or select {_word(kind, key)}")
        return self.reads[kind][key]

    def read(self, kind: Kind, name: str, namespace: str | None = None) -> Any:
        """Return the same as `find`, but raise `Wait` if the object is missing."""
        if (view := self.find(kind, name, namespace)) is None:
            key = (self.namespace if namespace is None else namespace, name)
            raise Wait("ReferenceMissing", f"{_word(kind, key)} does not exist.")
        return view

    def reads_of(self, kind: Kind) -> Mapping[Key, Any]:
        """Return the objects of a kind that this one names or selects, by their keys.

        One that it names, and that is missing, is None. In `finalize`, raise `Wait` if they cannot
        be read.
        """
        if kind not in self.reads:
            raise LookupError(f"{kind.kind} is not read; declare it by controller.reads")
        if self.unread is not None:
            raise self.unread
        return self.reads[kind]

    def holders(self, index: Index, value: Hashable) -> tuple[Key, ...]:
        """Return the keys of the objects that have a value, the oldest first."""
        held = self.held.get(index)
        return index.holders(value) if held is None else tuple(held.get(value, ()))


class Dry(Context[Any]):
    """The context of a dry run: it raises the error that stands for what is not known."""

    def __getattribute__(self, name: str) -> Any:
        """Return an attribute, or raise it."""
        value = super().__getattribute__(name)
        if isinstance(value, PlanError):
            raise value
        return value


def _word(kind: Kind, key: Key) -> str:
    return f"{kind.kind} {key[0]}/{key[1]}" if kind.namespaced else f"{kind.kind} {key[1]}"
