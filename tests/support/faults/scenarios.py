"""What users and the world do to an object; each scenario is run under every fault."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.support.faults.subject import Subject
from tests.support.faults.world import World

Act = Callable[[World, str], Awaitable[None]]


async def nothing(_: World, __: str) -> None:
    """Have no object."""


async def an_object(world: World, name: str) -> None:
    """Have an object that is well."""
    await world.create("하나", name)
    await world.is_right(name, "하나")


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
    wrong = {"status": world.subject.wrong_status}
    await world.cluster.patch(f"{world.object(name)}/status", wrong)


async def a_foreign_child(world: World, name: str) -> None:
    await world.cluster.ask("POST", world.children, world.subject.foreign(name))


async def conflict(world: World, name: str) -> None:
    """Meet the foreign child, leave it alone, and go on when it has gone."""
    await world.create("하나", name)
    await world.until_reason("Conflict", name)
    child = await world.cluster.ask("GET", world.child(name))
    assert child["metadata"]["labels"] == {"whose": "somebody"}
    await world.cluster.remove(world.child(name), grace=0)


@dataclass(frozen=True)
class Scenario:
    """What is there, what happens then, and what there must be in the end."""

    before: Act
    act: Act
    #: The text in the end, None for no object.
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


def of(subject: Subject, name: str) -> Scenario:
    """Return one of the scenarios that a subject gives the writes of."""
    if name in _COMMON:
        return _COMMON[name]

    async def happens(world: World, one: str) -> None:
        await subject.breaks[name](world.cluster, world.child(one))

    return Scenario(an_object, happens, "하나")
