"""Ten thousand Messages: restarts in the middle, or large texts. NUMBER makes it fewer."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from signal import Signals

import pytest

from kopf_kit.project import documents
from kopf_kit.rig import paths
from kopf_kit.testing.requests import Raw
from kopf_kit.testing.world import World

NUMBER = int(os.environ.get("NUMBER", "10000"))
PATIENCE = 60 + NUMBER * 0.15  # seconds
#: As many bytes as a Message may have.
LARGE = ("x" * 32768, "🎉" * 8192)
VALUES = paths.CHECKOUT / "charts" / "message-operator" / "values.yaml"

pytestmark = [pytest.mark.long, pytest.mark.timeout(7200)]


async def test_ten_thousand_messages_with_restarts_in_the_middle(own_world: World) -> None:
    here, plane = own_world, own_world.cluster.plane
    names = [f"m{number:05}" for number in range(NUMBER)]
    operator = await here.start("--log-level=info")

    await _all(names, lambda name: here.create("하나", name))
    await _until(here, lambda pods: len(pods) > NUMBER // 3, "a third is made")
    operator.send(Signals.SIGKILL)
    await _right(here, names, "하나", "made")
    posts = sum(write.method == "POST" and write.path.endswith("/pods") for write in here.writes)
    assert posts <= NUMBER + 64, here.story(f"{posts} Pods posted")

    await _all(names, lambda name: here.edit("둘", name))
    plane.stop("kube-apiserver")
    plane.start_api_server()
    await asyncio.to_thread(plane.wait)
    await _right(here, names, "둘", "edited")

    began = time.monotonic()
    operator.send(Signals.SIGKILL)
    async with here.within(PATIENCE, "ready again"):
        await asyncio.sleep(1)
        await operator.wait_until_ready()
    before = len(here.relevant())
    ready = time.monotonic() - began
    await asyncio.sleep(5)
    late = here.relevant()[before:]
    assert late == [], here.story("all is in order, and it writes")
    resident = operator.memory() >> 20
    print(f"{NUMBER} Messages: ready after {ready:.1f} s, {resident} MiB")  # noqa: T201

    await _all(names, lambda name: here.delete(name))
    operator.send(Signals.SIGKILL)
    await _until(here, lambda pods: not pods, "all are gone")


async def test_ten_thousand_large_texts_fit_into_the_chart_s_limit(own_world: World) -> None:
    here = own_world
    limit: str = documents.load(VALUES.read_text())["resources"]["limits"]["memory"]
    assert limit.endswith("Mi")
    wanted = {f"m{number:05}": LARGE[number % 2] for number in range(NUMBER)}
    operator = await here.start("--log-level=info")
    peaks = {}

    await _all(wanted, lambda name: here.create(wanted[name], name))
    async with here.within(PATIENCE * 6, "all are made"):
        while here.children_made() < NUMBER:
            await asyncio.sleep(1)
    await here.converges(wanted, patience=PATIENCE * 2, quiet=3)
    peaks["as they come"] = operator.memory("VmHWM")
    await here.restart()
    await here.quiet(3)
    peaks["as it starts"] = operator.memory("VmHWM")

    told = ", ".join(f"{peak / 2**20:.0f} MiB {when}" for when, peak in peaks.items())
    print(f"{NUMBER} Messages with 32 KiB each: at most {told}")  # noqa: T201
    assert max(peaks.values()) < int(limit.removesuffix("Mi")) * 2**20, told


async def _all(names: Iterable[str], do: Callable[[str], Awaitable[object]]) -> None:
    limit = asyncio.Semaphore(32)

    async def one(name: str) -> None:
        async with limit:
            await do(name)

    await asyncio.gather(*map(one, names))


async def _until(here: World, enough: Callable[[list[Raw]], bool], what: str) -> None:
    began = time.monotonic()
    async with here.within(PATIENCE * 3, what):
        while not enough(await here.cluster.items(here.children)):
            await asyncio.sleep(2)
    print(f"{what}: {time.monotonic() - began:.0f} s")  # noqa: T201


async def _right(here: World, names: list[str], text: str, what: str) -> None:
    began = time.monotonic()
    await here.converges(dict.fromkeys(names, text), patience=PATIENCE, quiet=3)
    print(f"{what}: {time.monotonic() - began:.0f} s")  # noqa: T201
