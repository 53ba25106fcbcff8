"""What an author declares about the objects of one kind; `process.runtime` carries it out.

`desired` and `status` are pure functions; `sync`, `check` and `finalize` manage what is outside.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar, overload

from kopf_runtime.declaring import given
from kopf_runtime.declaring.admission import webhook
from kopf_runtime.declaring.calls import Call, Every, plain
from kopf_runtime.declaring.conditions import Status
from kopf_runtime.declaring.context import CallContext, Context, ReviewContext, StepContext
from kopf_runtime.declaring.declaration import declared
from kopf_runtime.declaring.kinds import Kind
from kopf_runtime.declaring.models import Manifest
from kopf_runtime.declaring.objects import Resource
from kopf_runtime.declaring.related import Related

A = TypeVar("A", bound=Resource)
B = TypeVar("B", bound=Resource)
F = TypeVar("F", bound=Callable[..., Any])
# What an author's functions may ask for: a type checker refuses the context of another kind.
Plans = TypeVar("Plans", bound=Callable[[Any, Context[Any]], Iterable[Manifest]])
Steps = TypeVar("Steps", bound=Callable[[Any, StepContext[Any]], Iterable[Manifest]])
Calls = TypeVar("Calls", bound=Callable[[Any, CallContext[Any]], Awaitable[Any]])
Reviews = TypeVar("Reviews", bound=Callable[[Any, ReviewContext[Any]], Any])
Adds = TypeVar("Adds", bound=Callable[[Any, Context[Any]], Manifest | None])
Reports = TypeVar("Reports", bound=Callable[[Any, Any], Status])


def _decorator(register: Callable[[F], F], function: F | None) -> Any:
    """Return the function as registered, or what registers it: each works with `()` and without."""
    return register if function is None else register(function)


class Controller(Related):
    """What an author declares for the objects of one kind; `Manager.controller_for` makes it.

    Each decorator stands alone, or has its options in parentheses.
    """

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

        return _decorator(register, function)

    def contribution(self, function: Adds) -> Adds:
        """Register the function that returns what is added to an object of others' kind.

        It takes what `desired` takes, and returns the fields that the object is to have, or None,
        also as a model.
        Once the children are up to date, they are set by a server-side apply that takes no field
        from anybody (`ContributionConflict`). What is no longer returned is removed, and all of it
        once the object is not served any more.
        """
        if self.declaration.foreign is None:
            raise TypeError(f"{self.kind} is the operator's own: nothing but its status is written")
        self._declare(contribution=self._take("contribution", plain(function)))
        return function

    def status(self, function: Reports) -> Reports:
        """Register the function that computes an object's status: `(object, Observed) -> Status`.

        The object is without its status, or what `transform` of `controller_for` returned of it.
        """
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

    @overload
    def validate(self, function: Reviews) -> Reviews: ...
    @overload
    def validate(
        self, *, operations: Sequence[str] = ..., failure_policy: str = ..., timeout: float = ...
    ) -> Callable[[Reviews], Reviews]: ...
    def validate(
        self,
        function: F | None = None,
        *,
        operations: Sequence[str] = ("create", "update"),
        failure_policy: str = "fail",
        timeout: float = 5.0,
    ) -> Any:
        """Register a function that the API server calls before it stores or deletes an object.

        Its arguments are the object as it would be, or that is deleted, and a `ReviewContext` with
        the `operation`, the `old` object and the `user`. It may be a coroutine function, and must
        change nothing. It raises `Denied`, or returns or yields warnings, as texts. If it fails,
        or takes longer than `timeout` seconds (25 at most), or no replica answers, the write is
        refused, or let through with `failure_policy="ignore"`. It is not asked for what the control
        plane does. The session sends any request on every replica; what the object names is not
        read. Raise `TypeError` or `ValueError` as `owns` does.
        """
        register = self._registering(False, operations, failure_policy, timeout)
        return _decorator(register, function)

    @overload
    def default(self, function: Reviews) -> Reviews: ...
    @overload
    def default(
        self, *, operations: Sequence[str] = ..., failure_policy: str = ..., timeout: float = ...
    ) -> Callable[[Reviews], Reviews]: ...
    def default(
        self,
        function: F | None = None,
        *,
        operations: Sequence[str] = ("create", "update"),
        failure_policy: str = "fail",
        timeout: float = 5.0,
    ) -> Any:
        """Register a function that returns an object as it is to be stored, or None to leave it.

        It is called as a function of `validate` is, but before all of those: `operations`,
        `failure_policy` and `timeout` (in seconds) are the same. What it returns may differ in the
        spec, the labels and the annotations.
        """
        register = self._registering(True, operations, failure_policy, timeout)
        return _decorator(register, function)

    def _registering(
        self, mutating: bool, operations: Sequence[str], failure_policy: str, timeout: float
    ) -> Callable[[F], F]:
        self._refuse_foreign("webhooks: without a replica, nobody could write any of its objects")

        def register(function: F) -> F:
            hook = webhook(
                self.kind, function, operations, failure_policy, timeout, mutating=mutating
            )
            if any(other.name == hook.name for other in self.declaration.webhooks):
                raise ValueError(f"another function is the webhook {hook.name}; rename one of them")
            self._declare(webhooks=(*self.declaration.webhooks, hook))
            return function

        return register

    def gauge(self, name: str, meaning: str, value: Callable[[given.Owner], float | None]) -> None:
        """Declare a metric of this name with a value for each object, by its namespace and name.

        `meaning` is its help line; `value` is called at each scrape; a None leaves the object out.
        Raise `ValueError` if the name is not valid or already used.
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
        `sync_result` in the context of `desired` and `status`. It is called whenever the object's
        spec, labels or annotations change, after a restart, each `every` seconds (or as many as a
        function of the object and the context returns), and soon after a child or a descendant of
        a kind in `on` has changed, at most once a second. If it raises, or takes longer than
        `timeout` seconds (240 at most), it is retried; `RetryError(…, after=…)` says when, and no
        edit shortens that. It may be called twice for the same state, so it must check before it
        creates anything. Calls that hang for up to 16 objects of a namespace delay no other object.
        """

        def register(function: F) -> F:
            taken = self._take("sync", function)
            self._declare(sync=Call(taken, "SyncFailed", timeout, every, tuple(on)))
            return function

        return _decorator(register, function)

    @overload
    def check(self, function: Calls) -> Calls: ...
    @overload
    def check(
        self, *, every: Every = ..., on: Sequence[Kind] = ..., timeout: float = ...
    ) -> Callable[[Calls], Calls]: ...
    def check(
        self,
        function: F | None = None,
        *,
        every: Every = 60.0,
        on: Sequence[Kind] = (),
        timeout: float = 30.0,
    ) -> Any:
        """Register the coroutine that looks at what the children provide, such as by HTTP.

        It is called as `sync` is, but after the children are in place, ready or not, even while one
        waits or is refused. Its result is `check_result` in the context of `desired` and `status`;
        if it changes, the children are planned again. After a restart or a change of the leader, an
        object with children is checked first: until `check` returns, missing children are created,
        and what exists is changed or deleted only after an edit of the object. `every` and
        `timeout` are seconds.
        """

        def register(function: F) -> F:
            taken = self._take("check", function)
            self._declare(check=Call(taken, "CheckFailed", timeout, every, tuple(on)))
            return function

        return _decorator(register, function)

    def session(self, function: F) -> F:
        """Register the function that returns the arguments of the contexts' HTTP session.

        It gets the settings, and returns arguments of `aiohttp.ClientSession` that replace those of
        the runtime, such as `trust_env` (it honors `HTTPS_PROXY`) or `connector` (it keeps idle
        connections for 15 seconds). It is called once, in the event loop. Pass a TLS context with
        each request, as `ssl=`, and always the same one, or no connection is used again. But
        return `middlewares` here: a write with some of its own is refused, as they replace these.
        """
        self._declare(session=self._take("session", plain(function)))
        return function

    @overload
    def finalize(self, function: Calls) -> Calls: ...
    @overload
    def finalize(self, *, timeout: float = 30.0) -> Callable[[Calls], Calls]: ...
    def finalize(self, function: F | None = None, *, timeout: float = 30.0) -> Any:
        """Register the coroutine that removes external resources before an object is deleted.

        It has the arguments of `sync` and its `timeout` in seconds, and is retried until it
        succeeds. Until then a finalizer keeps the object; it is set before `sync` is called and
        before any child is created. A kind of children counts as empty once the API server has said
        for 15 seconds that it does not know it. What the object names or selects can be read only
        if all of it can.
        """

        def register(function: F) -> F:
            taken = self._take("finalize", function)
            self._declare(finalize=Call(taken, "CleanupFailed", timeout))
            return function

        return _decorator(register, function)
