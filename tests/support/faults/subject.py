"""What an operator says of itself so that the fault suite can try it: some thirty lines each.

The suite makes an object, edits it, breaks it and its child, and asks whether it is well again. How
that is done for one operator its `Subject` says; tests/faults/subjects.py lists them.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from kopf_runtime.kinds import Kind
from tests.support.faults.cluster import Cluster, Raw

#: Breaks the child at a path.
Break = Callable[[Cluster, str], Awaitable[None]]


async def lose(cluster: Cluster, child: str) -> None:
    """Delete the child at once."""
    await cluster.remove(child, grace=0)


class Subject(ABC):
    """An operator under faults, and the kind that it serves, with one child each.

    A user declares a text; what else an object may say is no matter of the suite.
    """

    #: What Python is to run.
    program: tuple[str, ...]
    kind: Kind
    child: Kind
    #: The reason with which an object that is well is Ready.
    well: str
    #: A status that is wrong, as somebody may write it.
    wrong_status: ClassVar[Raw]
    #: What befalls a child, by the name of the scenario.
    breaks: ClassVar[Mapping[str, Break]]
    #: The least of writes that each scenario takes: tells one that tests nothing.
    writes: ClassVar[Mapping[str, int]]

    #: The scenarios of which `make faults` tries each write; `make faults-long` tries all of them.
    quick: ClassVar[Sequence[str]] = ("edit",)

    #: How many more writes a scenario may take, where that is not two.
    more_writes: ClassVar[Mapping[str, int]] = MappingProxyType({})

    def __str__(self) -> str:
        return self.kind.kind

    @abstractmethod
    def install(self) -> list[Raw]:
        """Return what a cluster needs first: the CRD."""

    @abstractmethod
    def rights(self, namespace: str | None) -> list[Raw]:
        """Return the roles and bindings for one namespace with its Lease, or for all of them."""

    @abstractmethod
    def spec(self, text: str) -> Raw:
        """Return what a user declares."""

    @abstractmethod
    def child_of(self, name: str) -> str:
        """Return the name of an object's child."""

    @abstractmethod
    def foreign(self, name: str) -> Raw:
        """Return somebody else's object with the name of an object's child."""

    @abstractmethod
    def facts(self, found: Raw, child: Raw, text: str) -> dict[str, tuple[Any, Any]]:
        """Return what is, and what should be, for an object that says a text, and its child."""

    @abstractmethod
    def essence(self, child: Raw) -> Raw:
        """Return what of a child tells neither its name nor its age."""

    def most(self, scenario: str) -> int:
        """Return the most of writes that a scenario takes."""
        return self.writes[scenario] + self.more_writes.get(scenario, 2)

    @property
    def crd(self) -> str:
        """The path of the kind's definition."""
        return f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{self.kind}"

    def manifest(self, text: str, name: str) -> Raw:
        """Return an object that says a text."""
        return {
            "apiVersion": self.kind.api_version, "kind": self.kind.kind,
            "metadata": {"name": name}, "spec": self.spec(text),
        }  # fmt: skip

    def wrong(self, found: Raw, child: Raw, text: str) -> list[str]:
        """Return what is wrong with an object that is to say a text, and with its child."""
        meta, conditions = found["metadata"], (found.get("status") or {}).get("conditions") or ()
        ready: Raw = next((one for one in conditions if one["type"] == "Ready"), {})
        owners = [owner["uid"] for owner in child["metadata"].get("ownerReferences") or ()]
        facts = {
            "spec": (found["spec"], {**found["spec"], **self.spec(text)}),
            "owners": (owners, [meta["uid"]]),
            "deletion": (child["metadata"].get("deletionTimestamp"), None),
            "Ready": (ready.get("status"), "True"),
            "reason": (ready.get("reason"), self.well),
            "its generation": (ready.get("observedGeneration"), meta["generation"]),
            **self.facts(found, child, text),
        }
        return [f"{meta['name']}: {k} is {a!r}, not {b!r}" for k, (a, b) in facts.items() if a != b]


async def prepare(cluster: Cluster, *subjects: Subject) -> None:
    """Bring a node and the kinds that the operators serve."""
    await cluster.add_node()
    for subject in subjects:
        for manifest in subject.install():
            await cluster.put(manifest)
        await cluster.serves(subject.kind)
