"""Sequences of declared states: each ends as a fresh start with its last state would."""

import asyncio
import itertools
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kopf_kit.testing import conformance
from kopf_kit.testing.conformance import essential
from kopf_kit.testing.requests import RefusedError
from kopf_kit.testing.world import World


@dataclass(frozen=True)
class Disturb:
    """A step that no user takes."""

    name: str


TEXTS = ("하나", "둘", "$(셋)")
#: Scenarios that disturb what is there; where an operator has none of a name, nothing happens.
DISTURB = ("heal", "evict", "alter", "status")

#: A step: declare a text, declare nothing, or disturb what is there.
STEP = st.one_of(
    st.sampled_from(TEXTS), st.none(), st.sampled_from(DISTURB).map(Disturb), st.just("wait")
)


_numbers = itertools.count()


@essential
async def test_there_and_back_again(here: World) -> None:
    await here.start()
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)
    before = here.parent.essence(await here.cluster.ask("GET", here.child()))

    await here.edit("둘")
    await here.converges({"hello": "둘"}, quiet=0.1)
    await here.edit("하나")
    await here.converges({"hello": "하나"})

    assert here.parent.essence(await here.cluster.ask("GET", here.child())) == before


@settings(
    max_examples=25,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=st.lists(STEP, min_size=1, max_size=8))
@example(steps=[TEXTS[0], "wait", Disturb("heal")])  # an operator that heals nothing always fails
async def test_any_sequence_ends_as_a_fresh_start_does(here: World, steps: list[Any]) -> None:
    """The failing sequence is shortened to the shortest that fails."""
    if not here.operators:
        await here.start()
    name, text = f"sequence-{next(_numbers):04}", None
    for step in steps:
        text = await take(here, name, text, step)
    if text is None:
        await until_gone(here, name)
        return

    await here.wait_until_right(name, text)
    fresh = f"fresh-{next(_numbers):04}"
    await here.create(text, fresh)
    await here.wait_until_right(fresh, text)
    children = [await here.cluster.ask("GET", here.child(parent)) for parent in (name, fresh)]
    essences = [here.parent.essence(child) for child in children]
    assert essences[0] == essences[1]


async def take(here: World, name: str, text: str | None, step: str | Disturb | None) -> str | None:
    """Take a step; return the text that is declared then."""
    if step is None:
        await here.delete(name)
        return None
    if step == "wait":
        if text is not None:
            await here.wait_until_right(name, text)
        return text
    if isinstance(step, str):
        await (here.create if text is None else here.edit)(step, name)
        return step
    try:
        if step.name in here.parent.writes:
            await conformance.scenario(here.parent, step.name).act(here, name)
    except RefusedError as error:  # nothing there to disturb, or it has just changed
        if error.status not in (404, 409, 422):
            raise
    return text


async def until_gone(here: World, name: str) -> None:

    async with here.within(60, f"{name} is gone"):
        while await here.cluster.find(here.child(name)) or await here.cluster.find(
            here.object(name)
        ):
            await asyncio.sleep(0.05)
