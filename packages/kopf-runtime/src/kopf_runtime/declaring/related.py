"""What an author declares of the objects beside those of the controller's kind: which belong to it.

`controller` adds the functions that are called for an object.
"""

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from kopf_runtime.declaring import given, readiness
from kopf_runtime.declaring.controller_declaration import Declaration, refuse_odd
from kopf_runtime.declaring.errors import MAX_RETRY_SECONDS
from kopf_runtime.declaring.foreign import Foreign
from kopf_runtime.declaring.indexes import Index, Unique
from kopf_runtime.declaring.kinds import Key, Kind
from kopf_runtime.declaring.models import of_models
from kopf_runtime.declaring.objects import Object, Resource
from kopf_runtime.declaring.records import Fate, Owned, Read, Update

F = TypeVar("F", bound=Callable[..., Any])


class Related:
    """What an author declares for the objects of one kind; `Manager.controller_for` makes it."""

    #: What is kept of the objects that are known now, for example for a metric of the author's.
    owners: Iterable[given.Owner] = ()
    #: Has an object reconciled soon, `sync` and `check` too; call it on the leader, in the loop.
    enqueue: Callable[[Key], None] = staticmethod(lambda key: None)

    def __init__(
        self,
        kind: Kind,
        type_: type[Object],
        transform: Callable[[Any], Any] | None,
        workers: int | None = None,
        foreign: Foreign | None = None,
    ) -> None:
        if workers is not None and (type(workers) is not int or not 1 <= workers <= 1000):
            raise ValueError(f"workers={workers!r}: use a whole number from 1 to 1000")
        #: All that has been declared so far.
        self.declaration = Declaration(
            kind=kind,
            type=cast("type[Resource]", type_),
            transform=transform,
            workers=workers,
            foreign=foreign,
        )
        self._taken: set[str] = set()  # what a function is registered for

    @property
    def kind(self) -> Kind:
        """The kind."""
        return self.declaration.kind

    def _refuse_foreign(self, what: str) -> None:
        if self.declaration.foreign is not None:
            raise TypeError(f"{self.kind} is a kind of others: it cannot have {what}")

    def _declare(self, **parts: Any) -> None:
        self.declaration = replace(self.declaration, **parts)

    def limits(
        self, *, backoff: tuple[float, float] | None = None, rate: float = float("inf")
    ) -> None:
        """Limit the retries of an object, and the reconciles of all: for a slow API outside.

        `backoff` has the seconds of the first pause after a failure, which doubles, and of the
        longest: by default (0.005, 60.0), and (1.0, 300.0) after a failed `sync`, `check` or
        `finalize`. `rate` is the number of reconciles that begin in a second at most. Raise
        `ValueError` if this cannot be meant.
        """
        if backoff and not 0 < backoff[0] <= backoff[1] <= MAX_RETRY_SECONDS:
            raise ValueError(f"backoff={backoff!r}: use the first seconds, and at most 600")
        if not rate > 0:  # nor NaN
            raise ValueError(f"rate={rate!r}: use a number of reconciles a second above 0")
        self._declare(backoff=backoff, rate=rate)

    def owns(
        self,
        kind: Kind,
        type_: type[Any] | None = None,
        *,
        update: Update = Update.APPLY,
        transform: Callable[[Any], Any] | None = None,
        finished: Callable[[Any], str] | None = None,
        unready: Callable[[Any], str] | None = None,
        after: Sequence[Kind] = (),
        optional: bool = False,
        prune: bool | None = None,
        deletion_policy: Fate | Callable[[Any], Fate] = Fate.DELETE,
        on_immutable: Fate | Update | None = None,
    ) -> None:
        """Declare a kind of children.

        `transform` returns the part of a child, a `type_`, that `status` sees; it should be small.
        `finished` takes that part and returns why the child has ended, or an empty text. `unready`
        returns why it is not ready; without it, its own status says that (`declaring.readiness`).

        A child is created or changed only once the children of the kinds `after` are up to date and
        ready; the reason is `Waiting` until then. With `optional`, it is left out while the API
        server does not know the kind; a kind that was there counts as unknown once the server has
        said so for 15 seconds.

        A child that is no longer wanted is deleted once all that are wanted are ready, or at once
        if `desired` is stepwise; but one that may hold data stays: a claim, volume, Secret,
        StatefulSet, Namespace, CRD or custom resource. With `prune`, it is deleted at once (True)
        or stays (False). `deletion_policy=kr.RETAIN` keeps a child when its owner is deleted; a
        function may return that for an object. Such a child has no owner reference: its annotation
        `KIND-name` names the owner, and the next owner of that name adopts it; for any other it is
        a `Conflict`. If a child cannot be changed in place, but the API server would accept the
        manifest as a new object (which a dry run asks), `on_immutable` has it deleted and made
        again: with `kr.RECREATE`, or with `kr.ORPHAN`, which keeps its own children. Raise
        `TypeError` or `ValueError` if this cannot be meant.
        """
        self._check(kind, self.declaration.owned, owned=True)
        refuse_odd(kind, update, prune, deletion_policy, on_immutable, ends=finished is not None)
        if isinstance(after, Kind) or not all(isinstance(each, Kind) for each in after):
            raise TypeError(f"after={after!r}: use a tuple of kinds that are declared by owns()")
        judge = readiness.Judge(kind, type_) if unready is None else None
        owned = Owned(
            kind,
            judge.type if judge is not None else type_ or Object,
            update,
            of_models(type_, transform) or (lambda _: None),
            finished or (lambda _: ""),
            unready or (lambda _: ""),
            tuple(after),
            bool(optional),
            prune,
            deletion_policy,
            on_immutable,
            judge,
            type_,
        )
        self._declare(owned={**self.declaration.owned, kind: owned})

    def descendants(
        self, kind: Kind, type_: type[Any] = Object, *, transform: Callable[[Any], Any]
    ) -> None:
        """Declare a kind of descendants: `status` sees what `transform` returns of them.

        They are created from the `spec.template` of a child, as the Pods of a Deployment are.
        Whoever may label Pods in a namespace can make them appear in the status of an object there.
        One that does not fit the type counts as unreadable. Raise as `owns` does.
        """
        self._check(kind, self.declaration.watched)
        kept = of_models(type_, _function("transform", transform))
        each = Owned(kind, type_, Update.RECREATE, kept, lambda _: "")
        self._declare(watched={**self.declaration.watched, kind: each})

    def watches(
        self,
        kind: Kind,
        type_: type[Any] = Object,
        *,
        to: Callable[[Any], Iterable[str | Key]],
        transform: Callable[[Any], Any] = lambda thing: thing.metadata.version,
    ) -> None:
        """Watch a kind on which objects depend: when one changes, those that `to` names are queued.

        A name without a namespace is one in that of the changed object. A change is one of what
        `transform` returns, by default any. One that does not fit the type, or for which `to`
        raises, counts as unreadable. Raise `TypeError` or `ValueError` as `owns` does.
        """
        self._check(kind, self.declaration.mapped)
        _function("to", to)
        _function("transform", transform)
        read = Read(kind, type_, of_models(type_, transform), of_models(type_, to))
        self._declare(mapped={**self.declaration.mapped, kind: read})

    def reads(
        self,
        kind: Kind,
        type_: type[Any] = Object,
        *,
        transform: Callable[[Any], Any],
        keys: Callable[[Any], Iterable[str | Key]] | None = None,
        labels: Callable[[Any], Mapping[str, str]] | None = None,
        every: float | None = None,
    ) -> None:
        """Declare a kind of objects that an object names or selects, such as a user's Secret.

        `keys` returns their names, or their namespaces and names; or `labels` returns the labels
        that all of them have. `transform` returns the part of one that the context has, never None.
        A change of it plans the children again. With `every`, no object is listed or watched: those
        that are named are asked for each `every` seconds. An object may name or select those of its
        own namespace only; a cluster-scoped one may name those of any namespace that is served. It
        may name or select at most 100. One that does not fit the type, or for which `transform`
        raises, is a `ReferenceUnreadable`. Raise `TypeError` or `ValueError` as `owns` does.
        """
        self._check(kind, self.declaration.read)
        if (keys is None) == (labels is None):
            raise ValueError(f"reads({kind.kind}) needs either keys= or labels=")
        for name, function in (("keys", keys), ("labels", labels), ("transform", transform)):
            if function is not None:
                _function(name, function)
        if labels is not None and every is not None:
            raise ValueError("every= asks for objects by their names: leave it out with labels=")
        if every is not None and not every >= 1:  # nor NaN
            raise ValueError(f"every={every!r}: use at least 1 second, or leave it out to watch")
        named = keys or (lambda _: ())
        read = Read(kind, type_, of_models(type_, transform), named, labels, every)
        self._declare(read={**self.declaration.read, kind: read})

    def index(self, values: Callable[[Any], Iterable[Hashable]]) -> Index:
        """Return an index by the values that a function returns for an object.

        `context.by_index(index, value)` returns the keys of those that have a value. When one gains
        or loses a value, the others that have it are reconciled.
        """
        if not callable(values):
            raise TypeError(f"index({values!r}): use a function that returns an object's values")
        index = Index(values)
        self._declare(indexes=(*self.declaration.indexes, index))
        return index

    def unique(
        self, name: str, values: Callable[[Any], Iterable[str]], *, on_taken: Fate = Fate.RETAIN
    ) -> None:
        """Declare that no two objects may have a value that a function returns for an object.

        The object that has a value keeps it until it needs it no longer or is gone; its
        `status.holds` says so, by `name`. For another one that wants it nothing is done, and its
        condition says `NameTaken` (with `name="host"`, `HostTaken`). If that one was edited, its
        children stay as they were, and so do the values that it had; with `on_taken=kr.DELETE`, it
        loses both. Users who may patch the status can forge that record, to claim a free value or,
        for an older paused object, a taken one. Raise `TypeError` or `ValueError` as `owns` does.
        """
        self._refuse_foreign("unique values, which its status would hold")
        if not re.fullmatch("[a-z][A-Za-z0-9]{0,62}", name):
            raise ValueError(f"{name!r} cannot name what is unique: use one word, such as host")
        if not callable(values):
            raise TypeError(f"unique({values!r}): use a function that returns the values")
        if on_taken not in (Fate.DELETE, Fate.RETAIN):
            raise TypeError(f"on_taken={on_taken!r}: use kr.DELETE or kr.RETAIN")
        if any(unique.name == name for unique in self.declaration.uniques.values()):
            raise ValueError(f"unique({name!r}) is declared twice for {self.kind.kind}; do it once")
        unique = Unique(name, values, drops=on_taken is Fate.DELETE)
        self._declare(indexes=(*self.declaration.indexes, unique))

    def _check(self, kind: Kind, declared: Collection[Kind], *, owned: bool = False) -> None:
        if not isinstance(kind, Kind):
            raise TypeError(f"{kind!r} is not a kr.Kind; kr.kinds has the built-in ones")
        if kind in declared:
            raise ValueError(f"{kind.kind} is declared twice for {self.kind.kind}; do it once")
        if owned and self.kind.namespaced and not kind.namespaced:
            raise ValueError(
                f"{kind.kind} has no namespace: a {self.kind.kind}, which has one, cannot own it"
            )

    def _take(self, purpose: str, function: F) -> F:
        """Return the function for something; refuse a second one: the first would not be called."""
        if purpose in self._taken:
            raise ValueError(f"{purpose} is registered twice for {self.kind.kind}; do it once")
        self._taken.add(purpose)
        return function


def _function(name: str, function: F) -> F:
    if not callable(function):
        raise TypeError(f"{name}={function!r}: use a function")
    return function
