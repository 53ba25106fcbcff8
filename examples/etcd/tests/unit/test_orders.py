"""Random orders on a model: what is recorded for one EtcdCluster acts for no other of its name.

A cluster is deleted and created again, backed up, restored (twice at once), paused, upgraded,
enlarged and full, gets TLS and hibernates; calls take effect late, steps are lost, and each
controller sees the others' objects as they were a while ago. The functions that decide are the
operator's: `decide`, `recover`, `news` and `surplus`. What is restorable stays restorable until
somebody says otherwise; each restore acts for the cluster that it was accepted for, alone; and in
the end all is as wanted.
"""

import dataclasses
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from etcd_operator import agent, restores, stored
from etcd_operator.client import Listed
from etcd_operator.decide import Do, Seen, Step, Wanted, decide, meanwhile
from etcd_operator.jobs import Course
from etcd_operator.kinds import Recovery, Status, basis
from etcd_operator.recovery import Order, recover
from etcd_operator.stored import Report, Taken
from tests.unit.test_backups import TAKEN
from tests.unit.test_walk import TLS, VERSIONS, World

STORE = stored.Store(volume=stored.Claim(claim="backups"))
KEEP, SOON = 2, 40
BORN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Etcd(World):
    """An EtcdCluster, its volumes, which may be full, and what was written to it."""

    wanted: Wanted = field(default_factory=lambda: Wanted(1, "3.6.16", "t1"))
    content: str = ""
    paused: bool = False
    #: What is asked for, what each volume has, and what the data need.
    size: int = 1
    sizes: dict[str, int] = field(default_factory=dict)
    needs: int = 1
    #: For how many looks additions only take effect later, and the members that are added then.
    slow: int = 0
    late: set[str] = field(default_factory=set)
    #: The first one of those EtcdClusters that have adopted its volumes.
    root: str = ""

    def runs(self, name: str) -> bool:
        return self.sizes.get(name, 0) >= self.needs and super().runs(name)

    def look(self) -> Seen:
        for name in self.volumes:
            self.sizes.setdefault(name, self.size)
        s = super().look()
        small = {name for name in self.volumes if self.sizes[name] < self.size}
        return dataclasses.replace(s, small=frozenset(small))

    def clear(self, s: Seen, step: Step) -> None:
        """Take a step of a recovery."""
        match step.do:
            case Do.LATCH:
                assert step.latched is not None
                self.latched = step.latched
            case Do.DELETE_VOLUME:
                self.members.pop(step.member, None)
                del self.volumes[step.member]
            case Do.DELETE_POD:
                del self.pods[step.member]
            case _:
                self.take(s, step)

    def fill(self, name: str, content: str, number: str) -> None:
        """Fill an empty volume with a backup, which is another cluster in etcd."""
        self.logs.add(self.volumes[name])
        url = TLS * self.wanted.tls
        self.members, self.id = {name: Listed(self.number(), name, url=url)}, f"{number:0>4}"
        self.content, self.late, self.downgrade, self.storage = content, set(), "", "3.6.0"


@dataclass
class Restore:
    """An EtcdRestore of a backup."""

    uid: str
    entry: str
    status: restores.Status = field(default_factory=restores.Status)
    #: Whether the check has ended; the Jobs that fill a volume, and which of them are done.
    checked: bool = False
    filled: set[str] = field(default_factory=set)
    #: For which EtcdCluster it was accepted, and after how many restores there.
    accepted: tuple[str, int] = "", 0

    @property
    def pending(self) -> bool:
        return not (self.status.complete or self.status.refused)

    @property
    def order(self) -> Order:
        status = self.status
        return Order(self.uid, self.uid, status.basis, status.accepted, filled=status.filled)


