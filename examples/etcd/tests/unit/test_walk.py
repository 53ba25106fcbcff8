"""Random edits and losses on a model of etcd and Kubernetes: it ends as wanted, and loses nothing.

In the model all is at once: Pods start, data is copied. What is tried is the order of the steps. It
loses a member only while the others can do without it, as nobody else could make up for more. In an
outage, any number of members are silent for a while. Of a bad version or template, no Pod runs; a
template may become bad by itself. TLS may be added; members that run reach each other all the time,
unless what they are made of is what has no TLS that the others trust: then one may be cut off. Of
a mute template, Pods run but answer nobody. In an election, all answer, and there is no leader.
"""

import itertools
import random
from dataclasses import dataclass, field, replace

import pytest
from msgspec import structs

from etcd_operator.client import Listed, Voice
from etcd_operator.decide import HIBERNATES, UNWANTED, Do, Pod, Seen, Step, Wanted, decide, quorum
from etcd_operator.kinds import Status
from etcd_operator.versions import minor
from tests.unit.sentences import judge_all

VERSIONS = ("3.6.16", "3.6.17", "3.7.3", "3.7.4")
BAD = ("3.6.99", "3.7.99")
TEMPLATES = ("t1", "t2", "t3")
MUTE = "t4"
TLS = "https:"


