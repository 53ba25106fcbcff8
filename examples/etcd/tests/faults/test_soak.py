"""An hour of random orders and faults: nothing that was acknowledged is lost. MINUTES shortens it.

In each round, a new cluster of the same name is made, disturbed under load, checked and deleted,
while the operator is killed all the time. Backups are taken, and restored in place of what there
is, two at once, too: the newest backup of each cluster stays, unless somebody says otherwise, and
an EtcdRestore of a deleted cluster is refused. In some rounds, TLS is added while all this goes
on, then for clients, too, and its leaves and its authority are renewed. SEED repeats the same
choices, ORDERS names those that are tried, and the operator is killed after EACH of so many writes.
"""

import asyncio
import contextlib
import itertools
import os
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from signal import Signals
from typing import Any

import aiohttp
import pytest
from kopf_kit.rig import versions
from kopf_kit.testing.requests import Raw, RefusedError
from kopf_kit.testing.world import World

from tests.faults import test_members as harms
from tests.faults.conftest import Cluster
from tests.faults.history import Clients, Operation, Write
from tests.faults.nodes import NAME
from tests.faults.test_identity import back_up, encoded
from tests.faults.test_operator import SUBJECTS, VERSION, kill_after_each_write
from tests.faults.test_options import Certificates
from tests.faults.test_restores import cluster, create, create_claim, files

__all__ = ["SUBJECTS", "cluster"]
pytestmark = pytest.mark.long

SECONDS = float(os.environ.get("MINUTES") or "60") * 60
SEED = int(os.environ.get("SEED") or time.time())
#: Seconds of a round, and between two disturbances of it.
ROUND, PAUSE = 150.0, 4.0
KINDS = (
    *("size", "version", "template", "pod", "kill", "stop", "all", "severe"),
    *("hibernate", "label", "pause", "backup", "backup", "restore"),
    *("mistake", "alarm", "altered", "begin", "survivor"),
)
ORDERS = tuple((os.environ.get("ORDERS") or ",".join(KINDS)).split(","))
EACH = int(os.environ.get("EACH") or "7")
#: What is added to these in some rounds, and the part of the rounds in which it is.
TLS, OFTEN = ("tls",) * 4, 0.4
VERSIONS = (*(tag.removeprefix("v") for tag in versions.OLDER_ETCD.values()), VERSION)
SEVERE = (harms.volume_gone, harms.disk_emptied, harms.disk_corrupted, harms.node_lost)


NUMBERS = itertools.count()


def order(source: Raw) -> Raw:
    return {"cluster": NAME, "confirm": NAME, "source": source}


@dataclass
class Backup:
    """A backup, with what was done until it was taken, and later; None while that goes on."""

    taken: Raw
    past: tuple[list[Operation], list[Write]] | None = None

    @property
    def source(self) -> Raw:
        return {"backup": {"name": "daily", "entry": self.taken["name"]}}


