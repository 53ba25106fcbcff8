"""Each scenario, with one fault at each single write of it.

How many writes a scenario takes depends on how fast the machine is. So the first ones, which it
always takes, are tried at once, and then one more after the other, until one does not happen.
"""

import asyncio
from signal import Signals

from kopf_kit.testing import calls, conformance
from kopf_kit.testing.calls import Call, Forward
from kopf_kit.testing.conformance import each_scenario
from kopf_kit.testing.requests import Cluster
from kopf_kit.testing.under_test import Parent
from kopf_kit.testing.world import World, world

AT_ONCE = 5  # operators that start at once; most of their time is waiting
MAX_WRITES = 40  # writes of a scenario; an operator that takes more does not come to rest
#: Scenarios that take the same writes as a creation, an edit or a loss, or none: the tier `faults`
#: kills the operator after each of them, and `faults-long` tries the other faults.
SAME_WRITES = ("burst", "evict", "alter", "recreate", "delete")


@each_scenario(least=1)
async def test_killed_after_every_single_write(
    api: Cluster, subject: Parent, scenario: str
) -> None:
    """SIGKILL when the server has committed the write, before the operator hears of it."""
    writes, limit = subject.writes[scenario], asyncio.Semaphore(AT_ONCE)

    async def killed_after(number: int) -> bool:
        async with limit:
            return await _killed_after(api, subject, scenario, number)

    async with asyncio.TaskGroup() as group:  # which ends the others if one fails
        tasks = [group.create_task(killed_after(number)) for number in range(1, writes + 2)]
    killed = [task.result() for task in tasks]
    assert killed[:writes] == [True] * writes

    number = writes + 1
    more = killed[-1]
    while more:
        number += 1
        assert number <= MAX_WRITES, f"it takes more than {MAX_WRITES} writes"
        more = await killed_after(number)


async def _killed_after(cluster: Cluster, subject: Parent, scenario: str, number: int) -> bool:
    steps, writes = conformance.scenario(subject, scenario), subject.writes[scenario]
    async with world(cluster, subject) as here:
        await here.start()
        await steps.before(here, "hello")

        async def crash(_: Call, forward: Forward) -> None:
            await forward()
            here.operator.send(Signals.SIGKILL)

        armed = here.proxy.arm(calls.nth_write(number), crash, may_miss=number > writes)
        await steps.act(here, "hello")
        if number <= writes:
            await here.met(armed)
        await here.converges({} if steps.wanted is None else {"hello": steps.wanted})

        assert here.operator.exits == [-Signals.SIGKILL] * armed.hits, here.story("it ended")
        return armed.hits > 0


FAULTS = {
    "answer-lost": calls.lose,
    "never-sent": calls.drop,
    "black-hole": calls.swallow,
    "bad-json": calls.garble,
    "delayed": calls.delay(1.5),
    "409": calls.refuse(409, "Conflict"),
    "429": calls.refuse(429, "TooManyRequests", retry_after=1),
    "500": calls.refuse(500, "InternalError"),
    "503": calls.refuse(503, "ServiceUnavailable"),
}


@each_scenario(*SAME_WRITES)
async def test_a_fault_at_every_single_write(here: World, subject: Parent, scenario: str) -> None:
    """One object for each pair of fault and write, with one operator."""
    writes = subject.writes[scenario]
    cases = {(fault, number) for fault in FAULTS for number in range(1, writes + 2)}
    tried: set[str] = set()
    await here.start("--request-timeout=2")

    while cases:
        met = await _with_faults(here, scenario, cases, tried)
        cases = {(fault, number + 1) for fault, number in met if number > writes}
        assert all(number <= MAX_WRITES for _, number in cases), (
            f"it takes more than {MAX_WRITES} writes"
        )

    assert here.operator.exits == [], here.story("it ended")


async def _with_faults(
    here: World, scenario: str, cases: set[tuple[str, int]], tried: set[str]
) -> set[tuple[str, int]]:
    """Try faults, given by their names, at writes, given by their numbers; return those met.

    `tried` has the names of all objects so far, and gets those of the new ones.
    """
    steps, writes = conformance.scenario(here.parent, scenario), here.parent.writes[scenario]
    # A name begins with a letter, as that of a Service has to.
    names = {f"at-{fault}-{number:02}": (fault, number) for fault, number in cases}
    tried.update(names)
    await asyncio.gather(*(steps.before(here, name) for name in names))
    armed = {
        name: here.proxy.arm(calls.nth_write(number, name), FAULTS[fault], may_miss=number > writes)
        for name, (fault, number) in names.items()
    }

    await asyncio.gather(*(steps.act(here, name) for name in names))
    # An Event may come late, after all is right.
    await here.met(*(armed[name] for name, (_, number) in names.items() if number <= writes))
    await here.converges({} if steps.wanted is None else dict.fromkeys(tried, steps.wanted))
    return {case for name, case in names.items() if armed[name].hits}


async def test_429_waits_as_long_as_it_is_told(here: World) -> None:
    await here.start()
    here.proxy.arm(calls.nth_write(1), calls.refuse(429, "TooManyRequests", retry_after=3))

    await here.create("하나")
    refused, again = await _first_write_and_its_retry(here)

    assert again.at - refused.at >= 3
    await here.converges({"hello": "하나"})


async def _first_write_and_its_retry(here: World) -> tuple[Call, Call]:
    """Return the first write, and the first one after it that asks for the same.

    The other children of the object are written in between.
    """
    async with here.within(120, "the first write is sent again"):
        while True:
            if writes := [call for call in here.proxy.calls if call.writes]:
                first, *rest = writes
                request = first.method, first.path, first.body
                for call in rest:
                    if (call.method, call.path, call.body) == request:
                        return first, call
            await asyncio.sleep(0.02)
