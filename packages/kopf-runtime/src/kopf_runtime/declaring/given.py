"""What an author's functions are given: as much of the runtime's own classes as they need.

`records` and `cluster.client` have the classes; what is not here may change in any release.
"""

from typing import TYPE_CHECKING, Any, Protocol

from kopf_runtime.declaring.kinds import Key, Kind

if TYPE_CHECKING:  # the extra `client`
    from lightkube import AsyncClient


class _Known(Protocol):
    @property
    def key(self) -> Key:
        """Its namespace and name."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def namespace(self) -> str:
        """Its namespace; empty if it is cluster-scoped."""

    @property
    def uid(self) -> str:
        """Its uid."""

    @property
    def deleting(self) -> bool:
        """Whether it is being deleted."""

    @property
    def finalizers(self) -> tuple[str, ...]:
        """Its finalizers."""

    @property
    def view(self) -> Any:
        """What the author's `transform` returned of it, without one an owner itself."""


class Owner(_Known, Protocol):
    """What is kept of an object that a controller serves."""

    @property
    def generation(self) -> int:
        """The number of its spec."""

    @property
    def status(self) -> dict[str, Any]:
        """The status as stored in the API server."""


class Child(_Known, Protocol):
    """What is kept of an object that an owner owns, or that was made of a child's template."""

    @property
    def kind(self) -> Kind:
        """Its kind."""

    @property
    def created(self) -> float:
        """When it was created, by the API server's clock in Unix time."""

    @property
    def deadline(self) -> float:
        """When its grace period ends, in Unix time, too; 0 if it is not being deleted."""

    @property
    def unready(self) -> str:
        """Why it is not ready; empty if it is."""


class Client(Protocol):
    """A client of the API server."""

    def lightkube(self, namespace: str) -> "AsyncClient":
        """Return a client of lightkube's in a namespace, whose requests are sent as ours are.

        They have our credentials, fence and metrics; what runs in a container is not counted.
        Raise `ImportError` without the extra `kopf-runtime[client]`.
        """

    async def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Send one request and return the decoded object of its answer; raise `ApiError`.

        `path` is a path as `Kind.path` returns; `body` is sent as JSON, and that of a `PATCH` as a
        merge patch.
        """
