"""What an author declares about the objects of one kind; `process.runtime` carries it out.

`desired` and `status` are pure functions; `sync`, `check` and `finalize` manage what is outside.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast, overload

from kopf_runtime.declaring import given, readiness
from kopf_runtime.declaring.admission import webhook
from kopf_runtime.declaring.calls import Call, Every, plain
from kopf_runtime.declaring.conditions import Status
from kopf_runtime.declaring.context import CallContext, Context, ReviewContext, StepContext
from kopf_runtime.declaring.controller_declaration import Declaration, refuse_odd
from kopf_runtime.declaring.declaration import declared
from kopf_runtime.declaring.foreign import Foreign
from kopf_runtime.declaring.indexes import Index, Unique
from kopf_runtime.declaring.kinds import Key, Kind
from kopf_runtime.declaring.models import Manifest, of_models
from kopf_runtime.declaring.objects import Object, Resource
from kopf_runtime.declaring.records import Fate, Owned, Read, Update

A = TypeVar("A", bound=Resource)
B = TypeVar("B", bound=Resource)
F = TypeVar("F", bound=Callable[..., Any])
# What an author's functions may ask for: a type checker refuses the context of another kind.
Plans = TypeVar("Plans", bound=Callable[[Any, Context[Any]], Iterable[Manifest]])
Steps = TypeVar("Steps", bound=Callable[[Any, StepContext[Any]], Iterable[Manifest]])
Calls = TypeVar("Calls", bound=Callable[[Any, CallContext[Any]], Awaitable[Any]])
Reviews = TypeVar("Reviews", bound=Callable[[Any, ReviewContext[Any]], Any])
Adds = TypeVar("Adds", bound=Callable[[Any, Context[Any]], Mapping[str, Any] | None])
Reports = TypeVar("Reports", bound=Callable[[Any], Status])


class Controller:
    """What an author declares for the objects of one kind; `Manager.controller_for` makes it."""

    #: What is kept of the objects that are known now, for example for a metric of the author's.
    owners: Iterable[given.Owner] = ()
    #: Has an object reconciled soon, `sync` and `check` too; call it on the leader, in the loop.
    enqueue: Callable[[Key], None] = staticmethod(lambda key: None)

    def __init__(
        self,
        kind: Kind,
        type_: type[Object],
        project: Callable[[Any], Any],
        workers: int | None = None,
        foreign: Foreign | None = None,
    ) -> None:
        if workers is not None and (type(workers) is not int or not 1 <= workers <= 1000):
            raise ValueError(f"workers={workers!r}: use a whole number from 1 to 1000")
        #: All that has been declared so far.
        self.declaration = Declaration(
            kind=kind,
            type=cast("type[Resource]", type_),
            project=project,
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

    def owns(
        self,
        kind: Kind,
        type_: type[Any] | None = None,
        *,
        update: Update = Update.APPLY,
        project: Callable[[Any], Any] | None = None,
        ended: Callable[[Any], str] | None = None,
        unready: Callable[[Any], str] | None = None,
        after: Sequence[Kind] = (),
        optional: bool = False,
        on_surplus: Fate | None = None,
        on_delete: Fate | Callable[[Any], Fate] = Fate.DELETE,
        on_immutable: Fate | Update = Fate.REFUSE,
    ) -> None:
        """Declare a kind of children.

        `project` returns the part of a child, a `type_`, that `status` sees; it should be small.
        `ended` takes that part and returns why the child has ended, or an empty text. `unready`
        returns why it is not ready; without it, its own status says that (`declaring.readiness`).

        A child is created or changed only once the children of the kinds `after` are up to date and
        ready; the reason is `Waiting` until then. With `optional`, it is left out while the API
        server does not know the kind; a kind that was there counts as unknown once the server has
        said so for 15 seconds.

        A child that is no longer wanted is deleted once all that are wanted are ready, or at once
        if `desired` is stepwise; but one that may hold data stays: a claim, volume, Secret,
        StatefulSet, Namespace, CRD or custom resource. With `on_surplus`, it is deleted at once
        (`kr.DELETE`) or stays (`kr.RETAIN`). `kr.RETAIN` also keeps a child when its owner is
        deleted (`on_delete`, also a function that returns this for an object). A child with
        `on_delete` has no owner reference: its annotation `KIND-name` names the owner, and the next
        owner of that name adopts it; for any other it is a `Conflict`. If a child cannot be changed
        in place, but the API server would accept the manifest as a new object (which a dry run
        asks), `on_immutable` has it deleted and made again: with `kr.RECREATE`, or with
        `kr.ORPHAN`, which keeps its own children. Raise `TypeError` or `ValueError` if this cannot
        be meant.
        """
        self._check(kind, self.declaration.owned, owned=True)
        refuse_odd(kind, update, on_surplus, on_delete, on_immutable, ends=ended is not None)
        if isinstance(after, Kind) or not all(isinstance(each, Kind) for each in after):
            raise TypeError(f"after={after!r}: use a tuple of kinds that are declared by owns()")
        judge = readiness.Judge(kind, type_) if unready is None else None
        owned = Owned(
            kind,
            judge.type if judge is not None else type_ or Object,
            update,
            of_models(type_, project) or (lambda _: None),
            ended or (lambda _: ""),
            unready or (lambda _: ""),
            tuple(after),
            bool(optional),
            on_surplus,
            on_delete,
            on_immutable,
            judge,
            type_,
        )
        self._declare(owned={**self.declaration.owned, kind: owned})

    def watches(
        self,
        kind: Kind,
        type_: type[Any] = Object,
        *,
        project: Callable[[Any], Any] | None = None,
        to: Callable[[Any], Iterable[str | Key]] | None = None,
    ) -> None:
        """Declare a kind of grandchildren: `status` sees what `project` returns of them.

        They are created from the `spec.template` of a child, as the Pods of a Deployment are.
        Whoever may label Pods in a namespace can make them appear in the status of an object there.
        With `to`, any objects of the kind are watched: when one changes, the objects are reconciled
        whose names `to` returns for it (a name is one in its namespace). Then a change is one of
        what `project` returns, or any without it. An object that does not fit the type, or for
        which `to` raises, counts as unreadable. Raise `TypeError` or `ValueError` as `owns` does.
        """
        watched, mapped = self.declaration.watched, self.declaration.mapped
        self._check(kind, watched if to is None else mapped)
        if not callable(function := to or project):
            raise TypeError(
                f"watches({kind}) needs project=, for grandchildren, or to=, not {function}"
            )
        project, to = of_models(type_, project), of_models(type_, to)
        if to is not None:
            project = project or (lambda thing: thing.metadata.version)
            self._declare(mapped={**mapped, kind: Read(kind, type_, project, to)})
        elif project is not None:
            each = Owned(kind, type_, Update.RECREATE, project, lambda _: "")
            self._declare(watched={**watched, kind: each})

    def reads(
        self,
        kind: Kind,
        type_: type[Any] = Object,
        *,
        project: Callable[[Any], Any],
        keys: Callable[[Any], Iterable[str | Key]] | None = None,
        labels: Callable[[Any], Mapping[str, str]] | None = None,
        every: float | None = None,
    ) -> None:
        """Declare a kind of objects that an object names or selects, such as a user's Secret.

        `keys` returns their names, or their namespaces and names; or `labels` returns the labels
        that all of them have. `project` returns the part of one that the context has, never None.
        A change of it plans the children again. With `every`, no object is listed or watched: those
        that are named are asked for each `every` seconds. An object may name or select those of its
        own namespace only; a cluster-scoped one may name those of any namespace that is served. It
        may name or select at most 100. One that does not fit the type, or for which `project`
        raises, is a `ReferenceUnreadable`. Raise `TypeError` or `ValueError` as `owns` does.
        """
        self._check(kind, self.declaration.read)
        if (keys is None) == (labels is None):
            raise ValueError(f"reads({kind.kind}) needs either keys= or labels=")
        for name, function in (("keys", keys), ("labels", labels), ("project", project)):
            if function is not None and not callable(function):
                raise TypeError(f"{name}={function!r}: use a function")
        if labels is not None and every is not None:
            raise ValueError("every= asks for objects by their names: leave it out with labels=")
        if every is not None and not every >= 1:  # nor NaN
            raise ValueError(f"every={every!r}: use at least 1 second, or leave it out to watch")
        named = keys or (lambda _: ())
        read = Read(kind, type_, of_models(type_, project), named, labels, every)
        self._declare(read={**self.declaration.read, kind: read})

    def index(self, values: Callable[[Any], Iterable[Hashable]]) -> Index:
        """Return an index by the values that a function returns for an object.

        `context.holders(index, value)` returns the keys of those that have a value. When one gains
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
        loses both. Raise `TypeError` or `ValueError` if this cannot be meant.
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

    @overload
    def desired(self, function: Plans) -> Plans: ...
    @overload
    def desired(self, *, stepwise: bool) -> Callable[[Steps], Steps]: ...
    def desired(self, function: F | None = None, *, stepwise: bool = False) -> Any:
        """Register the function that returns the children's manifests for an object and a context.

        It must be pure, and sees no status. With `stepwise`, it is called at each reconcile: its
        context has all that is seen, and it returns the next step, with all that is to stay.
        """

        def register(function: F) -> F:
            self._declare(desired=self._take("desired", plain(function)), stepwise=stepwise)
            return function

        return register if function is None else register(function)

    def contribution(self, function: Adds) -> Adds:
        """Register the function that returns what is added to an object of others' kind.

        It takes what `desired` takes, and returns the fields that the object is to have, or None.
        Once the children are up to date, they are set by a server-side apply that takes no field
        from anybody (`ContributionConflict`). What is no longer returned is removed, and all of it
        once the object is not served any more.
        """
        if self.declaration.foreign is None:
            raise TypeError(f"{self.kind} is the operator's own: nothing but its status is written")
        self._declare(contribution=self._take("contribution", plain(function)))
        return function

    def status(self, function: Reports) -> Reports:
        """Register the function that computes an object's status (`Observed` -> `Status`)."""
        self._declare(status=self._take("status", plain(function)))
        return function

    def convert(self, old: type[A], new: type[B]) -> Callable[[Callable[[A], B]], Callable[[A], B]]:
        """Register the function that converts an object from one version of the kind to another.

        Each version needs a function to a neighbour, and one back. It must be pure; it passes the
        metadata on, and, if it returns no status, the runtime passes that on. What the other
        version cannot hold is kept in an annotation, and restored on the way back. Raise
        `TypeError` or `ValueError` as `owns` does.
        """
        self._refuse_foreign("conversions")
        for type_ in (old, new):
            declared(type_)
        if old is new or (old, new) in self.declaration.conversions:
            raise ValueError(f"convert({old.__name__}, {new.__name__}) is registered already")

        def register(function: Callable[[A], B]) -> Callable[[A], B]:
            steps = dict(self.declaration.conversions)
            self._declare(conversions=steps | {(old, new): plain(function)})
            return function

        return register

    def validate(
        self,
        *,
        on: Sequence[str] = ("create", "update"),
        failure_policy: str = "fail",
        timeout: float = 5.0,
    ) -> Callable[[Reviews], Reviews]:
        """Register a function that the API server calls before it stores or deletes an object.

        Its arguments are the object as it would be, or that is deleted, and a `ReviewContext` with
        the `operation`, the `old` object and the `user`. It may be a coroutine function, and must
        change nothing. It raises `Refusal`, or returns or yields warnings, as texts. If it fails,
        or takes longer than `timeout` seconds (25 at most), or no replica answers, the write is
        refused, or let through with `failure_policy="ignore"`. It is not asked for what the control
        plane does. The session sends any request on every replica; what the object names is not
        read. Raise `TypeError` or `ValueError` as `owns` does.
        """
        return self._registering(False, on, failure_policy, timeout)

    def default(
        self,
        *,
        on: Sequence[str] = ("create", "update"),
        failure_policy: str = "fail",
        timeout: float = 5.0,
    ) -> Callable[[Reviews], Reviews]:
        """Register a function that returns an object as it is to be stored, or None to leave it.

        It is asked as a function of `validate` is, but before all of those. What it returns may
        differ in the spec, the labels and the annotations.
        """
        return self._registering(True, on, failure_policy, timeout)

    def _registering(
        self, mutating: bool, on: Sequence[str], failure_policy: str, timeout: float
    ) -> Callable[[Reviews], Reviews]:
        self._refuse_foreign("webhooks: without a replica, nobody could write any of its objects")

        def register(function: Reviews) -> Reviews:
            hook = webhook(self.kind, function, on, failure_policy, timeout, mutating=mutating)
            if any(other.name == hook.name for other in self.declaration.webhooks):
                raise ValueError(f"another function is the webhook {hook.name}; rename one of them")
            self._declare(webhooks=(*self.declaration.webhooks, hook))
            return function

        return register

    def gauge(self, name: str, meaning: str, value: Callable[[given.Owner], float | None]) -> None:
        """Declare a metric that has a value for each object, by its namespace and name.

        `value` is called at each scrape; a None leaves the object out. Raise `ValueError` if the
        name is not valid or already used.
        """
        if not re.fullmatch("[a-z][a-z0-9_]*", name):
            raise ValueError(f"{name!r} cannot name a metric: use a-z, 0-9 and _, first a letter")
        if name in self.declaration.gauges:
            raise ValueError(f"the gauge {name} is declared twice for {self.kind.kind}; do it once")
        self._declare(gauges={**self.declaration.gauges, name: (meaning, value)})

    @overload
    def sync(self, function: Calls) -> Calls: ...
    @overload
    def sync(
        self, *, every: Every = 300.0, on: Sequence[Kind] = (), timeout: float = 30.0
    ) -> Callable[[Calls], Calls]: ...
    def sync(
        self,
        function: F | None = None,
        *,
        every: Every = 300.0,
        on: Sequence[Kind] = (),
        timeout: float = 30.0,
    ) -> Any:
        """Register the coroutine that brings external resources in line with an object.

        Its arguments are the object and a `CallContext`. Its result is kept in memory; it is the
        `outcome` in the context of `desired` and `status`. It is called whenever the object's
        spec, labels or annotations change, after a restart, each `every` seconds (or as many as a
        function of the object and the context returns), and soon after a child or a grandchild of
        a kind in `on` has changed, at most once a second. If it raises, or takes longer than
        `timeout` seconds (240 at most), it is retried; `RetryError(…, after=…)` says when, and no
        edit shortens that. It may be called twice for the same state, so it must check before it
        creates anything. Calls that hang for up to 16 objects of a namespace delay no other object.
        """

        def register(function: F) -> F:
            taken = self._take("sync", function)
            self._declare(sync=Call(taken, "SyncFailed", timeout, every, tuple(on)))
            return function

        return register if function is None else register(function)

    def check(
        self, *, every: Every, on: Sequence[Kind] = (), timeout: float = 30.0
    ) -> Callable[[Calls], Calls]:
        """Register the coroutine that looks at what the children provide, such as by HTTP.

        It is called as `sync` is, but after the children are in place, ready or not, even while one
        waits or is refused. Its result is `checked` in the context of `desired` and `status`; if it
        changes, the children are planned again. After a restart or a change of the leader, an
        object with children is checked first: until `check` returns, missing children are created,
        and what exists is changed or deleted only after an edit of the object.
        """

        def register(function: Calls) -> Calls:
            taken = self._take("check", function)
            self._declare(check=Call(taken, "CheckFailed", timeout, every, tuple(on)))
            return function

        return register

    def session(self, function: F) -> F:
        """Register the function that returns the arguments of the contexts' HTTP session.

        It gets the settings, and returns arguments of `aiohttp.ClientSession` that replace those of
        the runtime, such as `trust_env` (it honors `HTTPS_PROXY`) or `connector` (it keeps idle
        connections for 15 seconds). It is called once, in the event loop. Pass a TLS context with
        each request, as `ssl=`, and always the same one, or no connection is used again.
        """
        self._declare(session=self._take("session", plain(function)))
        return function

    @overload
    def finalize(self, function: Calls) -> Calls: ...
    @overload
    def finalize(self, *, timeout: float = 30.0) -> Callable[[Calls], Calls]: ...
    def finalize(self, function: F | None = None, *, timeout: float = 30.0) -> Any:
        """Register the coroutine that removes external resources before an object is deleted.

        It has the arguments of `sync`, and is retried until it succeeds. Until then a finalizer
        keeps the object; it is set before `sync` is called and before any child is created. A kind
        of children counts as empty once the API server has said for 15 seconds that it does not
        know it. What the object names or selects can be read only if all of it can.
        """

        def register(function: F) -> F:
            taken = self._take("finalize", function)
            self._declare(finalize=Call(taken, "CleanupFailed", timeout))
            return function

        return register if function is None else register(function)
