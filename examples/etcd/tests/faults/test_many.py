"""One cluster that does not answer slows down none of 199 others of the same operator.

CLUSTERS says how many there are. Each is a real etcd, of one member whose heart beats once a
second, so that two processors suffice. 200 of them take 10 GB of memory: on a disk they would
reserve 25 GB, so their volumes are on a file system that cannot reserve.
"""

import os
import statistics
import time
from collections.abc import AsyncIterator
from pathlib import Path
from signal import Signals

import pytest
from kopf_kit.rig import tools, versions
from kopf_kit.testing.kubelet import Trouble
from kopf_kit.testing.world import World

from tests.faults.nodes import Nodes, mounted
from tests.faults.test_operator import SUBJECTS, VERSION

__all__ = ["SUBJECTS"]
pytestmark = pytest.mark.long

NUMBER = int(os.environ.get("CLUSTERS") or "200")
NAMES = tuple(f"m{number}" for number in range(NUMBER))
#: Rounds, every other one with the cluster that does not answer, and steps in each.
ROUNDS, STEPS = 10, 12
#: How much more a step may cost then.
MAX_RATIO = 1.2


@pytest.fixture
async def nodes(here: World, tmp_path: Path) -> AsyncIterator[Nodes]:
    here.kubelet.arm(Trouble.LOST)  # the suite's own: `Nodes` takes its place
    minor = versions.NEWEST_ETCD
    etcd = {minor: tools.etcd(minor, "etcd")[0]}
    members = tuple(f"{name}-1" for name in NAMES)
    (place := tmp_path / "volumes").mkdir()
    working = Nodes(here.cluster, here.namespace, tmp_path, etcd, members).working()
    with mounted(place, "-t", "ramfs", "ramfs") as volumes:
        async with working as running:
            running.between, running.pause, running.volumes = False, 2.0, volumes
            yield running


async def step(here: World, name: str) -> float:
    """Return the seconds that an edit takes: it is paused, and then looked at again."""
    began = time.monotonic()
    for paused, reason in ((True, "Paused"), (False, "Healthy")):
        await here.cluster.patch(here.object(name), {"spec": {"paused": paused}})
        await here.until_reason(reason, name, 120)
    return time.monotonic() - began


async def test_one_that_does_not_answer_slows_down_no_other(here: World, nodes: Nodes) -> None:
    await here.start()
    options = {"heartbeatInterval": 1000, "electionTimeout": 5000}
    for name in NAMES:
        spec = {"size": 1, "version": VERSION, "options": options}
        body = {**here.subject.manifest("1", name), "spec": spec}
        await here.cluster.ask("POST", here.objects, body)
    for name in NAMES:
        await here.until_reason("Healthy", name, 1200)

    usual: list[float] = []
    slow: list[float] = []
    for number in range(ROUNDS):
        stopped = number % 2 == 1
        nodes.running("m0-1").send(Signals.SIGSTOP if stopped else Signals.SIGCONT)
        await here.until_reason("Unreachable" if stopped else "Healthy", "m0", 120)
        for name in NAMES[1 + number :: len(NAMES) // STEPS][:STEPS]:
            (slow if stopped else usual).append(await step(here, name))

    ratio = statistics.median(slow) / statistics.median(usual)
    print(
        f"{NUMBER} clusters, a step takes {statistics.median(usual):.2f} s, and while one does not "
        f"answer {statistics.median(slow):.2f} s: {ratio:.2f} times as long"
    )
    assert ratio <= MAX_RATIO
