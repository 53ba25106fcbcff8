"""The contexts: what an author's functions get beside the object that they are called for.

There is one class for each kind of function, so a type checker sees what it may not depend on.
"""

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeVar

import msgspec
from msgspec import Struct

from kopf_runtime.declaring.errors import UNSEEN, PlanError, Wait
from kopf_runtime.declaring.given import Child, Client
from kopf_runtime.declaring.indexes import Index
from kopf_runtime.declaring.kinds import Key, Kind

if TYPE_CHECKING:  # it is imported when a session is used
    import aiohttp

S = TypeVar("S", covariant=True)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class User:
    """Who asks the API server for a write: the `name` and the `groups`."""

    name: str = ""
    groups: Sequence[str] = ()


class RecordEvent(Protocol):
    """Tells something as an Event."""

    def __call__(self, reason: str, message: str, *, warning: bool = False) -> None:
        """Tell it; raise `ValueError` if the reason is not one CamelCase word."""


def _yes(*_: Any) -> bool:
    return True


async def _no_record(fields: Any) -> NoReturn:
    raise TypeError(f"{fields!r} is recorded nowhere: give the context of a test a record=")


def _no_event(*_: Any, **__: Any) -> None:
    """Tell nobody, as in a test."""


@dataclass(frozen=True, repr=False)
class _Base(Generic[S]):
    #: The operator's settings.
    settings: S
    _: KW_ONLY
    #: The namespace of the object; empty if it is cluster-scoped.
    namespace: str = ""
    #: For a test: the keys of the objects that have a value, by index and value.
    held: Mapping[Index, Mapping[Any, Sequence[Key]]] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((type(self), self.namespace))

    def by_index(self, index: Index, value: Hashable) -> tuple[Key, ...]:
        """Return the keys of the objects that have a value, the oldest first."""
        held = self.held.get(index)
        return index.by_index(value) if held is None else tuple(held.get(value, ()))


@dataclass(frozen=True, repr=False, kw_only=True)
class ReviewContext(_Base[S]):
    """What a function of `validate` or `default` gets; `S` is the class of the settings."""

    #: The API server's time, in seconds of Unix time.
    now: float = 0.0
    #: A session for external APIs, without credentials of the cluster.
    session: "aiohttp.ClientSession" = field(default=None)  # type: ignore[assignment]
    #: What is done to the object: `create`, `update` or `delete`.
    operation: str = "create"
    #: The object before an update, else None.
    old: Any = None
    #: Who does it.
    user: User = field(default_factory=User)

    __hash__ = _Base.__hash__


@dataclass(frozen=True, repr=False, kw_only=True)
class Context(_Base[S]):
    """What each other function gets, and all that a plain `desired` gets."""

    #: The result of `sync`, or None before it has returned.
    sync_result: Any = None
    #: The result of `check`, or None before it has returned.
    check_result: Any = None
    #: The objects that it names or selects, by kind and key: what `transform` returned; None stands
    #: for one that it names, and that is missing.
    reads: Mapping[Kind, Mapping[Key, Any]] = field(default_factory=dict)

    __hash__ = _Base.__hash__

    def find(self, kind: Kind, name: str, namespace: str | None = None) -> Any:
        """Return what `transform` returned of an object that this one names; None if it is missing.

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
        return self.reads[kind]


@dataclass(frozen=True, repr=False, kw_only=True)
class StepContext(Context[S]):
    """What a stepwise `desired` gets: also what is seen of the object's children, and the time."""

    #: The API server's time, in seconds of Unix time.
    now: float = 0.0
    #: The children that exist, in the order in which `desired` has them.
    children: Sequence[Child] = ()
    #: The objects of the kinds declared by `descendants`, by kind, in the order of their names.
    descendants: Mapping[Kind, Sequence[Child]] = field(default_factory=dict)
    #: The status as stored in the API server; `last` returns it with its type.
    stored: Mapping[str, Any] = field(default_factory=dict)
    #: Whether a kind of children is served now, such as one that is declared as optional.
    serves: Callable[[Kind], bool] = _yes

    __hash__ = _Base.__hash__

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
        some = self.children
        children = some.beside(kind) if isinstance(some, Unseen) else some
        return tuple(child for child in children if child.kind == kind)


