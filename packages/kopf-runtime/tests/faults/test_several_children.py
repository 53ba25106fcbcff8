"""An object with several children under the faults of `test_every_write`: all of them are right."""

from collections.abc import Mapping
from typing import ClassVar

import pytest

from faults import trios
from kopf_kit.testing.cluster import Cluster, Raw
from kopf_kit.testing.conformance import every_write
from kopf_kit.testing.subject import Break, Parent, lose, prepare
from kopf_kit.testing.world import World


async def alter(cluster: Cluster, pod: str) -> None:
    """Change the Pod's image."""
    found = await cluster.ask("GET", pod)
    found["spec"]["containers"][0]["image"] = "somebody.else/busybox:0"
    await cluster.ask("PUT", pod, found)


async def lose_another(cluster: Cluster, pod: str) -> None:
    """Delete a ConfigMap of the object that has this Pod."""
    await lose(cluster, f"{pod.replace('/pods/', '/configmaps/')}-last")


async def alter_another(cluster: Cluster, pod: str) -> None:
    """Change a ConfigMap of the object that has this Pod."""
    path = f"{pod.replace('/pods/', '/configmaps/')}-first?fieldManager=somebody"
    await cluster.patch(path, {"data": {"text": "somebody's"}})


class Trios(Parent):
    """The operator of trios.py; the suite looks at the Pod first, and at the ConfigMaps, too."""

    program = (trios.__file__,)
    manager = trios.manager
    breaks: ClassVar = {
        "heal": lose,
        "alter": alter,
        "lose-another": lose_another,
        "alter-another": alter_another,
    }

    def spec(self, text: str) -> Raw:
        return {"text": text}

    @property
    def writes(self) -> Mapping[str, int]:
        return {**super().writes, "edit": 6, "lose-another": 2, "alter-another": 2}


TRIO = Trios()


@pytest.fixture
def subject() -> Parent:
    return TRIO


@pytest.fixture
async def cluster(cluster: Cluster) -> Cluster:
    await prepare(cluster, TRIO)
    return cluster


# What holds data has several children, too, and is killed in the tier `faults`.
@pytest.mark.long
@pytest.mark.parametrize("scenario", [name for name, writes in TRIO.writes.items() if writes])
async def test_several_children_outlive_a_kill_after_every_single_write(
    cluster: Cluster, scenario: str
) -> None:
    await every_write.test_killed_after_every_single_write(cluster, TRIO, scenario)


@pytest.mark.long
@pytest.mark.parametrize("scenario", TRIO.writes)
async def test_several_children_outlive_a_fault_at_every_single_write(
    here: World, scenario: str
) -> None:
    await every_write.test_a_fault_at_every_single_write(here, TRIO, scenario)


@pytest.mark.parametrize(
    ("harm", "problem"),
    [(lose_another, "trio-hello-last is missing"), (alter_another, "trio-hello-first: data is")],
)
async def test_the_suite_sees_that_another_child_is_wrong(
    here: World, harm: Break, problem: str
) -> None:
    await here.start()
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)
    await here.operator.stop()
    await harm(here.cluster, here.child())

    with pytest.raises(AssertionError, match=problem):
        await here.converges({"hello": "하나"}, patience=0)


async def test_several_children_wait_as_long_as_a_429_tells(here: World) -> None:
    await every_write.test_429_waits_as_long_as_it_is_told(here)
