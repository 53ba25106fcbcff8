"""The cached records of objects and their children, and how an author declares both.

A record is small: it holds the hash of a manifest instead of the manifest, and only those parts of
the object that the author asks for (`transform`). `source` creates records, and `decide`
reads them.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from enum import Enum, auto
from typing import Any, Protocol

from msgspec import Raw, Struct

from kopf_runtime.declaring.errors import Wait
from kopf_runtime.declaring.kinds import Key, Kind, may_hold_data
from kopf_runtime.declaring.objects import Object, Resource

#: The field of a status in which the runtime records which unique values an object has.
HOLDS = "holds"
#: The label with the operator's name; watches select children by it.
MANAGED_BY = "app.kubernetes.io/managed-by"


class Update(Enum):
    """How a child is changed once it exists."""

    #: Delete it and create another one, for an immutable kind such as a Pod.
    RECREATE = "recreate"
    #: Change it in place by server-side apply; fields that the manifest does not set stay.
    APPLY = "apply"
    #: Create it once, and leave it as it is then, such as a password or a CA.
    CREATE = "create"


class Fate(Enum):
    """What becomes of a child in a situation that `Controller.owns` names."""

    #: Delete it.
    DELETE = "delete"
    #: Leave it as it is.
    RETAIN = "retain"
    #: Delete it and create another one; what belongs to it stays, and the next one adopts it.
    ORPHAN = "orphan"


class Judge(Protocol):
    """Decodes children, and tells of each whether it is ready."""

    def decode(self, payload: bytes | Raw, /) -> Any:
        """Return a child; raise `MsgspecError`."""

    def unready(self, child: Any) -> str:
        """Return why a decoded child is not ready; empty if it is."""


class Owned(Struct, frozen=True):
    """A kind of children."""

    kind: Kind
    type: type[Object]
    update: Update
    #: Returns the part of a child that `status` sees; it must be small.
    transform: Callable[[Any], Any]
    #: Returns from the kept part why a child has ended; empty while it may still run.
    finished: Callable[[Any], str]
    #: Returns from the kept part why a child is not ready; empty if it is. See `judge`.
    unready: Callable[[Any], str] = lambda _: ""
    #: A child is created or changed only once all children of these kinds are ready.
    after: tuple[Kind, ...] = ()
    #: Whether its children are left out while the API server does not know the kind.
    optional: bool = False
    #: Whether a child that is no longer wanted is deleted; None if the author has not said that.
    prune: bool | None = True
    #: What becomes of one whose owner is deleted, or a function of the owner that returns that.
    deletion_policy: Fate | Callable[[Any], Fate] = Fate.DELETE
    #: What becomes of a child that cannot be changed in place as it is wanted.
    on_immutable: Fate | Update | None = None
    #: What decodes a child, if not just its type, and returns from the whole why it is not ready.
    judge: Judge | None = None
    #: The author's class of what is seen, also one that is a model of another library.
    model: Any = None

    @property
    def keeps_surplus(self) -> bool:
        """Whether a child that is no longer wanted stays."""
        undeclared = self.prune is None and may_hold_data(self.kind)
        return undeclared or self.prune is False

    @property
    def may_outlive(self) -> bool:
        """Whether the children of some owners stay when these are deleted."""
        return self.deletion_policy is not Fate.DELETE

    def outlives(self, thing: Any) -> bool:
        """Return whether the children of an object stay when it is deleted; raise `TypeError`."""
        fate = (
            self.deletion_policy(thing) if callable(self.deletion_policy) else self.deletion_policy
        )
        if fate not in (Fate.DELETE, Fate.RETAIN):
            raise TypeError(
                f"deletion_policy of {self.kind.kind} returned {fate!r:.80}; use kr.DELETE or "
                "kr.RETAIN"
            )
        return fate is Fate.RETAIN


class Read(Struct, frozen=True):
    """A kind of objects that an owner names, or selects by their labels."""

    kind: Kind
    type: type[Object]
    #: Returns the part of one that the author's functions see.
    transform: Callable[[Any], Any]
    #: Returns the names, or the namespaces and names, of those that an owner names.
    keys: Callable[[Any], Iterable[Any]]
    #: Returns the labels of those that an owner selects.
    labels: Callable[[Any], Mapping[str, str]] | None = None
    #: Seconds after which each is asked for again; None if they are watched.
    every: float | None = None


class Labels(Struct, frozen=True):
    """The objects of a namespace, or of all if it is empty, that have all of these labels."""

    namespace: str
    pairs: tuple[tuple[str, str], ...]

    def match(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return whether an object of a namespace that has these labels is selected."""
        return self.namespace in ("", namespace) and labels.items() >= set(self.pairs)

    def __str__(self) -> str:
        """Return them as a label selector."""
        return ",".join(f"{label}={value}" for label, value in self.pairs)


