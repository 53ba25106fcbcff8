"""The process itself: it ends in time, and its endpoints tell the truth."""

import asyncio
import json
from signal import Signals

import pytest

from kopf_kit.testing import calls
from kopf_kit.testing.world import ELECT, World


@pytest.mark.parametrize("number", [Signals.SIGTERM, Signals.SIGINT])
async def test_it_ends_in_its_grace_period_with_work_in_hand(here: World, number: Signals) -> None:
    operator = await here.start(*ELECT)
    for count in range(15):
        await here.create("하나", f"m{count:02}")

    await operator.stop(number)  # waits 20 of the 30 seconds that Kubernetes gives a Pod

    assert operator.exits == [0]
    here.operators.remove(operator)  # and the next one goes on at once
    await here.start(*ELECT)
    await here.converges({f"m{count:02}": "하나" for count in range(15)})


async def test_a_second_signal_ends_it_at_once(here: World) -> None:
    operator = await here.start(*ELECT)
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)  # so it leads
    operator.supervised = False
    # It cannot release its Lease, and would wait for that.
    released = here.proxy.arm(_releases, calls.swallow, float("inf"))

    operator.send(Signals.SIGTERM)
    await here.met(released)
    operator.send(Signals.SIGTERM)
    await operator.stop(Signals.SIGCONT)

    # By our handler, or by the system's own, if Python was through with its handlers already.
    assert operator.exits in ([128 + Signals.SIGTERM], [-Signals.SIGTERM])
    assert "InvalidStateError" not in operator.log.read_text()


def _releases(call: calls.Call) -> bool:
    return call.lease and call.writes and not json.loads(call.body)["spec"]["holderIdentity"]


async def test_it_is_not_ready_before_its_caches_are_filled(here: World) -> None:
    def hole(one: calls.Proxy) -> None:
        one.arm(lambda call: call.lists, calls.delay(3), float("inf"))

    starting = asyncio.create_task(here.start(harm=hole))
    said = set()
    async with here.within(120, "ready"):
        while not starting.done():
            if here.operators:
                health, (ready, why) = (
                    (await here.operator.probe("/healthz"))[0],
                    await here.operator.probe("/readyz"),
                )
                said.add((health, ready, why))
            await asyncio.sleep(0.1)
    await starting

    assert any(
        health == 200 and ready == 503 and "is being listed" in why for health, ready, why in said
    )


async def test_its_log_names_the_message_on_each_line(here: World) -> None:
    await here.start("--log-format=json")
    await here.create("비밀\x1b[2J\n위조")
    await here.converges({"hello": "비밀\x1b[2J\n위조"})

    lines = [json.loads(line) for line in here.operator.log.read_text().splitlines()]
    made = [line for line in lines if "created Secret" in line["message"]]
    assert [(line["namespace"], line["name"]) for line in made] == [(here.namespace, "hello")]
    assert "비밀" not in here.operator.log.read_text()