@dataclass(frozen=True, repr=False, kw_only=True)
class CallContext(StepContext[S]):
    """What `sync`, `check` and `finalize` get, which also act outside the cluster."""

    #: A session for external APIs, without credentials of the cluster.
    session: "aiohttp.ClientSession" = field(default=None)  # type: ignore[assignment]
    #: A client of the cluster, which writes only while this replica leads and the namespace is
    #: served; `manager.rbac` declares what it needs.
    client: Client = field(default=None)  # type: ignore[assignment]
    #: Whether this replica leads.
    leads: Callable[[], bool] = _yes
    #: Stores these fields of the status at once; with them, the next process knows what was begun.
    #: A field of a class that is at its default is left as it is; `{"name": None}` removes one.
    record: Callable[[Struct | dict[str, Any]], Awaitable[None]] = _no_record
    #: Tells a step as an Event of the object: `context.event("MemberAdded", "Added member m-3.")`.
    #: It does not wait, and an Event that cannot be posted is dropped. An object may have 25 at
    #: once, and one more every five minutes.
    event: RecordEvent = _no_event
    #: The kinds of children and descendants that cannot be seen now, with the reasons.
    unseen: Mapping[Kind, str] = field(default_factory=dict)

    __hash__ = _Base.__hash__

    def __post_init__(self) -> None:
        """Let nobody take what is not complete for all."""
        if self.unseen and not isinstance(self.children, Unseen):
            partial = Unseen(self.children, self.unseen)
            object.__setattr__(self, "children", partial)
            object.__setattr__(self, "descendants", partial)


class Unseen(Sequence[Child], Mapping[Kind, Sequence[Child]]):
    """Children or descendants that cannot all be seen now: to read them raises `Wait`."""

    def __init__(self, seen: Sequence[Child], reasons: Mapping[Kind, str]) -> None:
        self._seen, self._reasons = seen, reasons

    def beside(self, kind: Kind) -> Sequence[Child]:
        """Return the others if a kind can be seen; raise `Wait` if it cannot."""
        if why := self._reasons.get(kind):
            raise Wait("KindNotServed", f"{kind.plural} cannot be seen: {why}", after=UNSEEN)
        return self._seen

    def _wait(self, *_: object) -> Any:
        self.beside(next(iter(self._reasons)))

    __getitem__ = __iter__ = __len__ = __contains__ = __eq__ = _wait
    __hash__ = None  # type: ignore[assignment]


class Unread(Mapping[Kind, Any]):
    """What an object names or selects, and cannot be read now: to look raises `Wait`."""

    def __init__(self, views: Mapping[Kind, Any], wait: Wait) -> None:
        self._kinds, self._wait = frozenset(views), wait

    def __contains__(self, kind: object) -> bool:
        """Return whether a kind is declared."""
        return kind in self._kinds

    def _look(self, *_: object) -> Any:
        raise self._wait

    __getitem__ = __iter__ = __len__ = __eq__ = __or__ = __ror__ = _look
    copy = items = values = keys = _look
    __hash__ = None  # type: ignore[assignment]


class _Unknown:
    """A field that may hold the error of a plan that depends on it, and then raises that."""

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, context: Any, _: type) -> Any:
        value = vars(context)[self._name] if context is not None else None
        if isinstance(value, PlanError):
            raise value
        return value

    def __set__(self, context: Any, value: Any) -> None:
        vars(context)[self._name] = value


class Dry(StepContext[Any]):
    """The context of a dry run, which calls neither `sync` nor `check`."""

    sync_result, check_result = _Unknown(), _Unknown()


def _word(kind: Kind, key: Key) -> str:
    return f"{kind.kind} {key[0]}/{key[1]}" if kind.namespaced else f"{kind.kind} {key[1]}"
