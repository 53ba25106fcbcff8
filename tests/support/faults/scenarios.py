"""What users and the world do to Messages; each scenario is run under every fault."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.support.faults.cluster import Raw
from tests.support.faults.world import World

Act = Callable[[World, str], Awaitable[None]]


async def nothing(_: World, __: str) -> None:
    """Have no Message."""


async def a_message(world: World, name: str) -> None:
    """Have a Message that is well."""
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


async def lose_the_pod(world: World, name: str) -> None:
    await world.cluster.remove(world.pod(name), grace=0)


async def evict_the_pod(world: World, name: str) -> None:
    status = {"phase": "Failed", "reason": "Evicted"}
    await world.cluster.patch(f"{world.pod(name)}/status", {"status": status})


async def alter_the_pod(world: World, name: str) -> None:
    pod = await world.cluster.ask("GET", world.pod(name))
    pod["spec"]["containers"][0]["image"] = "somebody.else/busybox:0"
    await world.cluster.ask("PUT", world.pod(name), pod)


async def alter_the_status(world: World, name: str) -> None:
    wrong = {"phase": "Failed", "podName": "other", "observedGeneration": 0}
    await world.cluster.patch(f"{world.message(name)}/status", {"status": wrong})


def foreign_pod(name: str, owner: Raw | None = None) -> Raw:
    """Return somebody else's Pod with the name that ours would have."""
    strict = {
        "allowPrivilegeEscalation": False, "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip
    return {
        "metadata": {
            "name": f"msg-{name}",
            "labels": {"whose": "somebody"},
            "ownerReferences": [owner] if owner else [],
        },
        "spec": {"containers": [{"name": "c", "image": "i", "securityContext": strict}]},
    }


async def a_foreign_pod(world: World, name: str) -> None:
    await world.cluster.ask("POST", world.pod(name).rpartition("/")[0], foreign_pod(name))


async def conflict(world: World, name: str) -> None:
    """Meet the foreign Pod, leave it alone, and go on when it has gone."""
    await world.create("하나", name)
    await world.until_reason("Conflict", name)
    pod = await world.cluster.ask("GET", world.pod(name))
    assert pod["metadata"]["labels"] == {"whose": "somebody"}
    await world.cluster.remove(world.pod(name), grace=0)


@dataclass(frozen=True)
class Scenario:
    """What is there, what happens then, and what there must be in the end."""

    before: Act
    act: Act
    #: The text in the end, None for no Message.
    wanted: str | None
    #: The least of writes that it takes: tells a scenario that tests nothing.
    writes: int


SCENARIOS = {
    "create": Scenario(nothing, create, "하나", 3),
    "edit": Scenario(a_message, edit, "둘", 4),
    "burst": Scenario(a_message, burst, "넷", 4),
    "delete": Scenario(a_message, delete, None, 0),
    "recreate": Scenario(a_message, recreate, "둘", 3),
    "heal": Scenario(a_message, lose_the_pod, "하나", 2),
    "evict": Scenario(a_message, evict_the_pod, "하나", 3),
    "alter": Scenario(a_message, alter_the_pod, "하나", 3),
    "status": Scenario(a_message, alter_the_status, "하나", 1),
    "conflict": Scenario(a_foreign_pod, conflict, "하나", 5),
}
