"""What an author has declared about a kind; `process.runtime` is built from it."""

from collections.abc import Callable, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

import msgspec

from kopf_runtime.declaring import given
from kopf_runtime.declaring.admission import Webhook
from kopf_runtime.declaring.calls import Call
from kopf_runtime.declaring.conditions import Status
from kopf_runtime.declaring.errors import DeclarationError
from kopf_runtime.declaring.foreign import Foreign
from kopf_runtime.declaring.indexes import Index, Unique
from kopf_runtime.declaring.kinds import Kind
from kopf_runtime.declaring.objects import Resource
from kopf_runtime.declaring.records import Fate, Owned, Read, Update

#: Two versions of a kind.
FromTo = tuple[type[Resource], type[Resource]]


def nothing(*_: Any) -> Iterable[Any]:
    """Return no children: what a controller without `desired` plans."""
    return ()


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """All that an author declares about a kind."""

    kind: Kind
    #: The class of the objects; that of a kind of others need not be a `Resource`.
    type: type[Resource]
    #: Set for a kind that others define.
    foreign: Foreign | None = None
    #: Returns the part of an object that is kept for `status`; None: all of it.
    transform: Callable[[Any], Any] | None = None
    #: The number of reconciles that run at once; None: that of `--workers`.
    workers: int | None = None
    #: Seconds of the first and of the longest pause of an object that fails.
    backoff: tuple[float, float] | None = None
    #: The number of reconciles that begin in a second at most.
    rate: float = float("inf")
    #: The kinds of children and of descendants.
    owned: Mapping[Kind, Owned] = {}
    watched: Mapping[Kind, Owned] = {}
    #: The kinds of objects that are read, and of those that only queue others.
    read: Mapping[Kind, Read] = {}
    mapped: Mapping[Kind, Read] = {}
    indexes: tuple[Index, ...] = ()
    desired: Callable[..., Iterable[Any]] = nothing
    #: Returns what an object of others' kind is to have beside what others have put there.
    contribution: Callable[[Any, Any], Mapping[str, Any] | None] | None = None
    #: Whether `desired` is called at each reconcile, with all that is seen.
    stepwise: bool = False
    #: Returns the status of an object; None: it is ready once its children are.
    status: Callable[[Any, Any], Status] | None = None
    sync: Call | None = None
    check: Call | None = None
    finalize: Call | None = None
    #: The meanings and the functions of the gauges, by their names.
    gauges: Mapping[str, tuple[str, Callable[[given.Owner], float | None]]] = {}
    #: Returns the arguments of the session for external APIs, given the settings.
    session: Callable[[Any], dict[str, Any]] = lambda _: {}
    #: The functions that convert an object from one version of the kind to another.
    conversions: Mapping[FromTo, Callable[[Any], Any]] = {}
    #: The functions that are asked before an object is stored.
    webhooks: tuple[Webhook, ...] = ()

    @property
    def uniques(self) -> dict[int, Unique]:
        """The indexes of unique values, by their places among all."""
        return {n: index for n, index in enumerate(self.indexes) if isinstance(index, Unique)}

    @property
    def depends_on_others(self) -> bool:
        """Whether the children depend on other objects than the owner and its children."""
        return bool(self.read or self.indexes)

    @property
    def plans_late(self) -> bool:
        """Whether children depend on more than the object, and are planned at each reconcile."""
        calls = self.sync is not None or self.check is not None
        return self.stepwise or calls or self.depends_on_others or self.contribution is not None

    @property
    def lends_session(self) -> bool:
        """Whether an author's function gets a session for external APIs."""
        return any((self.sync, self.check, self.finalize, self.webhooks))

    def check_complete(self) -> None:
        """Raise `DeclarationError` if something is missing, or cannot be meant."""
        if self.owned and self.desired is nothing:
            owned = ", ".join(kind.kind for kind in self.owned)
            raise DeclarationError(
                f"no function says which objects of {owned} a {self.kind.kind} should have; "
                "register one with @controller.desired"
            )
        for call in filter(None, (self.sync, self.check)):
            for kind in call.on:
                if not any(kind in kinds for kinds in (self.owned, self.watched, self.mapped)):
                    raise DeclarationError(
                        f"on={kind.kind}: a {self.kind.kind} neither owns nor watches that kind"
                    )
        self.order()

    def order(self) -> dict[Kind, int]:
        """Return how many kinds come before each kind of children; raise `DeclarationError`."""
        depths: dict[Kind, int] = {}
        named = {kind: owned.after for kind, owned in self.owned.items()}
        try:
            for kind in TopologicalSorter(named).static_order():
                if kind not in named:
                    raise DeclarationError(f"after= names {kind.kind}; declare it with owns(), too")
                depths[kind] = max((depths[earlier] + 1 for earlier in named[kind]), default=0)
        except CycleError as error:
            cycle = " after ".join(kind.kind for kind in error.args[1][::-1])
            raise DeclarationError(f"after= is a circle: {cycle}; leave out one of them") from None
        return depths


def refuse_odd(
    kind: Kind, update: Update, prune: Any, deletion_policy: Any, on_immutable: Any, *, ends: bool
) -> None:
    """Raise `TypeError` or `ValueError` for what cannot be meant of a kind of children."""
    if not isinstance(update, Update):
        raise TypeError(f"update={update!r}: use kr.RECREATE or kr.CREATE, or leave it out")
    if update is Update.CREATE and ends:
        raise ValueError(f"{kind.kind} is created once: leave out finished=, which replaces it")
    if prune not in (None, True, False):
        raise TypeError(f"prune={prune!r}: use True or False")
    if not callable(deletion_policy) and deletion_policy not in (Fate.DELETE, Fate.RETAIN):
        raise TypeError(f"deletion_policy={deletion_policy!r}: use kr.DELETE or kr.RETAIN")
    if on_immutable not in (None, Fate.ORPHAN, Update.RECREATE):
        raise TypeError(f"on_immutable={on_immutable!r}: use kr.RECREATE or kr.ORPHAN")
    if on_immutable is not None and update is not Update.APPLY:
        raise ValueError(f"{kind.kind} is not changed in place: leave out on_immutable=")
    if deletion_policy is not Fate.DELETE and update is Update.RECREATE:
        raise ValueError(f"{kind.kind} is deleted at each change: it cannot be retained")