@dataclass
class Realm:
    """All objects of a namespace, and the store."""

    dice: random.Random
    cluster: Etcd | None = None
    restores: list[Restore] = field(default_factory=list)
    records: dict[str, Taken] = field(default_factory=dict)
    contents: dict[str, str] = field(default_factory=dict)
    #: The EtcdCluster of each backup; of each of these, its newest one, and the IDs it has had.
    roots: dict[str, str] = field(default_factory=dict)
    newest: dict[str, str] = field(default_factory=dict)
    ids: dict[str, set[str]] = field(default_factory=dict)
    discard: list[str] = field(default_factory=list)
    job: agent.Backup | None = None
    #: What there was at each turn, and the turn that each controller has seen.
    clusters: list[tuple[str, Status] | None] = field(default_factory=list)
    orders: list[list[Order]] = field(default_factory=list)
    seen: list[int] = field(default_factory=lambda: [0, 0])
    #: How many restores have ended in each EtcdCluster.
    ended: dict[str, int] = field(default_factory=dict)
    count: int = 0
    quiet: bool = False

    def number(self) -> str:
        self.count += 1
        return f"{self.count:x}"

    def lag(self, which: int, now: int) -> int:
        """Return the turn that a controller sees: it is never one before what it has seen."""
        late = 0 if self.quiet or self.dice.random() < 0.7 else self.dice.randrange(SOON)
        self.seen[which] = max(self.seen[which], now - late)
        return self.seen[which]

    # --- what people do -------------------------------------------------------------------------

    def create(self) -> None:
        number = self.number()
        size = self.dice.choice((1, 1, 2, 3))
        self.cluster = Etcd(Wanted(size, "3.6.16", "t1"), uid=f"u{number}", id=f"{number:0>4}")
        self.cluster.root, self.cluster.content = f"u{number}", f"empty {number}"

    def adopt(self, etcd: Etcd) -> None:
        """Delete the EtcdCluster, and create one that adopts its volumes."""
        recovery = etcd.latched.recovery
        if etcd.latched.cluster_id and (recovery is None or recovery.ended):
            etcd.noted = min(entry.version for entry in etcd.latched.members)
            wanted = dataclasses.replace(etcd.wanted, adopt="old", version=etcd.noted)
            there = etcd.volumes.keys() & etcd.members.keys()
            if there == etcd.members.keys():
                etcd.kept = {name: etcd.volumes[name] for name in there}
                etcd.pods, etcd.volumes, etcd.latched = {}, {}, Status()
                etcd.named, etcd.late = set(), set()
                etcd.wanted, etcd.uid, etcd.paused = wanted, f"u{self.number()}", False

    def restore(self) -> None:
        if self.records:
            self.restores.append(Restore(f"r{self.number()}", self.dice.choice([*self.records])))

    def disturb(self) -> None:
        dice, etcd = self.dice, self.cluster
        match dice.randrange(17):
            case 0 if etcd is not None and dice.random() < 0.4:
                self.cluster = None
            case 12 if etcd is not None:
                self.adopt(etcd)
            case 1 | 2:
                self.restore()
            case 3:
                self.restore()
                self.restore()
            case 4 if gone := [r for r in self.restores if dice.random() < 0.3]:
                self.restores = [r for r in self.restores if r not in gone]
            case 5 if self.records and dice.random() < 0.2:
                self.discard.append(dice.choice([*self.records.values()]).cluster_id)
            case _ if etcd is None:
                self.create()
            case 6:
                etcd.paused = dice.random() < 0.5
            case 7:
                etcd.wanted = dataclasses.replace(etcd.wanted, size=dice.randint(0, 3))
            case 15 if dice.random() < 0.5:
                etcd.wanted = dataclasses.replace(etcd.wanted, version=dice.choice(VERSIONS))
            case 16 if dice.random() < 0.3:
                etcd.wanted = dataclasses.replace(etcd.wanted, tls=True)
            case 8 if dice.random() < 0.3:
                etcd.needs = max(etcd.sizes.values(), default=0) + 1
            case 9:
                etcd.size = max(etcd.size, etcd.needs)
            case 10:
                etcd.outage = dice.randint(1, 10)
                etcd.dead = {name for name in etcd.pods if dice.random() < 0.5}
            case 11 if etcd.pods:
                del etcd.pods[dice.choice(sorted(etcd.pods))]
            case 13 | 14:
                etcd.slow = dice.randint(10, 40)
                etcd.wanted = dataclasses.replace(etcd.wanted, size=dice.randint(1, 3))
            case _ if etcd.leader:
                etcd.content = f"{etcd.id} {self.number()}"

    # --- what the operator does -----------------------------------------------------------------

    def advance(self) -> Step | None:
        """Take a step for the EtcdCluster, unless it is lost; return it."""
        etcd = self.cluster
        if etcd is None or etcd.paused:
            return None
        orders = self.orders[self.lag(0, len(self.orders) - 1)] if self.orders else []
        s = etcd.look()
        recovers = recover(s, orders)
        step = meanwhile(s, recovers or decide(s))
        # In the model, nobody may die between the first look at a new cluster and its record.
        if self.dice.random() < 0.1 and not self.quiet and etcd.latched.cluster_id:
            return step
        former = etcd.latched.recovery
        if step.do is Do.GROW_VOLUME:
            assert etcd.volumes[step.member] == step.uid
            etcd.sizes[step.member] = etcd.size
        elif step.do is Do.ADD and etcd.slow > 0:
            etcd.late.add(step.member)
        elif step is recovers:
            etcd.clear(s, step)
        else:
            etcd.take(s, step)
        self.judge(etcd, former, etcd.latched.recovery)
        return step

    def judge(self, etcd: Etcd, former: Recovery | None, now: Recovery | None) -> None:
        """Check that a restore which begins may do so, and count those that end."""
        if now is None or now == former:
            return
        if former is None or now.uid != former.uid:
            restore = next((r for r in self.restores if r.uid == now.uid), None)
            if restore is not None:  # it may have been deleted, which is not known yet
                assert restore.accepted == (etcd.uid, self.ended.get(etcd.uid, 0)), "not for this"
            there = [r for r in self.restores if former is not None and r.uid == former.uid]
            assert former is None or former.ended or not there, "two at a time"
            assert not [r for r in there if r.pending and former and former.ended], "not told yet"
        elif now.ended:
            self.ended[etcd.uid] = self.ended.get(etcd.uid, 0) + 1

    def follow(self, restore: Restore) -> None:
        """Look after an EtcdRestore, whose cluster may not be any more what it seems to be."""
        known = self.clusters[self.lag(1, len(self.clusters) - 1)] if self.clusters else None
        if known is None or not restore.pending:
            return
        uid, latched = known
        told, own = latched.recovery, basis(uid, latched.recovery)
        seed, mine = None, told if told is not None and told.uid == restore.uid else None
        if mine is not None:
            seed = next((m for m in latched.members if m.volume and not m.leaving), None)
        taken, check, fill = self.records.get(restore.entry), Course(), Course()
        if restore.checked:
            good = Course(True, "", Report(taken=taken))
            check = good if taken is not None else Course(True, "Failed", failure="it is gone")
        job = f"{seed.name} {uid}" if seed is not None else ""
        if job in restore.filled:
            fill = Course(True, "")
        to = restores.Target(mine, seed, "True", own)
        began = told.uid if told is not None and mine is None else ""
        # One process has one cache of EtcdRestores; it may lack one that was just created.
        others = self.orders[max(self.seen)] if self.dice.random() < 0.5 else []
        rival = next((order.uid for order in others if order.uid == began), "")
        fields = restores.news(SPEC, restore.status, to, check, fill, rival)
        if fields is not None:
            restore.status = replace(restore.status, **fields)
            if fields.get("accepted"):
                restore.accepted = uid, self.ended_in(known)
            assert "complete" not in fields or mine is not None
        restore.checked = restore.checked or self.dice.random() < 0.3
        self.fill(restore, job)

    def ended_in(self, known: tuple[str, Status]) -> int:
        """Return how many restores had ended in an EtcdCluster when it was seen like this."""
        uids = {
            status.recovery.uid
            for other in self.clusters[: self.seen[1] + 1]
            if other is not None and other[0] == known[0] and (status := other[1]).recovery
            if status.recovery.ended
        }
        return len(uids)

    def fill(self, restore: Restore, job: str) -> None:
        """Run the Job that fills a volume, if it can: the claim's name has the cluster's uid."""
        etcd, (name, _, uid) = self.cluster, job.partition(" ")
        if not job or not restore.pending or not restore.status.accepted or job in restore.filled:
            return
        if etcd is None or etcd.uid != uid or name not in etcd.volumes:
            return
        if etcd.volumes[name] in etcd.logs or restore.entry not in self.contents:
            return
        assert restore.accepted[0] == uid, "a volume of another cluster"
        assert not etcd.pods, "a member runs"
        etcd.fill(name, self.contents[restore.entry], self.number())
        restore.filled.add(job)

    def back_up(self) -> None:
        """Begin with a backup, or end it."""
        etcd = self.cluster
        if self.job is None:
            known = self.clusters[self.lag(1, len(self.clusters) - 1)] if self.clusters else None
            if known is not None and known[1].cluster_id:
                uid, id_ = known[0], known[1].cluster_id
                wants: Any = {"cluster_uid": uid, "cluster_id": id_, "discard": [*self.discard]}
                self.job = agent.Backup(store=STORE, folder="f", address="a", keep=KEEP, **wants)
            return
        job, self.job = self.job, None
        if etcd is None or not etcd.leader or etcd.id != job.cluster_id:
            return
        now = BORN + timedelta(seconds=len(self.clusters))
        base = f"f/{now:%Y%m%dT%H%M%SZ}-1-{self.number()}"
        ids = {"cluster_uid": job.cluster_uid, "cluster_id": etcd.id}
        taken = replace(TAKEN, name=f"{base}.db", **ids)
        self.records[base], self.contents[base] = taken, etcd.content
        self.ids.setdefault(etcd.root, set()).add(etcd.id)
        self.roots[base] = etcd.root
        others = {b for b in self.records if self.roots[b] != etcd.root}
        for gone in agent.surplus(self.records, job, taken, now):
            asked = self.ids[self.roots[gone]] & {*job.discard}
            assert gone not in others or asked, "a backup of another cluster"
            del self.records[gone]
        records = self.records.values()
        assert base in self.records
        assert sum(record.cluster_uid == etcd.uid for record in records) <= KEEP
        assert sum(record.cluster_id == etcd.id for record in records) <= KEEP
        self.newest[etcd.root] = base

    # --- turns ----------------------------------------------------------------------------------

    def turn(self) -> Step | None:
        etcd, dice, step = self.cluster, self.dice, None
        if etcd is not None:
            etcd.outage -= 1
            etcd.dead = etcd.dead if etcd.outage >= 0 else set()
            etcd.slow -= 1
            if etcd.slow > 0 and dice.random() < 0.1:
                etcd.wanted = dataclasses.replace(etcd.wanted, size=dice.randint(1, 3))
            if etcd.late and etcd.leader and etcd.slow < 0:
                etcd.late.remove(name := min(etcd.late))
                if all(not listed.learner for listed in etcd.members.values()):
                    url = TLS if etcd.latched.secure else ""
                    listed = Listed(etcd.number(), name, True, started=False, url=url)
                    etcd.members.setdefault(name, listed)
        match 0 if self.quiet else dice.randrange(6):
            case 1 | 2 if self.restores:
                self.follow(dice.choice(self.restores))
            case 3 if dice.random() < 0.5:
                self.back_up()
            case _:
                step = self.advance()
        for restore in self.restores if self.quiet else ():
            self.follow(restore)
        etcd = self.cluster
        self.clusters.append((etcd.uid, etcd.latched) if etcd is not None else None)
        self.orders.append([r.order for r in self.restores if r.pending])
        return step

    def settle(self) -> None:
        """Let people want what can be, and have all become like that."""
        self.quiet = True
        if (etcd := self.cluster) is None:
            self.create()
            etcd = self.cluster
        assert etcd is not None
        etcd.paused, etcd.size = False, max(etcd.size, etcd.needs)
        adopts = etcd.wanted.adopt and not etcd.latched.cluster_id
        version = etcd.noted if adopts else etcd.wanted.version
        etcd.wanted = dataclasses.replace(etcd.wanted, size=etcd.wanted.size or 1, version=version)
        step = None
        for turn in range(500):
            step = self.turn()
            pending = [r for r in self.restores if r.pending]
            unended = etcd.latched.recovery is not None and not etcd.latched.recovery.ended
            if turn > 5 and step is not None and unended and not pending:
                if not self.records:
                    return
                if step.do is Do.WAIT:  # its EtcdRestore was deleted: a person has to decide
                    self.restore()
            elif step is not None and step.do is Do.NOTHING and not pending and not etcd.late:
                return
        raise AssertionError(step, [r for r in self.restores if r.pending])


SPEC: Any = restores.Spec(
    cluster="c", confirm="c", source=restores.Source(backup=restores.FromBackup(name="daily"))
)


def walk(seed: int) -> None:
    realm = Realm(random.Random(seed))  # noqa: S311
    realm.create()
    for _ in range(400):
        if realm.dice.random() < 0.12:
            realm.disturb()
        realm.turn()
    realm.settle()

    for root, base in realm.newest.items():
        assert base in realm.records or realm.ids[root] & {*realm.discard}, "what was restorable"
    if realm.records:
        realm.restore()
        last = realm.restores[-1]
        realm.settle()
        assert realm.cluster is not None
        assert last.status.complete
        assert realm.cluster.content == realm.contents[last.entry]


@pytest.mark.parametrize(
    "seeds", [range(200), pytest.param(range(200, 2200), marks=pytest.mark.long)]
)
def test_any_orders_end_as_wanted_and_leave_what_was_restorable(seeds: range) -> None:
    for seed in seeds:
        try:
            walk(seed)
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
