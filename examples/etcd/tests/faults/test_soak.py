"""An hour of random edits and faults: nothing that was acknowledged is lost. MINUTES shortens it.

In each round, a new cluster of the same name is made, disturbed under load, checked and deleted,
while the operator is killed all the time. SEED repeats the same choices.
"""

import asyncio
import contextlib
import os
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from signal import Signals

import pytest
from kopf_kit.testing.requests import RefusedError
from kopf_kit.testing.world import World

from tests.faults import test_members as harms
from tests.faults.conftest import Cluster
from tests.faults.history import Clients
from tests.faults.nodes import NAME
from tests.faults.test_deletion import OLDER
from tests.faults.test_operator import SUBJECTS, VERSION, kill_after_each_write

__all__ = ["SUBJECTS"]
pytestmark = pytest.mark.long

SECONDS = float(os.environ.get("MINUTES") or "60") * 60
SEED = int(os.environ.get("SEED") or time.time())
#: Seconds of a round, and between two disturbances of it.
ROUND, PAUSE = 150.0, 4.0
KINDS = (
    *("size", "version", "template", "pod", "kill", "stop", "all", "severe"),
    *("hibernate", "label"),
)
SEVERE = (harms.volume_gone, harms.disk_emptied, harms.disk_corrupted, harms.node_lost)


@dataclass
class Soak:
    """The disturbances of a cluster, and how often each was tried."""

    here: World
    cluster: Cluster
    dice: random.Random
    done: Counter[str] = field(default_factory=Counter)
    size: int = 3

    async def round(self) -> None:
        """Make a cluster, disturb it under load, check it, and delete it."""
        cluster, until = self.cluster, time.monotonic() + min(ROUND, SECONDS)
        self.size = self.dice.choice((1, 3, 5))
        version = self.dice.choice((OLDER, VERSION))
        await cluster.create(self.size, version=version, storage={"whenDeleted": "Delete"})
        await cluster.settles(self.size, patience=300)
        cluster.clients = Clients(cluster.nodes.session, cluster.url_of_any)
        cluster.clients.start()
        while time.monotonic() < until:
            await asyncio.sleep(self.dice.uniform(0, PAUSE))
            await self.disturb()
        await asyncio.sleep(PAUSE)  # then the status knows of the last disturbance
        await cluster.settles(self.size, patience=600)
        await cluster.check()
        await self.here.delete(NAME)
        for container in cluster.nodes.containers.values():
            container.lost = False  # their nodes are back
            container.send(Signals.SIGCONT)
        async with self.here.within(300, "nothing is left"):
            claims = cluster.nodes.path("persistentvolumeclaims")
            while await self.here.cluster.items(claims):  # noqa: ASYNC110
                await asyncio.sleep(0.2)

    async def disturb(self) -> None:
        """Edit what is wanted, or break something."""
        cluster, dice = self.cluster, self.dice
        kind = dice.choice(KINDS)
        names = cluster.ready()
        match kind:
            case "size":
                self.size = dice.randint(1, 5)
                await cluster.edit(size=self.size)
            case "version":
                await cluster.edit(version=dice.choice((OLDER, VERSION)))
            case "template":
                await cluster.edit(pod={"labels": {"turn": str(dice.randrange(100))}})
            case "pod" if names:
                await harms.pod_gone(cluster, [dice.choice(names)])
            case "kill" if names:
                cluster.container(dice.choice(names)).send(Signals.SIGKILL)
            case "stop" if names:
                container = cluster.container(dice.choice(names))
                container.send(Signals.SIGSTOP)
                await asyncio.sleep(dice.uniform(1, 6))
                container.send(Signals.SIGCONT)
            case "hibernate":
                await cluster.edit(size=0)
                await asyncio.sleep(dice.uniform(0, 10))
                await cluster.edit(size=self.size)
            case "label" if names:
                label = {"metadata": {"labels": {"etcd.example.com/cluster": None}}}
                path = cluster.nodes.path("pods", dice.choice(names))
                with contextlib.suppress(RefusedError):  # it is gone
                    await self.here.cluster.patch(path, label)
            case "all":
                await harms.all_killed(cluster, names)
            case "severe":
                # Two losses at once may cost the quorum, for which there is no cure here.
                status = await cluster.settles(self.size, patience=600)
                if self.size < 3:
                    return
                harm = dice.choice(SEVERE)
                kind, members = harm.__name__, [member["name"] for member in status["members"]]
                await harm(cluster, dice.sample(members, 1))
                async with self.here.within(60, kind):
                    while len(cluster.ready()) == len(members):  # noqa: ASYNC110
                        await asyncio.sleep(0.02)
                await cluster.settles(self.size, patience=600)
        self.done[kind] += 1


async def test_an_hour_of_random_faults_loses_nothing(
    here: World, cluster: Cluster, older_etcd: dict[str, Path]
) -> None:
    print(f"SEED={SEED}")
    cluster.nodes.etcd |= older_etcd
    await cluster.clients.stop()
    await here.start()
    kill_after_each_write(here, cluster, 7)
    soak, end = Soak(here, cluster, random.Random(SEED)), time.monotonic() + SECONDS  # noqa: S311
    rounds = acknowledged = 0
    longest = 0.0
    while time.monotonic() < end or not rounds:
        await soak.round()
        rounds += 1
        acknowledged += cluster.clients.acknowledged
        longest = max(longest, cluster.clients.longest)
        del here.writes[:]  # the story of an hour would fill this process
    print(
        f"{rounds} clusters, {acknowledged} acknowledged writes, none lost; the longest pause "
        f"{longest:.1f} s; the operator ended {len(here.operator.exits)} times; {dict(soak.done)}"
    )
    assert acknowledged > rounds * 100
