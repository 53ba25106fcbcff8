"""What is remembered of an object and of its children, and how an author declares both.

Records are slim: of a text only its hash is kept, and of the rest only what the author wants to
see again (`keep`). `source` makes them, `plan` decides by them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from kopf_runtime.kinds import Key, Kind
from kopf_runtime.objects import Object

#: The label that names the operator; watches select children by it.
MANAGED_BY = "app.kubernetes.io/managed-by"


class Update(Enum):
    """How a child is changed once it exists."""

    #: By another one in its place: for what cannot be changed, such as a Pod.
    REPLACE = "replace"
    #: In place, by server-side apply: what the manifest does not set stays as others set it.
    APPLY = "apply"


@dataclass(frozen=True, slots=True)
class Owned:
    """A kind of children."""

    kind: Kind
    type: type[Object]
    update: Update
    #: Returns what `status` is to see of a child; must be small.
    keep: Callable[[Any], Any]
    #: Tells why a child has ended, by what was kept of it; empty while it may run.
    ended: Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A child as it should be."""

    kind: Kind
    key: Key
    #: The hash of its manifest.
    template: str
    #: What its manifest sets (`fields.shape`).
    shape: bytes

    def __str__(self) -> str:
        """Return how texts name it, such as `Pod msg-hello`."""
        return f"{self.kind.kind} {self.key[1]}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an author's `sync` returned."""

    value: Any
    #: When, by the event loop's clock.
    at: float
    #: Whether the object has other labels or annotations since.
    outdated: bool = False


@dataclass(frozen=True, slots=True)
class Primary:
    """An object of the kind that a controller serves."""

    key: Key
    uid: str
    version: int
    generation: int
    deleting: bool
    finalizers: tuple[str, ...]
    #: The status subresource, as it is in the API server.
    status: dict[str, Any]
    #: What the author keeps of it.
    view: Any
    wanted: tuple[Wanted, ...]
    #: Why no children can be planned for it, empty if they can.
    problem: str
    #: A hash of its labels and annotations, which have no generation.
    labels: int
    #: What is outside for it, by the author's `sync`; None while that is not known.
    outcome: Outcome | None = None
    owner: str = ""

    @property
    def watched(self) -> bool:
        """Whether a watch tells what becomes of it."""
        return True

    @property
    def state(self) -> tuple[str, int, int]:
        """What changes exactly if its children may have to."""
        return self.uid, self.generation, self.labels


@dataclass(frozen=True, slots=True)
class Child:
    """An object that a primary owns, or might."""

    key: Key
    uid: str
    version: int
    #: The uid of its controller; empty without one.
    owner: str
    #: The uid of the primary that it was made for, by its label.
    made_for: str
    #: The name of the primary that controls it, empty if something else does or nothing.
    parent: str
    deleting: bool
    #: When its grace ends, by the API server's clock in seconds of Unix time; 0: not deleted.
    deadline: float
    #: When it was made, by the same clock.
    created: float
    finalizers: tuple[str, ...]
    #: The hash of the manifest that it was made from.
    template: str
    #: The generation of the primary that it was made for.
    generation: int
    #: How often it was replaced in a row, soon after it was made.
    replaced: int
    #: The labels that every child is made with and this one lacks, or has with other values.
    unlabelled: tuple[str, ...]
    #: Whether a field that the operator set is not the operator's any more; None: not judged yet,
    #: for it was not known what its primary wants.
    altered: bool | None
    #: Who else changed it, for an Event.
    editors: str
    #: What the author keeps of it.
    view: Any

    @property
    def watched(self) -> bool:
        """Whether a watch tells what becomes of it."""
        return bool(self.made_for) and MANAGED_BY not in self.unlabelled


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An object of which nothing but its name can be read."""

    key: Key
    uid: str
    version: int
    generation: int
    #: Why it cannot be read.
    reason: str
    #: Whether its status says so.
    told: bool = False
    owner: str = ""

    def is_as(self, other: "Unreadable | None") -> bool:
        """Tell whether the same is to be told of it."""
        return other is not None and (self.uid, self.generation, self.reason) == (
            other.uid, other.generation, other.reason
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Selected:
    """A namespace that has the labels by which namespaces are selected."""

    key: Key
    uid: str
    version: int
    owner: str = ""
    watched: bool = True


class PlanError(Exception):
    """What an author's `desired` returned cannot be: a condition tells it, and nothing is done."""