#: Another object that one names, or those that it selects.
Name = tuple[Kind, Key | Labels]


class Wanted(Struct, frozen=True):
    """A child in its wanted state."""

    kind: Kind
    key: Key
    #: The hash of its manifest.
    template: str
    #: A digest of the fields that its manifest sets (`fields.shape`).
    shape: str
    #: Whether it stays when its owner is deleted, so it has no owner reference.
    outlives: bool = False

    def __str__(self) -> str:
        """Return its kind and name, such as `Pod msg-hello`."""
        return f"{self.kind.kind} {self.key[1]}"


class Result(Struct, frozen=True):
    """The result of an author's `sync` or `check`."""

    value: Any
    #: When it returned, and when it is called again, by the event loop's clock.
    at: float
    due: float


class _Named:
    """What has a namespace and a name."""

    __slots__ = ()
    key: Key

    @property
    def name(self) -> str:
        """Its name."""
        return self.key[1]

    @property
    def namespace(self) -> str:
        """Its namespace; empty if it is cluster-scoped."""
        return self.key[0]


class Owner(Struct, _Named, frozen=True):
    """An object of the kind that a controller serves."""

    key: Key
    uid: str
    version: int
    generation: int
    deleting: bool
    finalizers: tuple[str, ...]
    #: The status as stored in the API server.
    status: dict[str, Any]
    #: The object without its status, or the part of it that the author keeps.
    view: Any
    wanted: tuple[Wanted, ...]
    #: Why its children cannot be planned; empty if they can.
    problem: str | Wait
    #: A hash of its labels and annotations, whose changes do not raise the generation, and of its
    #: fields: after etcd was restored from a backup, one generation may be of another edit.
    content: int
    #: The result of the author's `sync`; None while it is unknown.
    sync_result: Result | None = None
    #: The result of the author's `check`; None while it is unknown.
    check_result: Result | None = None
    #: The object itself without its status, if its children are planned at each reconcile.
    thing: Resource | None = None
    created: float = 0.0
    #: What it names, and its values in each index.
    names: tuple[Name, ...] = ()
    values: tuple[tuple[Hashable, ...], ...] = ()
    controller_uid: str = ""
    #: Whether its annotation says that nothing but its status is to be written.
    paused: bool = False
    #: The fields of the status that `context.record` has stored.
    recorded: tuple[str, ...] = ()
    #: Whether a watch reports its changes: one that is not selected is only looked at.
    watched: bool = True
    #: A digest of the fields that are the operator's contribution to it.
    contributed: str = ""
    #: What its annotation or condition tells of its state, if it is of others.
    annotated: str = ""
    #: Whether the operator itself has written that last.
    stated: bool = False

    def holds(self, name: str) -> tuple[str, ...]:
        """Return the unique values of a name that it has according to its status."""
        return held(self.status).get(name, ())

    @property
    def state(self) -> tuple[str, int, int]:
        """A value that changes exactly when its children may have to change."""
        return self.uid, self.generation, self.content


def held(status: Any) -> dict[str, tuple[str, ...]]:
    """Return the unique values that are recorded in a status, by their names."""
    recorded = status.get(HOLDS) if isinstance(status, dict) else None
    lists = recorded.items() if isinstance(recorded, dict) else ()
    return {
        name: tuple(value for value in values if isinstance(value, str))
        for name, values in lists
        if isinstance(values, list)
    }


