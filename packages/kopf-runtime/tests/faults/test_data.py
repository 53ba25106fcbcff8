"""Children that hold data survive faults at each write (a real API server).

test_situations.py and test_marks.py have what happens to their owners and marks.
"""

from signal import Signals

import pytest

from faults import stores
from kopf_kit.testing import calls
from kopf_kit.testing.conformance import every_write
from kopf_kit.testing.requests import Raw
from kopf_kit.testing.world import World
from kopf_runtime.declaring.kinds import SECRET, Kind

pytestmark = pytest.mark.api

KINDS = tuple(stores.controller.declaration.owned)


def path(here: World, kind: Kind) -> str:
    return kind.path(here.namespace, "store-hello")


async def children(here: World) -> list[Raw]:
    return [(await here.cluster.ask("GET", path(here, kind)))["metadata"] for kind in KINDS]


@pytest.mark.parametrize(
    "fault", ["kill", *(pytest.param(name, marks=pytest.mark.long) for name in every_write.FAULTS)]
)
async def test_data_keeps_its_uids_with_a_fault_at_every_write(here: World, fault: str) -> None:
    """Back and forth between two texts, with one fault at each write in turn."""

    async def kill(_: calls.Call, forward: calls.Forward) -> None:
        await forward()
        here.operator.send(Signals.SIGKILL)

    await here.start("--request-timeout=2")
    await here.create("one")
    await here.converges({"hello": "one"})
    before = [meta["uid"] for meta in await children(here)]

    for number in range(1, len(KINDS) + 2):  # each child, and the status
        text = ("one", "two")[number % 2]
        armed = here.proxy.arm(calls.nth_write(number), every_write.FAULTS.get(fault, kill))
        await here.edit(text)
        await here.met(armed)
        await here.converges({"hello": text}, quiet=0.1)

        assert [meta["uid"] for meta in await children(here)] == before, number


async def test_d7_an_object_that_appears_before_the_create_stays_its_maker_s(here: World) -> None:
    theirs = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "store-hello"},
        "data": {"users": "ZGF0YQ=="},
    }
    made: list[Raw] = []

    async def overtake(_: calls.Call, forward: calls.Forward) -> calls.Answer:
        made.append(await here.cluster.ask("POST", SECRET.path(here.namespace), theirs))
        return await forward()

    await here.start()
    here.proxy.arm(
        lambda call: call.method == "PATCH" and call.path == path(here, SECRET), overtake
    )
    await here.create("one")

    await here.until_reason("Conflict")
    assert [await here.cluster.ask("GET", path(here, SECRET))] == made
