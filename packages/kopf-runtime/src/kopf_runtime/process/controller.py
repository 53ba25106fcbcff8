"""What an author declares about the objects of one kind; `engine` carries it out.

An author declares what the kind owns, and registers two pure functions, `desired` and `status`. Two
coroutines, `sync` and `finalize`, manage resources outside the cluster.
"""

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from kopf_runtime.declaring import given
from kopf_runtime.declaring.conditions import Status
from kopf_runtime.declaring.kinds import Key, Kind
from kopf_runtime.declaring.objects import Object, Resource
from kopf_runtime.declaring.records import Owned, Update
from kopf_runtime.reporting import readiness
from kopf_runtime.reporting import status as statuses
from kopf_runtime.reporting.status import Observed
from kopf_runtime.working.external import Call

F = TypeVar("F", bound=Callable[..., Any])


def nothing(*_: Any) -> Iterable[dict[str, Any]]:
    """Return no children: what a controller without `desired` plans."""
    return ()


class Controller:
    """What an author declares for the objects of one kind; `Manager.controller_for` makes it."""

    #: What is kept of the objects that are known now, for example for a metric of the author's.
    owners: Iterable[given.Owner]

    def __init__(
        self, kind: Kind, type_: type[Resource], project: Callable[[Any], Any],
        workers: int | None = None,
    ) -> None:  # fmt: skip
        if workers is not None and (type(workers) is not int or not 1 <= workers <= 1000):
            raise ValueError(f"workers={workers!r}: use a whole number from 1 to 1000")
        self.kind, self.type, self._workers = kind, type_, workers
        self._project = project
        #: The declared kinds of children and of grandchildren.
        self.owned: dict[Kind, Owned] = {}
        self.watched: dict[Kind, Owned] = {}
        self._desired: Callable[..., Iterable[dict[str, Any]]] = nothing
        self._status: Callable[[Observed], Status] = statuses.default_status
        self._sync: Call | None = None
        self._finalize: Call | None = None
        self._gone: Callable[[Key], object] | None = None
        self._gauges: dict[str, tuple[str, Callable[[given.Owner], float | None]]] = {}

    def owns(
        self, kind: Kind, type_: type[Object] | None = None, *, update: Update = Update.APPLY,
        project: Callable[[Any], Any] | None = None, ended: Callable[[Any], str] | None = None,
        unready: Callable[[Any], str] | None = None,
    ) -> None:  # fmt: skip
        """Declare a kind of children.

        `project` returns the part of a child that `status` sees; it should be small. `ended` takes
        that part and returns why the child has ended, or an empty text while it may still run.
        `unready` takes it and returns why the child is not ready, or an empty text if it is. If
        neither a type nor one of them is given, a Deployment, StatefulSet, DaemonSet, Job or Pod
        is ready as its own status says; any other child is ready if it exists. Raise `TypeError` or
        `ValueError` if the declaration cannot be meant.
        """
        self._check(kind, self.owned)
        if not isinstance(update, Update):
            raise TypeError(f"update={update!r}: use kr.APPLY, kr.RECREATE or kr.CREATE")
        if update is Update.CREATE and ended is not None:
            raise ValueError(f"{kind.kind} is created once: leave out ended=, which replaces it")
        if (type_, project, unready) == (None, None, None) and kind in readiness.UNREADY:
            type_, project, unready = readiness.Workload, readiness.UNREADY[kind], str
        self.owned[kind] = Owned(
            kind, type_ or Object, update, project or (lambda _: None),
            ended or (lambda _: ""), unready or (lambda _: ""),
        )  # fmt: skip

    def watches(
        self, kind: Kind, type_: type[Object] = Object, *, project: Callable[[Any], Any]
    ) -> None:
        """Declare a kind of grandchildren: `status` sees what `project` returns of them.

        They are created from the `spec.template` of a child, as the Pods of a Deployment are.
        Raise `TypeError` or `ValueError` as `owns` does.
        """
        self._check(kind, self.watched)
        self.watched[kind] = Owned(kind, type_, Update.RECREATE, project, lambda _: "")

    def _check(self, kind: Kind, declared: dict[Kind, Owned]) -> None:
        if not isinstance(kind, Kind):
            raise TypeError(f"{kind!r} is not a kr.Kind; kr.kinds has the built-in ones")
        if kind in declared:
            raise ValueError(f"{kind.kind} is declared twice for {self.kind.kind}; do it once")

    def desired(self, function: F) -> F:
        """Register the function that returns the children's manifests for an object and a context.

        It must be pure, and sees no status. The runtime adds labels, owner reference and namespace.
        """
        self._desired = function
        return function

    def status(self, function: F) -> F:
        """Register the function that computes an object's status (`Observed` -> `Status`)."""
        self._status = function
        return function

    def gone(self, function: F) -> F:
        """Register the function that the leader calls with the key of an object that is gone.

        If it raises, it is called again. It is not called for what vanishes while nobody leads; to
        remove something outside the cluster, register a `finalize`.
        """
        if inspect.iscoroutinefunction(function):
            name = function.__name__
            raise TypeError(f"{name} must not be a coroutine function: write `def {name}`")
        self._gone = function
        return function

    def gauge(
        self, name: str, meaning: str, value: Callable[[given.Owner], float | None]
    ) -> None:  # fmt: skip
        """Declare a metric that has a value for each object, by its namespace and name.

        `value` is called at each scrape; a None leaves the object out. Raise `ValueError` if the
        name is not valid or already used.
        """
        if not re.fullmatch("[a-z][a-z0-9_]*", name):
            raise ValueError(f"{name!r} cannot name a metric: use a-z, 0-9 and _, first a letter")
        if name in self._gauges:
            raise ValueError(f"the gauge {name} is declared twice for {self.kind.kind}; do it once")
        self._gauges[name] = meaning, value

    def sync(self, *, every: float = 300.0, timeout: float = 30.0) -> Callable[[F], F]:
        """Register the coroutine that brings external resources in line with an object.

        Its arguments are the object and a `Context`. Its result is kept in memory; it is the
        `outcome` in the context of `desired` and `status`. It is called whenever the object's
        spec, labels or annotations change, after a restart, and each `every` seconds. If it raises,
        or takes longer than `timeout` seconds, it is retried; `RetryError(…, after=…)` says when.
        It may be called twice for the same state, so it must check before it creates anything.
        """

        def register(function: F) -> F:
            self._sync = Call(function, timeout, every)
            return function

        return register

    def finalize(self, *, timeout: float = 30.0) -> Callable[[F], F]:
        """Register the coroutine that removes external resources before an object is deleted.

        It has the arguments of `sync`, and is retried until it succeeds. Until then a finalizer
        keeps the object; it is set before `sync` is called and before any child is created.
        """

        def register(function: F) -> F:
            self._finalize = Call(function, timeout)
            return function

        return register