@dataclass
class Soak:
    """The disturbances of a cluster, and how often each was tried."""

    here: World
    cluster: Cluster
    dice: random.Random
    store: Raw
    secrets: Certificates
    done: Counter[str] = field(default_factory=Counter)
    size: int = 3
    #: How far TLS has come: 0 is not at all, 1 among members, 2 is for clients, too.
    secured: int = 0
    #: The newest backup of this cluster, and those of former ones.
    newest: Backup | None = None
    former: list[Backup] = field(default_factory=list)
    #: The path of an EtcdRestore that the last cluster has left.
    stale: str = ""
    #: EtcdBackups that were begun and not waited for, and the clusters' uids.
    begun: list[str] = field(default_factory=list)
    uids: set[str] = field(default_factory=set)
    version: str = VERSION
    acknowledged: int = 0
    longest: float = 0.0

    async def round(self) -> None:
        """Make a cluster, disturb it under load, check it, and delete it."""
        cluster = self.cluster
        self.size, self.secured = self.dice.choice((1, 3, 5)), 0
        # Where TLS is added, nothing stands between the operator and etcd: it has no certificate.
        cluster.nodes.between = self.dice.random() > OFTEN
        self.version = self.dice.choice(VERSIONS)
        await self.secrets.present("old", self.secrets.texts[0])
        await cluster.create(self.size, version=self.version, storage={"whenDeleted": "Delete"})
        etcd = await self.here.cluster.ask("GET", self.here.object(NAME))
        self.uids.add(etcd["metadata"]["uid"])
        await cluster.settles(self.size, patience=600)
        cluster.clients = Clients(cluster.nodes.session, cluster.url_of_any)
        cluster.clients.start()
        if self.stale:
            await self.ends([self.stale], "Refused")
        until = time.monotonic() + min(ROUND, SECONDS)
        while time.monotonic() < until:
            await asyncio.sleep(self.dice.uniform(0, PAUSE))
            await self.disturb()
        await asyncio.sleep(PAUSE)  # then the status knows of the last disturbance
        await cluster.settles(self.size, patience=600)
        await self.check()
        await self.look_at_begun()
        self.stale = ""
        if self.newest is not None:
            self.former.append(self.newest)
            if self.dice.random() < 0.5:
                await self.leave_a_restore(self.newest)
            self.newest = None
        if self.dice.random() < 0.5:
            await self.begin()
        await self.here.delete(NAME)
        self.repair()
        async with self.here.within(300, "nothing is left"):
            while await self.claims():  # noqa: ASYNC110
                await asyncio.sleep(0.2)

    def repair(self) -> None:
        """Have lost nodes back: what replaces all data waits until no Pod may write any more."""
        for container in self.cluster.nodes.containers.values():
            container.lost = False
            container.send(Signals.SIGCONT)

    async def claims(self) -> list[str]:
        claims = await self.here.cluster.items(self.cluster.nodes.path("persistentvolumeclaims"))
        names = [claim["metadata"]["name"] for claim in claims]
        return [name for name in names if name.startswith("data-")]

    async def check(self) -> None:
        """Check what the clients have seen, and that all is there that can be restored."""
        clients = self.cluster.clients
        before = sum(call.value in {w[2] for w in clients.past} for call in clients.operations)
        history = await self.cluster.check()
        self.acknowledged += clients.acknowledged - before
        self.longest = max(self.longest, clients.longest)
        if self.newest is not None and self.newest.past is None:
            self.newest.past = clients.operations, history
        if self.former:
            there = await files(self.here, self.cluster)
            assert {backup.taken["name"] for backup in self.former} <= there

    # --- backups and restores -------------------------------------------------------------------

    async def back_up(self) -> None:
        discard = []
        if len(self.former) > 2 and self.dice.random() < 0.3:
            gone = self.former.pop(self.dice.randrange(len(self.former)))
            discard.append(gone.taken["clusterId"])
        status = await back_up(self.here, self.store, last=2, discard=discard)
        self.newest = Backup(status["backups"][0])

    async def begin(self) -> None:
        """Have a backup taken, and do not wait for it: the cluster may stop, or go, or be another.

        One that begins in the last second may be of the next cluster.
        """
        number = next(NUMBERS)
        spec: Raw = {"cluster": NAME, "store": self.store}
        self.begun.append(await create(self.here, "EtcdBackup", f"begun-{number}", **spec))

    async def look_at_begun(self) -> None:
        """Wait until all backups that were begun are there, or have failed and say why."""
        async with self.cluster.within(1800, f"{self.begun} have ended"):
            for path in self.begun:
                ready: Raw = {}
                while ready.get("reason") not in ("Complete", "BackupFailed"):
                    await asyncio.sleep(0.2)
                    status = (await self.here.cluster.ask("GET", path)).get("status") or {}
                    ready = next(iter(status.get("conditions", ())), {})
                taken = status.get("backups", [])
                assert {backup["clusterUid"] for backup in taken} <= self.uids
                there = await files(self.here, self.cluster)
                assert {backup["name"] for backup in taken} <= there
                assert taken or status["error"]
                self.done[ready["reason"]] += 1
                await self.here.cluster.remove(path)
        self.begun.clear()

    async def alter(self) -> None:
        """Cut a backup by one byte, or change one, and have it restored: nothing happens."""
        if self.newest is None:
            await self.back_up()
        assert self.newest is not None
        claims = await self.here.cluster.items(self.cluster.nodes.path("persistentvolumeclaims"))
        [claim] = [claim for claim in claims if claim["metadata"]["name"] == "backups"]
        file = self.cluster.nodes.data(claim) / self.newest.taken["name"]
        whole = file.read_bytes()
        place = self.dice.randrange(len(whole))
        other = bytes([whole[place] ^ 1]) + whole[place + 1 :] if self.dice.random() < 0.5 else b""
        file.write_bytes((whole[:place] if other else whole[:-1]) + other)
        name = f"altered-{next(NUMBERS)}"
        path = await create(self.here, "EtcdRestore", name, **order(self.newest.source))
        await self.ends([path], "Refused")
        file.write_bytes(whole)

    async def survive(self) -> None:
        """Lose most members, go on with one that is left, and have the lost ones come back."""
        here, cluster = self.here, self.cluster
        status = await cluster.settles(self.size, patience=600)
        if self.size < 3:
            return
        await cluster.clients.stop()
        self.repair()
        names = [member["name"] for member in status["members"]]
        lost = self.dice.sample(names, self.size // 2 + 1)
        containers = [cluster.container(name) for name in lost]
        for container in containers:
            container.lost = True
            container.send(Signals.SIGSTOP)
        spec: Raw = {"cluster": NAME, "confirm": NAME, "source": {"survivor": {}}}
        await cluster.until("Available", "False", "QuorumLost", patience=120)
        path = await create(here, "EtcdRestore", f"survives-{next(NUMBERS)}", **spec)
        for name in lost:  # a person says so, because their nodes cannot
            now = {"gracePeriodSeconds": 0}
            await here.cluster.ask("DELETE", cluster.nodes.path("pods", name), now)
        await self.ends([path], "Complete")
        for container in containers:
            container.send(Signals.SIGCONT)
        await asyncio.sleep(self.dice.uniform(0, 10))
        for container in containers:
            container.lost = False
        cluster.clients.start()
        self.newest = None if self.newest is None or self.newest.past is None else self.newest

    async def restore(self) -> None:
        """Replace the data with a backup, and check that this is what is there."""
        here, cluster = self.here, self.cluster
        if self.newest is None:
            await self.back_up()
        assert self.newest is not None
        for version in VERSIONS[VERSIONS.index(self.version) :]:  # a backup may be of the last one
            await cluster.edit(version=version)
            await cluster.settles(self.size, patience=600)
        self.version = VERSION
        await self.check()
        sources = [(self.newest, self.newest.source)]
        if self.former:
            other = self.dice.choice(self.former)
            store = {"store": self.store, "name": other.taken["name"]}
            sources.append((other, {"store": store}))
            self.dice.shuffle(sources)
        self.repair()
        orders = sources[: self.dice.randint(1, 2)]
        paths = [
            await create(here, "EtcdRestore", f"{letter}-{next(NUMBERS)}", **order(source))
            for letter, (_, source) in zip("ab", orders, strict=False)
        ]
        phases = await self.ends(paths, "Complete", "Refused")
        assert phases.count("Complete") == 1, phases
        await cluster.settles(self.size, patience=600)
        backup = orders[phases.index("Complete")][0]
        assert backup.past is not None
        await self.goes_on(backup, *backup.past)

    async def goes_on(self, backup: Backup, operations: list[Operation], all_: list[Write]) -> None:
        """Check what was restored, and let the clients go on from there."""
        clients, url = self.cluster.clients, self.cluster.url_of_any()
        body = {"key": "AA==", "range_end": "AA=="}
        answer = await clients.ask(f"{url}/v3/kv/range", body)
        pairs = {(int(pair["mod_revision"]), pair["value"]) for pair in answer.get("kvs", ())}
        last = max((revision for revision, _ in pairs), default=1)
        past = [write for write in all_ if write[0] <= last]
        kept = {key: (revision, encoded(value)) for revision, key, value in past}
        assert pairs == {*kept.values()}, "what the backup has"
        assert last >= int(backup.taken["revision"])
        clients.go_back(operations, past, int(answer["header"]["revision"]))
        clients.start()

    async def ends(self, paths: list[str], *phases: str) -> list[str]:
        """Wait until all EtcdRestores have one of the phases; return their phases."""
        async with self.cluster.within(1800, f"{paths} {phases}"):  # Jobs are slow if all are
            while True:
                objects = [await self.here.cluster.ask("GET", path) for path in paths]
                now = [str((it.get("status") or {}).get("phase")) for it in objects]
                if all(phase in phases for phase in now):
                    return now
                await asyncio.sleep(0.2)

    async def leave_a_restore(self, backup: Backup) -> None:
        """Create an EtcdRestore; return as soon as it knows what it is for."""
        name = f"stale-{next(NUMBERS)}"
        self.stale = await create(self.here, "EtcdRestore", name, **order(backup.source))
        async with self.here.within(60, "it knows its cluster"):
            status: Any = {}
            while "basis" not in status:
                await asyncio.sleep(0.05)
                status = (await self.here.cluster.ask("GET", self.stale)).get("status") or {}

    async def secure(self) -> None:
        """Add TLS while all goes on; then have clients use it alone.

        Then renew the leaves, let them expire for a while, and replace their authority in turn.
        """
        self.secured += 1
        if self.secured > 2:
            old, new = self.secrets.texts
            turns = [("old", old), ("", old), ("old", old + new), ("new", old + new), ("new", new)]
            turns += [("new", old + new), ("old", old + new)]
            signer, trusted = turns[(self.secured - 3) % len(turns)]
            await self.cluster.settles(self.size, patience=600)
            if not signer:
                await self.secrets.present("old", trusted, days=0)
                await asyncio.sleep(self.dice.uniform(0, 10))
            await self.secrets.present(signer or "old", trusted)
            self.cluster.clients.options["ssl"] = self.secrets.context()
            return
        if self.secured == 2:
            await self.cluster.settles(self.size, patience=600)
            self.cluster.clients.options = self.secrets.options
        names = {"peerSecret": "peers", "clientSecret": "clients"}
        await self.cluster.edit(tls={**names, "plainClients": self.secured == 1})

    async def change(self, version: str) -> None:
        """Have another version, unless it leaps over one."""
        with contextlib.suppress(RefusedError):
            await self.cluster.edit(version=version)
            self.version = version

    async def alarm(self, member: str) -> None:
        """Have a member say that it has no space, which blocks all writes."""
        clients, url = self.cluster.clients, self.cluster.url(member)
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            id_ = (await clients.ask(f"{url}/v3/maintenance/status", {}))["header"]["member_id"]
            body = {"action": "ACTIVATE", "alarm": "NOSPACE", "memberID": id_}
            await clients.ask(f"{url}/v3/maintenance/alarm", body)

    # --- disturbances ---------------------------------------------------------------------------

    async def disturb(self) -> None:
        """Edit what is wanted, or break something."""
        cluster, dice = self.cluster, self.dice
        kind = dice.choice(ORDERS if cluster.nodes.between else ORDERS + TLS)
        names = cluster.ready()
        match kind:
            case "size":
                self.size = dice.randint(1, 5)
                await cluster.edit(size=self.size)
            case "version":
                await self.change(dice.choice(VERSIONS))
            case "mistake" if names:
                container, before = cluster.container(dice.choice(names)), self.version
                container.send(Signals.SIGSTOP)
                for version in (dice.choice(VERSIONS), before):
                    await self.change(version)
                    await asyncio.sleep(dice.uniform(0, 5))
                container.send(Signals.SIGCONT)
            case "alarm" if names:
                await cluster.clients.stop()  # what is refused would count as unknown
                self.size = dice.randint(1, 5)
                await self.alarm(dice.choice(names))
                await cluster.edit(size=self.size)
                await cluster.settles(self.size, patience=600)
                cluster.clients.start()
            case "altered":
                await self.alter()
            case "begin":
                await self.begin()
            case "survivor":
                await self.survive()
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
                await self.begin()
                lost = await cluster.settles(self.size, 600) if dice.random() < 0.5 else None
                await cluster.edit(size=0)
                await asyncio.sleep(dice.uniform(0, 10))
                if lost is not None and self.size > 2:
                    await cluster.until("Ready", "True", "Hibernated", patience=300)
                    claim = await cluster.claim(dice.choice(lost["members"])["name"])
                    path = cluster.nodes.path("persistentvolumeclaims", claim["metadata"]["name"])
                    await self.here.cluster.remove(path)
                await cluster.edit(size=self.size)
            case "label" if names:
                label = {"metadata": {"labels": {"etcd.example.com/cluster": None}}}
                path = cluster.nodes.path("pods", dice.choice(names))
                with contextlib.suppress(RefusedError):  # it is gone
                    await self.here.cluster.patch(path, label)
            case "pause":
                await cluster.edit(paused=True)
                await harms.all_killed(cluster, names[:1])
                await asyncio.sleep(dice.uniform(0, 5))
                await cluster.edit(paused=False)
            case "backup":
                await self.back_up()
            case "restore":
                await self.restore()
            case "tls":
                await self.secure()
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
    await here.start()
    kill_after_each_write(here, cluster, EACH)
    store, rounds, end = await create_claim(here, cluster), 0, time.monotonic() + SECONDS
    secrets = Certificates(here, cluster)
    await secrets.present("old", secrets.texts[0], create=True)
    soak = Soak(here, cluster, random.Random(SEED), store, secrets)  # noqa: S311
    while time.monotonic() < end or not rounds:
        await soak.round()
        rounds += 1
        print(f"round {rounds}: {soak.acknowledged} writes, {dict(soak.done)}", flush=True)
        del here.writes[:]  # the story of an hour would fill this process
    print(
        f"{rounds} clusters, {soak.acknowledged} acknowledged writes, none lost; the longest pause "
        f"{soak.longest:.1f} s; the operator ended {len(here.operator.exits)} times; "
        f"{dict(soak.done)}"
    )
    assert soak.acknowledged > rounds * 100