@dataclass
class World:
    """A cluster, and what is there of it."""

    wanted: Wanted = field(default_factory=lambda: Wanted(3, "3.6.16", "t1", backup=True))
    latched: Status = field(default_factory=Status)
    pods: dict[str, Pod] = field(default_factory=dict)
    volumes: dict[str, str] = field(default_factory=dict)
    #: The volumes that have a member's log.
    logs: set[str] = field(default_factory=set)
    members: dict[str, Listed] = field(default_factory=dict)
    leader: str = ""
    downgrade: str = ""
    storage: str = "3.6.0"
    #: The minor version of the cluster that each volume's data knows; no lower one can read them.
    data: dict[str, int] = field(default_factory=dict)
    #: The members that do not run, whatever they are, and for how many looks.
    dead: set[str] = field(default_factory=set)
    outage: int = 0
    bad: str = "t3"
    now: float = 0.0
    #: Whether there is a backup; it goes once all run the wanted minor version.
    saved: bool = False
    count: int = 0
    named: set[str] = field(default_factory=set)
    #: The volumes of an earlier cluster of the same name that are to be adopted.
    kept: dict[str, str] = field(default_factory=dict)
    noted: str = "3.6.16"
    #: The Pods that listen without TLS.
    open: set[str] = field(default_factory=set)
    #: The Pod of the member that has got a URL of TLS last, and has not started again since.
    moved: str = ""
    #: The template with whose certificate, or on whose port, nobody is reached by TLS.
    cut: str = ""
    #: Whether there is an election now.
    election: bool = False
    #: The voters that have just been a quorum.
    able: list[str] = field(default_factory=list)
    #: Its uid in Kubernetes, and its ID in etcd.
    uid: str = ""
    id: str = "c1"

    def number(self) -> str:
        self.count += 1
        return f"{self.count:x}"

    def runs(self, name: str) -> bool:
        """Start a member, if that is possible, and return whether it runs."""
        pod, volume = self.pods.get(name), self.volumes.get(name, "")
        if pod is None or not volume or name in self.dead or pod.deleting:
            return False
        if pod.template.partition("+")[0] == self.bad or pod.version in BAD:
            return False
        if minor(pod.version) < self.data.get(volume, 0):
            return False
        if volume in self.logs:
            return name in self.members
        if pod.boot == "new" and not self.members:
            self.members[name] = Listed(self.number(), name, url="" if pod.plain else TLS)
        elif pod.boot != "join" or name not in self.members or self.members[name].started:
            return False
        if not all(self.hear(name, other) for other in self.members):
            return False
        self.members[name] = replace(self.members[name], started=True)
        self.logs.add(volume)
        return True

    def hear(self, *names: str) -> bool:
        """Return whether two members trust each other where they connect by TLS, if they run."""
        pods = {name: self.pods[name] for name in names if name in self.pods}
        deaf = self.cut in [pod.template.partition("+")[0] for pod in pods.values()]
        there = [pod.uid for name, pod in pods.items() if not self.members[name].plain]
        return not deaf or len({*names}) < 2 or {*there} <= {self.moved}

    def is_mute(self, name: str) -> bool:
        return self.pods[name].template.partition("+")[0] == MUTE

    def voters(self) -> list[str]:
        return [name for name, listed in self.members.items() if not listed.learner]

    def reach(self, name: str, other: str) -> bool:
        """Return whether the Pod of a member can connect to another one by its peer URL."""
        pod = self.pods[other]
        plain = self.pods[name].plain or pod.plain
        return pod.uid in self.open if self.members[other].plain else not plain

    def look(self) -> Seen:
        self.now += 10
        self.pods = {n: p for n, p in self.pods.items() if not p.deleting or n in self.members}
        running = [name for name in self.pods if self.runs(name)]
        up = [name for name in self.voters() if name in running]
        groups = {name: [other for other in up if self.hear(name, other)] for name in up}
        most = max(groups, key=lambda name: (len(groups[name]), name == self.leader), default="")
        self.able = able = groups.get(most, [])
        quorate = bool(able) and len(able) >= quorum(len(self.voters()))
        if self.leader not in able:
            self.leader = most if quorate else ""
        lead = self.members[self.leader].id if quorate and not self.election else ""
        versions = {f"3.{minor(self.pods[name].version)}" for name in running}
        if versions == {self.downgrade}:
            self.downgrade = ""
        if quorate and self.members.keys() <= set(running):
            lowest = min(minor(self.pods[name].version) for name in running)
            known = minor(self.downgrade) if self.downgrade else lowest
            self.data |= {self.volumes[name]: known for name in running}
        voices = {
            name: Voice(
                self.members[name].id,
                self.id,
                self.pods[name].version,
                lead if lead and self.hear(name, self.leader) else "",
                learner=self.members[name].learner,
                storage=self.storage,
                downgrade=self.downgrade,
            )
            for name in running
            if not self.is_mute(name)
        }
        pods = {
            name: replace(
                pod,
                ready=name in able and quorate and not self.is_mute(name),
                stuck=pod.stuck or ("" if name in {*running, *self.dead} else "crashes"),
            )
            for name, pod in self.pods.items()
        }
        known = any(voice.votes and voice.leader for voice in voices.values())
        members = tuple(self.members.values()) if known else None
        more = f"+{self.latched.secure}" if self.wanted.tls else ""
        s = Seen(
            "c",
            replace(self.wanted, template=self.wanted.template + more),
            self.latched,
            pods,
            self.volumes,
            members,
            voices,
            now=self.now,
            kept=dict.fromkeys({**self.volumes, **self.kept}, self.noted),
            uid=self.uid,
        )
        self.saved = self.saved and s.upgrades
        return replace(s, backup="" if self.saved else None)

    def take(self, s: Seen, step: Step) -> None:
        """Take a step; fail if it harms."""
        name = step.member
        if step.latched is not None:
            known = [entry.version for entry in s.latched.members]
            known += [voice.version for voice in s.voices.values()]
            new = {minor(e.version) for e in step.latched.members} - {*map(minor, known)}
            formed = self.latched.cluster_id and self.wanted.backup
            assert self.saved or not new or not formed, "no backup"
            self.latched = step.latched
        match step.do:
            case Do.CREATE_VOLUME if name in self.kept:
                self.volumes[name] = self.kept.pop(name)
            case Do.CREATE_VOLUME:
                assert name not in self.named, "a name came back"
                self.named.add(name)
                self.volumes[name] = f"v{self.number()}"
            case Do.CREATE_POD:
                old = self.volumes[name] in self.logs  # then etcd goes on, however it boots
                assert step.boot != "new" or not self.members or old
                version = next(e.version for e in self.latched.members if e.name == name)
                made = f"p{self.number()}", version, s.wanted.template, step.boot, "a"
                self.pods[name] = Pod(*made, plain=not s.wanted.tls)
                if not s.latched.secure or not s.wanted.tls:
                    self.open.add(self.pods[name].uid)
                urls = {other: listed.url for other, listed in self.members.items()}
                assert step.boot != "join" or step.beside == urls, "etcd compares the lists"
            case Do.SETTLE_POD:
                assert s.pods[name].uid == step.uid
                assert self.volumes[name] in self.logs, "it may never have a log, then"
                self.pods[name] = replace(self.pods[name], boot="member")
            case Do.DELETE_POD:
                if name in s.voices and s.members is None and step.why != HIBERNATES:
                    kept = [e for e in s.latched.members if e.id and s.intact(e)]
                    assert not s.pods[name].ready, "there is a leader in a moment"
                    assert {e.name for e in kept} <= self.pods.keys(), "one starts"
                member = next((e for e in self.latched.members if e.name == name), None)
                if (
                    member
                    and name in self.voters()
                    and s.healthy(member)
                    and step.why != HIBERNATES
                ):
                    assert s.healthy_beside(member) == len(self.voters()) - 1
                del self.pods[name]
            case Do.DELETE_VOLUME:
                assert name not in self.members, "the data of a member"
                del self.volumes[name]
            case Do.ADD:
                listed = Listed(self.number(), name, learner=True, started=False)
                self.members[name] = replace(listed, url=TLS if s.latched.secure else "")
            case Do.UPDATE:
                assert name in self.pods, "nobody knows how it listens"
                secure = [other for other in self.members if not self.members[other].plain]
                back = step.body.get("plain", False)
                if not back:
                    assert not secure or self.leader in secure, "TLS has carried nothing yet"
                    assert all(name in s.voices for name in self.members), "all are there"
                    assert self.moved not in [pod.uid for pod in self.pods.values()], "reconnects"
                    assert len(self.members) != 2, "the quorum may be lost"
                    self.moved = self.pods[name].uid if len(self.members) > 1 else ""
                url = TLS * (s.wanted.tls and not back)
                self.members[name] = replace(self.members[name], url=url)
            case Do.PROMOTE:
                assert s.voices[name].leader, "etcd refuses one that is behind"
                assert self.pods[name].boot == "member", "it may vote again without its log"
                self.members[name] = replace(self.members[name], learner=False)
            case Do.REMOVE:
                healthy = any(e.name == name and s.healthy(e) for e in s.voters)
                healthy = healthy and step.why.startswith(UNWANTED)  # one that was dead has to go
                assert not healthy or len(self.voters()) > min(2, self.wanted.size), "one is left"
                others = [other for other in self.voters() if other != name]
                if len(others) < len(self.voters()):
                    well = sum(other in s.voices for other in others)
                    assert well >= quorum(len(others)), "no quorum is left"
                del self.members[name]
            case Do.MOVE_LEADER:
                ids = {listed.id: other for other, listed in self.members.items()}
                self.leader = ids[step.body["targetID"]]
            case Do.DOWNGRADE:
                self.downgrade = step.body.get("version", "")
                self.storage = f"{self.downgrade}.0" if self.downgrade else "3.6.0"
            case Do.BACK_UP:
                assert s.latched.secure == s.wanted.tls, "its Job would reach only some members"
                self.saved = True
        run = [name for name in s.voices if name in self.pods and name in self.members]
        assert all(self.reach(*pair) for pair in itertools.permutations(run, 2)), "cut off"
        learners = {name for name, listed in self.members.items() if listed.learner}
        assert len(learners) <= 1
        voted = {e.name for e in self.latched.members if e.ran or e.proved}
        assert not voted & learners, "a learner passes for a voter, and may survive"
        data = [n for n in self.voters() if self.volumes.get(n) in self.logs]
        assert not self.latched.cluster_id or len(data) >= quorum(len(self.voters()))

    def disturb(self, dice: random.Random) -> None:
        """Edit what is wanted, or lose something."""
        spare = [
            name
            for name in self.voters()
            if sum(
                other in self.able and self.runs(other) for other in self.voters() if other != name
            )
            >= quorum(len(self.voters()))
        ]
        match dice.randrange(11):
            case 0:
                self.wanted = replace(self.wanted, size=dice.randint(0, 7))
            case 1:
                self.wanted = replace(self.wanted, version=dice.choice(VERSIONS + BAD))
            case 2:
                self.wanted = replace(self.wanted, template=dice.choice((*TEMPLATES, MUTE)))
            case 3 if self.pods:
                del self.pods[dice.choice(sorted(self.pods))]
            case 4 if spare and self.latched.cluster_id:
                self.volumes.pop(dice.choice(spare), None)
            case 5:
                self.dead = {name for name in self.pods if dice.random() < 0.7}
                self.outage = dice.randint(1, 20)
            case 6:
                version, template = dice.choice(VERSIONS), dice.choice(TEMPLATES)
                self.wanted = replace(self.wanted, version=version, template=template)
            case 7 if able := [n for n in self.pods if n in spare or n not in self.voters()]:
                pod = self.pods[name := dice.choice(able)]
                self.pods[name] = replace(pod, deleting=True, stuck="its node is lost")
            case 8:
                self.bad = dice.choice(TEMPLATES)
            case 9:
                version = dice.choice((self.wanted.version, *VERSIONS))
                if not self.wanted.tls and dice.random() < 0.5:
                    self.cut = dice.choice(TEMPLATES)
                self.wanted = replace(self.wanted, tls=True, version=version)
                if dice.random() < 0.5:  # the status is restored by hand
                    self.latched = structs.replace(self.latched, secure=dice.choice((False, None)))
            case 10:
                self.election = True


