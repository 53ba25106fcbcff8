"""The conformance suite: what holds of an operator whatever happens to it and to its requests.

A test module of the operator's repository imports the tests, and names the operators:

    from kopf_kit.testing.conformance.every_write import *

    SUBJECTS = (Claims(),)

every_write   killed after each write; each write lost, refused, delayed, garbled
replicas      leader election: killed, frozen, cut off, clocks moved, the Lease stolen
sequences     declared states in any order end as a fresh start there would
watches       broken watches, missed events, expired lists, stale answers
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from kopf_kit.testing.under_test import Parent
from kopf_kit.testing.world import World

T = TypeVar("T", bound=Callable[..., Any])


def essential(test: T) -> T:
    """Mark a test that runs without `-m long` even with a subject that is not `thorough`."""
    test.essential = True  # type: ignore[attr-defined]
    return test


def each_scenario(*left_out: str, least: int = 0) -> Callable[[T], T]:
    """Run a test with each scenario of so many writes; those left out are `long`, too."""

    def mark(test: T) -> T:
        test.scenarios = (left_out, least)  # type: ignore[attr-defined]
        return test

    return mark


#: What happens to an object; each scenario runs under every fault.
Act = Callable[[World, str], Awaitable[None]]


async def nothing(_: World, __: str) -> None:
    """Begin without an object."""


async def an_object(world: World, name: str) -> None:
    """Begin with a healthy object."""
    await world.create("하나", name)
    await world.wait_until_right(name, "하나")


async def create(world: World, name: str) -> None:
    await world.create("하나", name)


async def edit(world: World, name: str) -> None:
    await world.edit("둘", name)


async def burst(world: World, name: str) -> None:
    for text in ("둘", "셋", "넷"):
        await world.edit(text, name)


async def delete(world: World, name: str) -> None:
    await world.delete(name)


async def recreate(world: World, name: str) -> None:
    await world.delete(name)
    await world.create("둘", name)


async def alter_the_status(world: World, name: str) -> None:
    wrong = {"status": world.parent.wrong_status}
    await world.cluster.patch(f"{world.object(name)}/status", wrong)


async def a_foreign_child(world: World, name: str) -> None:
    await world.cluster.ask("POST", world.children, world.parent.foreign(name))


async def conflict(world: World, name: str) -> None:
    """Expect a conflict, check that the foreign child is unchanged, and delete it."""
    await world.create("하나", name)
    await world.until_reason("Conflict", name)
    child = await world.cluster.ask("GET", world.child(name))
    assert child["metadata"]["labels"] == {"whose": "somebody"}
    await world.cluster.remove(world.child(name), grace=0)


@dataclass(frozen=True)
class Scenario:
    """The initial state, the action, and the expected final state."""

    before: Act
    act: Act
    #: The final text, or None for no object.
    wanted: str | None


_COMMON = {
    "create": Scenario(nothing, create, "하나"),
    "edit": Scenario(an_object, edit, "둘"),
    "burst": Scenario(an_object, burst, "넷"),
    "delete": Scenario(an_object, delete, None),
    "recreate": Scenario(an_object, recreate, "둘"),
    "status": Scenario(an_object, alter_the_status, "하나"),
    "conflict": Scenario(a_foreign_child, conflict, "하나"),
}


def scenario(subject: Parent, name: str) -> Scenario:
    """Return a scenario by its name, with the subject's number of writes."""
    if name in _COMMON:
        return _COMMON[name]

    async def happens(world: World, parent: str) -> None:
        await subject.breaks[name](world.cluster, world.child(parent))

    return Scenario(an_object, happens, "하나")
