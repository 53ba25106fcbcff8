"""An hour of churn, with two replicas: their memory stays. MINUTES makes it shorter.

kopf was seen to grow without bound since 1.42 (nolar/kopf#1172); this holds the whole process,
kopf included, to what it takes in the first sixth of the time.
"""

import asyncio
import itertools
import os
import random
import statistics
import time

import pytest

from kopf_kit.testing.conformance.replicas import two
from kopf_kit.testing.process import Operator
from kopf_kit.testing.world import World

MINUTES = float(os.environ.get("MINUTES") or "60")
MESSAGES = 200
#: Seconds between two rounds of churn, and rounds between two cuts of all connections.
PAUSE, CUT = 1.0, 60
#: How much more memory a replica may have at the end.
GROWTH = 1.05

pytestmark = [pytest.mark.soak, pytest.mark.timeout(MINUTES * 60 + 1200)]


async def test_an_hour_of_churn_costs_no_memory(here: World) -> None:
    """Messages are edited, deleted and made, Pods are lost, and connections cut."""
    leader, standby = await two(here, "--log-level=info")
    wanted = {f"m{number}": "하나" for number in range(MESSAGES)}
    for name, text in wanted.items():
        await here.create(text, name)
    await here.converges(wanted)
    resident: dict[Operator, list[int]] = {leader: [], standby: []}
    end = time.monotonic() + MINUTES * 60

    for number in itertools.count():
        if time.monotonic() > end:
            break
        await _churn(here, wanted, number)
        if number % CUT == CUT - 1:
            for proxy in here.proxies:
                proxy.drop_connections()
        for operator, seen in resident.items():
            seen.append(operator.memory())
        del here.writes[:]  # the story of an hour would fill this process
        await asyncio.sleep(PAUSE)

    await here.converges(wanted)
    assert not leader.exits + standby.exits, here.story("a replica was started again")
    told, grown = [], []
    for who, operator in (("leader", leader), ("standby", standby)):
        sixths = [statistics.median(part) for part in _sixths(resident[operator])]
        told.append(f"{who}: {', '.join(f'{middle / 2**20:.1f}' for middle in sixths)}")
        grown += [who] if sixths[-1] > GROWTH * sixths[0] else []
    print(f"MiB in each sixth of {MINUTES:g} minutes: {'; '.join(told)}")  # noqa: T201
    assert not grown, f"{' and '.join(grown)} has grown: {'; '.join(told)}"


async def _churn(here: World, wanted: dict[str, str], number: int) -> None:
    """Edit four Messages, lose a Pod, and have another Message in the place of one."""
    names = list(wanted)
    *edited, lost, gone = random.sample(names, 6)
    for name in edited:
        wanted[name] = f"글 {number}"
        await here.edit(wanted[name], name)
    await here.cluster.remove(here.child(lost), grace=0)
    await here.delete(gone)
    del wanted[gone]
    wanted[f"m{MESSAGES + number}"] = "새 글"
    await here.create("새 글", f"m{MESSAGES + number}")


def _sixths(seen: list[int]) -> list[list[int]]:
    size = len(seen) / 6
    return [seen[int(number * size) : int((number + 1) * size)] for number in range(6)]
