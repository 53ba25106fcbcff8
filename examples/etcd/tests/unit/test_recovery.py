"""etcd_operator.recovery: a cluster gets a backup, or becomes what one member has."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from etcd_operator.client import Listed, Voice
from etcd_operator.decide import Do, Pod, Seen, Step, Wanted, decide
from etcd_operator.kinds import Basis, Entry, Recovery, Status, basis
from etcd_operator.recovery import Order, note, recover

NAMES = ("c-1", "c-2", "c-3")
WANTED = Wanted(3, "3.6.16", "t")
ENTRIES = [
    Entry(name=name, version="3.6.16", volume=f"u-{name}", id=name[-1], proved=True)
    for name in NAMES
]
FORMED = Status(cluster_id="1d7a", last_member=3, members=ENTRIES, revision=120)
BACKUP = Order("r1", "back", Basis(cluster="u1"), accepted=True)


@dataclass
class World:
    """Does each step at once; a Pod answers if its volume has data."""

    latched: Status = FORMED
    pods: dict[str, Pod] = field(default_factory=lambda: {n: Pod(uid=f"p-{n}") for n in NAMES})
    volumes: dict[str, str] = field(default_factory=lambda: {n: f"u-{n}" for n in NAMES})
    revisions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(NAMES, 100))
    members: tuple[Listed, ...] | None = None
    wanted: Wanted = WANTED
    steps: list[tuple[Do, str]] = field(default_factory=list)

    @property
    def seen(self) -> Seen:
        voices = {}
        for name, pod in self.pods.items():
            if revision := self.revisions.get(name):
                now = self.latched.recovery
                alone = now is not None and now.alone and now.survivor == name
                leads = pod.boot == "force" or alone or name not in NAMES
                voices[name] = Voice(
                    id=name[-1],
                    cluster_id="1d7a",
                    version="3.6.16",
                    leader=name[-1] if leads else "",
                    revision=revision,
                )
        forced = [name for name in voices if voices[name].leader and name in NAMES]
        listed = tuple(Listed(name[-1], name) for name in forced) or self.members
        there = self.pods, self.volumes, listed, voices
        return Seen("c", self.wanted, self.latched, *there, uid="u1")

    def order(self, uid: str, **more: Any) -> Order:
        """Return an EtcdRestore that is created now."""
        return Order(uid, "again", basis("u1", self.latched.recovery), accepted=True, **more)

    def step(self, order: Order | None) -> Step | None:
        step = recover(self.seen, [order] if order else [])
        if step is None:
            return None
        self.steps.append((step.do, step.member))
        match step.do:
            case Do.LATCH:
                assert step.latched is not None
                self.latched = step.latched
            case Do.DELETE_POD:
                assert self.pods.pop(step.member).uid == step.uid
            case Do.DELETE_VOLUME:
                assert self.volumes.pop(step.member) == step.uid
                self.revisions.pop(step.member, None)
            case Do.CREATE_VOLUME:
                self.volumes[step.member] = f"u-{step.member}"
            case Do.CREATE_POD:
                assert self.volumes[step.member] == step.uid
                version = next(e.version for e in self.latched.members if e.name == step.member)
                self.pods[step.member] = Pod(
                    f"p2-{step.member}", version, self.wanted.template, step.boot
                )
        return step

    def run(self, order: Order | None, most: int = 60) -> Step | None:
        """Take steps until one waits, or there is none."""
        for _ in range(most):
            step = self.step(order)
            if step is None or step.do is Do.WAIT:
                return step
        raise AssertionError(self.steps)


def test_the_highest_revision_is_remembered_before_the_data_goes() -> None:
    world = World(revisions=dict.fromkeys(NAMES, 700))

    world.run(BACKUP)

    assert world.latched.recovery == Recovery(uid="r1", revision=700)


def test_the_revision_is_noted_now_and_then() -> None:
    seen = dataclasses.replace(World(revisions=dict.fromkeys(NAMES, 500)).seen, now=1000.0)

    step = note(seen)

    assert step is not None
    assert step.latched is not None
    assert (step.latched.revision, step.latched.revision_at) == (500, 1000.0)
    assert note(dataclasses.replace(seen, latched=step.latched)) is None
    later = replace(step.latched, revision=400)
    assert note(dataclasses.replace(seen, latched=later, now=1100.0)) is None
    assert note(dataclasses.replace(seen, latched=later, now=1300.0)) is not None


def test_c2_a_restored_cluster_that_hibernates_wakes_with_the_version_of_its_data() -> None:
    """`spec.version` may be changed while no member runs, whose data only that version reads."""
    world = World()
    world.run(BACKUP)
    world.revisions["c-4"] = 100
    world.run(dataclasses.replace(BACKUP, filled="c-4"))
    assert world.latched.recovery is not None
    assert world.latched.recovery.ended

    world.wanted = Wanted(3, "3.5.26", "t")
    world.pods.clear()
    step = decide(world.seen)
    assert (step.do, step.member) == (Do.CREATE_POD, "c-4")
    assert world.latched.members[0].version == "3.6.16"


def test_no_volume_is_deleted_while_a_pod_ends_that_may_write_to_it() -> None:
    world = World()
    world.pods["c-2"] = dataclasses.replace(world.pods["c-2"], deleting=True)

    step = world.run(BACKUP)

    assert step is not None
    assert step.why.startswith("the rest waits for c-2 to end")
    assert len(world.volumes) == 3


def mend(world: World, order: Order, name: str) -> None:
    """Have a Pod end that does not answer, then have it be of a template that is corrected."""
    world.pods[name] = dataclasses.replace(world.pods[name], ended=True)
    world.run(order)
    assert not world.pods[name].ended
    world.wanted = dataclasses.replace(WANTED, template="corrected")
    world.run(order)
    assert world.pods[name].template == "corrected"


def test_a_pod_that_boots_from_the_backup_is_created_again_if_that_helps() -> None:
    filled = dataclasses.replace(BACKUP, filled="c-4")
    world = World()
    world.run(BACKUP)
    world.run(filled)

    mend(world, filled, "c-4")

    assert world.pods["c-4"].boot == "member"


def test_what_boots_from_the_backup_keeps_the_version_of_its_data() -> None:
    filled = dataclasses.replace(BACKUP, filled="c-4")
    world = World()
    world.run(BACKUP)
    world.run(filled)

    world.wanted = dataclasses.replace(WANTED, version="3.5.35")
    world.run(filled)

    assert (world.latched.members or [])[0].version == world.pods["c-4"].version == "3.6.16"


#: A member whose volume is adopted from an earlier cluster.
LEFT = Entry(name="c-2", version="3.6.16", volume="u-c-2")
SURVIVES = dataclasses.replace(BACKUP, survivor=True)


def test_the_member_with_the_newest_data_survives_a_lost_quorum() -> None:
    world = World(revisions={"c-1": 90, "c-2": 110})
    del world.pods["c-3"], world.volumes["c-3"]

    assert world.run(SURVIVES) is None

    assert {name: pod.boot for name, pod in world.pods.items()} == {"c-2": "member"}
    ended = Recovery(uid="r1", survivor="c-2", lost=10, alone=True, ended=True)
    assert world.latched.recovery == ended
    assert world.steps.index((Do.CREATE_POD, "c-2")) < len(world.steps) - 4, "it was forced first"
    assert world.latched.cluster_id == "1d7a"
    leaving = {member.name: bool(member.leaving) for member in world.latched.members}
    assert leaving == {"c-1": True, "c-2": False, "c-3": True}
    assert [m.name for m in world.latched.members if m.id] == ["c-2"], "the others vote no more"
    assert Do.DELETE_VOLUME not in [do for do, _ in world.steps]


def test_the_named_member_survives_and_no_other() -> None:
    world = World(revisions={"c-1": 90, "c-2": 110})
    world.run(dataclasses.replace(SURVIVES, member="c-1"))
    assert list(world.pods) == ["c-1"]

    gone = World(revisions={"c-2": 110})
    del gone.volumes["c-1"]
    assert gone.run(dataclasses.replace(SURVIVES, member="c-1")) is None
    assert len(gone.pods) == 3


def silent() -> World:
    """A lost quorum whose members have all started again, and so do not answer."""
    return World(revisions={})


def test_a_silent_member_survives_if_it_is_named() -> None:
    world = silent()

    step = world.run(dataclasses.replace(SURVIVES, member="c-2"))
    assert step is not None
    assert step.why == "c-2 becomes the cluster"

    world.revisions["c-2"] = 90  # it answers now
    assert world.run(None) is None
    ended = Recovery(uid="r1", survivor="c-2", lost=30, alone=True, ended=True)
    assert world.latched.recovery == ended
    assert world.pods["c-2"].boot == "member", "no later start of it makes others forgotten"


def test_the_pod_of_a_survivor_is_created_again_if_that_helps() -> None:
    world, named = silent(), dataclasses.replace(SURVIVES, member="c-2")
    world.run(named)

    mend(world, named, "c-2")

    assert {name: pod.boot for name, pod in world.pods.items()} == {"c-2": "force"}


def test_a_silent_member_survives_if_no_other_has_its_volume() -> None:
    world = silent()
    del world.volumes["c-1"], world.volumes["c-3"]

    world.run(SURVIVES)

    assert list(world.pods) == ["c-2"]


def test_a_member_that_was_to_be_adopted_survives() -> None:
    world = World(revisions={}, latched=Status(last_member=2, members=[LEFT]))
    world.pods, world.volumes = {}, {"c-2": "u-c-2"}
    world.wanted = dataclasses.replace(WANTED, adopt="abcde")

    world.run(SURVIVES)
    world.revisions["c-2"] = 100  # it answers now
    assert world.run(None) is None

    assert world.latched.cluster_id == "1d7a"
    assert world.latched.members == [replace(LEFT, id="2", ran="3.6.16")]


def test_of_silent_members_none_is_chosen() -> None:
    several, adopted, learner = silent(), silent(), silent()
    del several.volumes["c-1"]
    adopted.latched = replace(FORMED, cluster_id="", members=[replace(e, id="") for e in ENTRIES])
    adopted.volumes, kept = {"c-1": "u-c-1"}, dict.fromkeys(NAMES, "3.6.16")
    del learner.volumes["c-1"], learner.volumes["c-3"]
    learner.latched = replace(FORMED, members=[replace(entry, proved=False) for entry in ENTRIES])

    assert several.run(SURVIVES) is None
    assert recover(dataclasses.replace(adopted.seen, kept=kept), [SURVIVES]) is None
    assert learner.run(dataclasses.replace(SURVIVES, member="c-2")) is None


def test_a_cluster_with_a_quorum_has_no_survivor() -> None:
    world = World(members=tuple(Listed(entry.id, entry.name) for entry in ENTRIES))

    assert world.run(SURVIVES) is None
    assert len(world.pods) == 3


def test_a_cluster_that_nobody_remembers_is_not_replaced_by_a_backup() -> None:
    lost = World(latched=Status())

    assert recover(lost.seen, [BACKUP]) is None