@pytest.mark.parametrize("seed", range(200))
def test_any_walk_ends_as_wanted(seed: int) -> None:
    world, dice = World(), random.Random(seed)  # noqa: S311
    for turn in range(600):
        if turn < 300 and dice.random() < 0.1:
            world.disturb(dice)
        if turn == 300:
            version, good = (
                dice.choice(VERSIONS),
                dice.choice(sorted({*TEMPLATES} - {world.bad, world.cut})),
            )
            size = world.wanted.size or 3
            world.wanted = replace(world.wanted, size=size, version=version, template=good)
        world.outage -= 1
        if world.outage < 0:
            world.dead = set()
        s = world.look()
        step = decide(s)
        judge_all(s, step)
        assert world.wanted.size or step.do in (Do.DELETE_POD, Do.WAIT), "hibernation keeps all"
        if dice.random() < 0.2 and step.do is not Do.LATCH:
            continue  # the answer or the call is lost
        world.take(s, step)
        world.election = False
        if turn > 300 and step.do is Do.NOTHING:
            break

    assert step.do is Do.NOTHING, step
    assert len(world.voters()) == len(world.members) == world.wanted.size
    assert {(pod.version, pod.template, pod.boot) for pod in s.pods.values()} == {
        (world.wanted.version, s.wanted.template, "member")
    }
    assert {pod.plain for pod in s.pods.values()} == {not world.wanted.tls}
    assert world.wanted.tls != any(pod.uid in world.open for pod in s.pods.values())
    assert s.pods.keys() == s.volumes.keys() == world.members.keys()
    assert all(member.proved for member in world.latched.members)