class Child(Struct, _Named, frozen=True):
    """An object that an owner owns or could own."""

    kind: Kind
    key: Key
    uid: str
    version: int
    #: The uid of its controlling owner; empty if there is none.
    controller_uid: str
    #: The uid of the owner that it was created for, according to its label.
    created_for: str
    #: The name of the owner that controls it, or else the one in its annotation; may be empty.
    parent: str
    deleting: bool
    #: When its grace period ends, by the API server's clock in Unix time; 0 if it is not deleted.
    deadline: float
    #: When it was created, by the same clock.
    created: float
    finalizers: tuple[str, ...]
    #: The hash of the manifest that it was created from.
    template: str
    #: The generation of the owner that it was created for.
    generation: int
    #: How many times in a row it was replaced soon after its creation.
    replaced: int
    #: The labels set on every child that this one lacks, or has with other values.
    unlabelled: tuple[str, ...]
    #: Who else changed it, for an Event.
    editors: str
    #: The part of it that the author keeps.
    view: Any
    #: Why it is not ready; empty if it is.
    unready: str = ""
    #: Whether its owner reference names another version of the owner's API. Once that version is no
    #: longer served, the garbage collector cannot find the owner, and never deletes the child.
    outdated: bool = False
    #: A digest of who owns which of its fields (`fields.Ownership`).
    fields: str = ""
    #: Whether only its marks say whose it is: it may outlive its owner, and has no reference to it.
    retained: bool = False
    #: Whether all marks name one owner, and the operator itself has set them: a copy that somebody
    #: made has them, too, and anybody may write others.
    proven: bool = False
    #: The installation of the operator that has written it last; empty if it does not say so.
    installation: str = ""

    @property
    def watched(self) -> bool:
        """Whether a watch reports its changes."""
        return bool(self.created_for) and MANAGED_BY not in self.unlabelled


class Unreadable(Struct, frozen=True):
    """An object of which only the metadata can be read."""

    key: Key
    uid: str
    version: int
    generation: int
    #: Why it cannot be read.
    reason: str
    #: Whether its status reports it.
    reported: bool = False
    controller_uid: str = ""
    labels: dict[str, str] = {}
    #: The unique values that are recorded in its status, by their names: it keeps them.
    held: dict[str, tuple[str, ...]] = {}

    def holds(self, name: str) -> tuple[str, ...]:
        """Return the unique values of a name that it has according to its status."""
        return self.held.get(name, ())

    def is_as(self, other: "Unreadable | None") -> bool:
        """Return whether the other record reports the same problem."""
        return other is not None and (self.uid, self.generation, self.reason) == (
            other.uid,
            other.generation,
            other.reason,
        )


class Selected(Struct, frozen=True):
    """A namespace that matches the namespace selector."""

    key: Key
    uid: str
    version: int
    controller_uid: str = ""
    watched: bool = True


class Seen(Struct, frozen=True):
    """An object that is only read."""

    key: Key
    uid: str
    version: int
    view: Any
    #: The labels of others by which it is selected.
    selected: frozenset[Labels] = frozenset()
    controller_uid: str = ""
    watched: bool = True


class Step(Enum):
    """The next step for a child."""

    KEEP = auto()
    CREATE = auto()
    APPLY = auto()  # change it in place
    DELETE = auto()  # it is wrong: another one follows once it is gone
    WAIT = auto()  # it is being deleted
    CONFLICT = auto()  # it belongs to somebody else
    ADMISSION = auto()  # admission changed it at its creation: another one would be no better


class Plan(Struct, frozen=True):
    """A step and why it is taken; `reason` is that of the Event about the next child, if any."""

    step: Step
    reason: str = ""
    why: str = ""
    #: Whether the user caused it by editing the object.
    edited: bool = False
    #: Whether to read the object itself first, because the cached one may be older than the child.
    #: Nothing is deleted without that, but for what an edit replaces and no data can be in.
    verify: bool = False


def gone(kind: Kind) -> Plan:
    """Return the plan for a child that the operator did not delete, but that is gone."""
    return Plan(Step.CREATE, "Healed", f"its {kind.kind} was gone")
