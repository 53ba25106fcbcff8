"""A `Subject` describes an operator to the fault suite, and a `Parent` one with children.

A `Parent` has about thirty lines. The suite creates an object, edits it, breaks it and its child,
and checks that it recovers. The `Parent` says how to do this for one operator;
tests/faults/subjects.py lists them.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from kopf_runtime.kinds import Kind
from tests.support.faults.cluster import Cluster, Raw

#: A function that breaks the child at a path.
Break = Callable[[Cluster, str], Awaitable[None]]


async def lose(cluster: Cluster, child: str) -> None:
    """Delete the child at once."""
    await cluster.remove(child, grace=0)


class Subject(ABC):
    """An operator under test, and its kind."""

    #: The arguments for Python that run it.
    program: tuple[str, ...]
    kind: Kind
    #: The Ready condition's reason of a healthy object.
    well: str

    def __str__(self) -> str:
        return self.kind.kind

    @property
    @abstractmethod
    def creates(self) -> Kind:
        """A kind whose objects it creates in the cluster, so it must be allowed to."""

    @abstractmethod
    def install(self) -> list[Raw]:
        """Return the objects that a cluster needs first: the CRD."""

    @abstractmethod
    def rights(self, namespace: str | None) -> list[Raw]:
        """Return the roles and bindings for one namespace and its Lease, or for all."""

    @abstractmethod
    def spec(self, text: str) -> Raw:
        """Return the spec of an object with a text; the suite ignores all other fields."""

    @property
    def crd(self) -> str:
        """The path of the kind's CRD."""
        return f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{self.kind}"

    def manifest(self, text: str, name: str) -> Raw:
        """Return an object with a text."""
        return {
            "apiVersion": self.kind.api_version, "kind": self.kind.kind,
            "metadata": {"name": name}, "spec": self.spec(text),
        }  # fmt: skip


class Parent(Subject):
    """An operator whose objects have one child each."""

    child: Kind
    #: A wrong status, which somebody may write by hand.
    wrong_status: ClassVar[Raw]
    #: Functions that break a child, by the name of the scenario.
    breaks: ClassVar[Mapping[str, Break]]
    #: The minimum number of writes per scenario, which detects scenarios that test nothing.
    writes: ClassVar[Mapping[str, int]]

    #: The scenarios whose every write `make faults` tests; `make faults-long` tests all scenarios.
    quick: ClassVar[Sequence[str]] = ("edit",)

    #: How many additional writes a scenario may take, if not two.
    more_writes: ClassVar[Mapping[str, int]] = MappingProxyType({})

    @property
    def creates(self) -> Kind:
        return self.child

    @abstractmethod
    def child_of(self, name: str) -> str:
        """Return the name of an object's child."""

    @abstractmethod
    def foreign(self, name: str) -> Raw:
        """Return a foreign object with the name of an object's child."""

    @abstractmethod
    def facts(self, found: Raw, child: Raw, text: str) -> dict[str, tuple[Any, Any]]:
        """Return the actual and the expected values of an object with a text, and of its child."""

    @abstractmethod
    def essence(self, child: Raw) -> Raw:
        """Return a child without its name, age and other values that differ between equal ones."""

    def most(self, scenario: str) -> int:
        """Return the maximum number of writes that a scenario takes."""
        return self.writes[scenario] + self.more_writes.get(scenario, 2)

    def wrong(self, found: Raw, child: Raw, text: str) -> list[str]:
        """Return what is wrong with an object that should have a text, and with its child."""
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
    """Create a node and the CRDs of the operators."""
    await cluster.add_node()
    for subject in subjects:
        for manifest in subject.install():
            await cluster.put(manifest)
        await cluster.serves(subject.kind)