def settle(world: World, dice: random.Random | None = None) -> None:
    """Take all steps; with dice, lose answers and Pods meanwhile."""
    for turn in range(400):
        if dice and turn < 100 and world.pods and dice.random() < 0.2:
            del world.pods[dice.choice(sorted(world.pods))]
        s = world.look()
        if (step := decide(s)).do is Do.NOTHING:
            return
        if step.do is Do.LATCH or not dice or dice.random() > 0.2:
            world.take(s, step)
    raise AssertionError(step)


def test_growth_deletes_no_pod() -> None:
    """The Pod of a new member serves as it is: a deletion would cost two members the quorum."""
    world, deleted = World(Wanted(1, "3.6.16", "t1")), []
    for size in (1, 2, 3, 5):
        world.wanted = replace(world.wanted, size=size)
        while (step := decide(s := world.look())).do is not Do.NOTHING:
            deleted += [step.member] * (step.do is Do.DELETE_POD)
            serves = judge_all(s, step).conditions[0].status
            assert serves or not world.latched.cluster_id, step
            world.take(s, step)
    assert deleted == []
    assert {pod.boot for pod in s.pods.values()} == {"member"}


@pytest.mark.parametrize("version", ["3.6.16", "3.9.0"])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_tls_is_added_though_the_version_is_refused_and_no_quorum_is_lost(
    size: int, version: str
) -> None:
    world = World(Wanted(size, "3.6.16", "t1"))
    settle(world)
    world.wanted = replace(world.wanted, tls=True, version=version)
    while (step := decide(s := world.look())).do is not Do.NOTHING:
        assert s.members is not None or size == 1, step
        assert world.now < 2000, step
        world.take(s, step)
        world.dead = {step.member} if step.do is Do.CREATE_POD else set()  # it takes a while
    assert len(world.voters()) == size
    assert {(pod.plain, pod.template) for pod in s.pods.values()} == {(False, "t1+True")}


@pytest.mark.parametrize("seed", range(50))
def test_an_adopted_cluster_has_the_members_and_the_data_that_it_had(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311
    world = World(Wanted(dice.randint(1, 5), "3.6.16", "t1", tls=seed % 3 == 0))
    settle(world)
    learner = dice.choice(["", *sorted(world.volumes)[1:]])
    if learner:
        world.members[learner] = replace(world.members[learner], learner=True)
    members, volumes = dict(world.members), dict(world.volumes)

    world.pods, world.volumes, world.latched = {}, {}, Status()  # it is deleted, and comes again
    world.wanted = replace(world.wanted, adopt="old", template="t2", tls=seed % 3 < 2)
    world.kept = {**volumes, "c-9": "removed"}  # that of one that was just removed
    world.logs.add("removed")
    voters = sorted(volumes.keys() - {learner})
    lost = dice.choice(voters) if len(voters) > 2 else ""
    world.kept.pop(lost, None)
    settle(world, dice)

    stay = {(n, listed.id) for n, listed in members.items() if n != lost}
    assert stay <= {(n, listed.id) for n, listed in world.members.items()}
    assert volumes.items() - {(lost, volumes.get(lost))} <= world.volumes.items()
    assert len(world.voters()) == len(world.volumes) == world.wanted.size
    assert lost not in world.members, "a name came back"
    world.wanted = replace(world.wanted, size=6)
    settle(world, dice)
    assert len(world.voters()) == 6
    assert "c-9" not in world.members, "a name came back"
