"""A version from its first release to its last one, on a real API server, while somebody writes.

Each release changes the CRD before the operator, as Helm does. NUMBER says how many objects there
are.
"""

import asyncio
import itertools
import os
import random
from collections.abc import Awaitable, Iterable
from typing import Any

import aiohttp
import pytest

from faults import fairs
from faults.test_migration import MIGRATE, rights, stored_versions
from faults.test_versions import flags as converting
from kopf_kit.crd import generated
from kopf_kit.testing.requests import Raw, RefusedError
from kopf_kit.testing.under_test import Subject
from kopf_kit.testing.world import World
from kopf_runtime.declaring.kinds import Kind

# The tier `faults` has its parts: test_versions.py and test_migration.py.
pytestmark = [pytest.mark.api, pytest.mark.long, pytest.mark.timeout(7200)]
flags = converting
NUMBER = int(os.environ.get("NUMBER", "1000"))
ALPHA = Kind("example.dev", "v1alpha1", "fairs", "Fair")
NEW = ALPHA._replace(version="v1")
DEPLOYMENTS = Kind("apps", "v1", "deployments", "Deployment")


class Fairs(Subject):
    """The operator of fairs.py, at first in its first release."""

    program = (fairs.__file__, str(fairs.FIRST))
    manager = fairs.release(fairs.FIRST)
    creates = DEPLOYMENTS

    def spec(self, text: str) -> Raw:
        return {"note": text}


@pytest.fixture
def subject() -> Subject:
    return Fairs()


async def upgrade(here: World, release: int, *more: str) -> None:
    """Change the CRD, then the operator."""
    here.subject.program = (fairs.__file__, str(release))
    here.subject.manager = fairs.release(release)
    await change_crd(here)
    await here.operator.stop()
    here.operators.clear()
    await here.start(*more)


async def change_crd(here: World) -> None:
    versions = generated.of(here.subject.controller)["spec"]["versions"]
    await here.cluster.patch(here.subject.crd, {"spec": {"versions": versions}})


class Writer:
    """Writes notes all the time, in any version that is served, and knows what was acknowledged."""

    def __init__(self, here: World, names: list[str]) -> None:
        self._here, self._names = here, names
        self.notes: dict[str, str] = {}
        self.versions: set[str] = set()
        self.ends = False
        self._random = random.Random(1)  # noqa: S311 (repeatable)

    async def run(self) -> None:
        for number in itertools.count():
            if self.ends:
                return
            name, note = self._random.choice(self._names), str(number)
            while not (version := await self._written(name, {"note": note})):
                await asyncio.sleep(0.05)  # it may have been written: no other value follows
            self.notes[name] = note
            self.versions.add(version)
            await asyncio.sleep(0.01)

    async def _written(self, name: str, spec: Raw) -> str:
        kind = self._random.choice((ALPHA, NEW))
        try:
            await self._here.cluster.patch(kind.path(self._here.namespace, name), {"spec": spec})
        except (RefusedError, aiohttp.ClientError, TimeoutError):
            return ""
        return kind.version


async def together(calls: Iterable[Awaitable[Any]]) -> None:
    limit = asyncio.Semaphore(32)

    async def one(call: Awaitable[Any]) -> None:
        async with limit:
            await call

    await asyncio.gather(*map(one, calls))


async def by_name(here: World, kind: Kind) -> dict[str, Raw]:
    found = await here.cluster.items(kind.path(here.namespace))
    return {raw["metadata"]["name"]: raw for raw in found}


async def children_after_the_first(here: World) -> int:
    """Count them without reading them: to list all again and again would take minutes."""
    first = await here.cluster.ask("GET", f"{DEPLOYMENTS.path(here.namespace)}?limit=1")
    return int(first["metadata"].get("remainingItemCount", 0))


async def test_a_version_comes_is_migrated_and_goes_and_nothing_is_lost_or_restarted(
    here: World, flags: tuple[str, ...]
) -> None:
    cluster, path = here.cluster, ALPHA.path(here.namespace)
    await here.grant(rights(here.subject.user, ALPHA))
    await here.start(*flags)
    names = [f"fair-{each:05}" for each in range(NUMBER)]
    head = {"apiVersion": ALPHA.api_version, "kind": "Fair"}
    await together(
        cluster.ask("POST", path, {**head, "metadata": {"name": name}, "spec": {"seats": seats}})
        for seats, name in enumerate(names)
    )
    async with here.within(60 + NUMBER / 4, "all have a child"):
        while await children_after_the_first(here) < NUMBER - 1:
            await asyncio.sleep(1)
    children = await by_name(here, DEPLOYMENTS)
    objects = await by_name(here, ALPHA)
    writer = Writer(here, names)
    writing = asyncio.create_task(writer.run())

    await upgrade(here, fairs.BOTH, *flags)
    await cluster.serves(NEW, 60 + NUMBER / 50)
    red = names[::10]
    await together(
        cluster.patch(NEW.path(here.namespace, name), {"spec": {"colour": "red"}}) for name in red
    )

    await upgrade(here, fairs.STORED, *flags)
    here.subject.manager = fairs.release(fairs.LAST)
    with pytest.raises(RefusedError, match="storedVersions"):  # too early
        await change_crd(here)
    await upgrade(here, fairs.STORED, *MIGRATE, *flags)
    async with here.within(120 + NUMBER / 2, "migrated"):
        while await stored_versions(here) != [NEW.version]:
            await asyncio.sleep(0.2)

    await upgrade(here, fairs.UNSERVED, *flags)
    await upgrade(here, fairs.LAST, *flags)
    async with here.within(60, "written after the last release"):
        before = len(writer.notes)
        while len(writer.notes) < min(before + 5, NUMBER):
            await asyncio.sleep(0.05)
    writer.ends = True
    await writing

    assert writer.versions == {ALPHA.version, NEW.version}
    after = await by_name(here, NEW)
    assert after.keys() == objects.keys()
    for places, name in enumerate(names):
        spec = {"places": places, "colour": "red" if name in red else ""}
        assert after[name]["spec"] | {"note": ""} == {**spec, "note": ""}
        assert after[name]["metadata"]["uid"] == objects[name]["metadata"]["uid"]
    notes = {name: after[name]["spec"]["note"] for name in writer.notes}
    assert notes == writer.notes
    now = await by_name(here, DEPLOYMENTS)
    for name, child in children.items():
        assert now[name]["metadata"]["uid"] == child["metadata"]["uid"]
        assert now[name]["spec"] == child["spec"]
        # A rollout would have made another one, also if it was taken back.
        assert now[name]["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
    await together(cluster.remove(NEW.path(here.namespace, name)) for name in names)
