"""What an author says that a controller does.

`Manager.controller_for` gives a `controller`, which is one of these: its author says what the
kind owns, and registers two pure functions, `desired` and `status`. What is outside the cluster
is the matter of two coroutines, `sync` and `cleanup`.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from kopf_runtime import status as statuses
from kopf_runtime.external import Call
from kopf_runtime.kinds import Kind
from kopf_runtime.objects import Object, Resource
from kopf_runtime.records import Owned, Update
from kopf_runtime.status import Observed, Status

F = TypeVar("F", bound=Callable[..., Any])


class Behavior:
    """What is done for the objects of one kind."""

    def __init__(self, kind: Kind, type_: type[Resource], keep: Callable[[Any], Any]) -> None:
        self.kind, self.type = kind, type_
        self._keep = keep
        #: The kinds of children and of grandchildren, as they are declared.
        self.owned: dict[Kind, Owned] = {}
        self.watched: dict[Kind, Owned] = {}
        self._desired: Callable[..., Iterable[dict[str, Any]]] = lambda *_: ()
        self._status: Callable[[Observed], Status] = statuses.by_default
        self._sync: Call | None = None
        self._cleanup: Call | None = None

    def owns(
        self, kind: Kind, type_: type[Object] = Object, *, update: Update = Update.APPLY,
        keep: Callable[[Any], Any] = lambda _: None, ended: Callable[[Any], str] = lambda _: "",
    ) -> None:  # fmt: skip
        """Declare a kind of children.

        `keep` returns what `status` is to see of a child, and should be small; `ended` tells by
        that why a child has ended, and returns an empty text while it may run.
        """
        self.owned[kind] = Owned(kind, type_, update, keep, ended)

    def watches(
        self, kind: Kind, type_: type[Object] = Object, *, keep: Callable[[Any], Any]
    ) -> None:
        """Declare a kind of grandchildren: `status` sees what `keep` returns of them.

        They are what is made from the `spec.template` of a child, such as the Pods of a Deployment.
        """
        self.watched[kind] = Owned(kind, type_, Update.REPLACE, keep, lambda _: "")

    def desired(self, function: F) -> F:
        """Register the function that returns the children's manifests, given object and settings.

        It must be pure. Labels, owner reference and namespace of the children are added. With a
        `sync`, what that returned is the third argument.
        """
        self._desired = function
        return function

    def status(self, function: F) -> F:
        """Register the function that returns how an object fares (`Observed` -> `Status`)."""
        self._status = function
        return function

    def sync(self, *, every: float = 300.0, timeout: float = 30.0) -> Callable[[F], F]:
        """Register the coroutine that brings what is outside the cluster in line with an object.

        It gets the object, an `aiohttp.ClientSession` and the settings; what it returns is kept in
        memory, and handed to `desired` and `status`. It is called whenever the object's spec,
        labels or annotations change, after a restart, and `every` so many seconds. If it raises, or
        takes longer than `timeout` seconds, it is called again later; `RetryError(…, after=…)` says
        when. It may be called twice for the same, so it must look before it makes anything.
        """

        def register(function: F) -> F:
            self._sync = Call(function, timeout, every)
            return function

        return register

    def cleanup(self, *, timeout: float = 30.0) -> Callable[[F], F]:
        """Register the coroutine that removes what is outside, before an object is gone.

        It has the arguments of `sync`, and is called again until it returns. A finalizer holds the
        object until then; it is there before `sync` is called or any child is made.
        """

        def register(function: F) -> F:
            self._cleanup = Call(function, timeout)
            return function

        return register

    @property
    def cleans_up(self) -> bool:
        """Whether there is a `cleanup`, and so a finalizer."""
        return self._cleanup is not None
