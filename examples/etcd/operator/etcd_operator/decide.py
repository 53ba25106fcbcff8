"""Decides the next step for a cluster: a pure function of what is seen and what is recorded.

A step is one write: to Kubernetes, to the status, or to etcd. The operator may be killed after any
step, even before its answer is known, so no step relies on the one before. An intent is recorded
before it is carried out, and the name of a member is never used twice.

Each rule returns a step, or None if it has nothing to do. The first rule with a step decides, so a
rule may rely on what the rules above it rule out. `RULES`, at the end, has their order.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

from msgspec.structs import replace

from etcd_operator import versions
from etcd_operator.client import Alarm, Listed, Voice
from etcd_operator.kinds import Defragmented, Entry, Status, listing
from etcd_operator.versions import minor

#: How a member boots. `new` forms a cluster, `join` enters one, `member` can do neither: should its
#: disk be emptied, it fails, instead of voting under its old ID without its log. `force` makes it
#: the whole cluster, after its quorum was lost and an EtcdRestore says so. The first two count only
#: without a log, so later the Pod becomes a `member` by its annotations alone. With `force`, each
#: start would drop those who joined since, so the Pod is replaced first.
Boot = Literal["new", "join", "member", "force"]

#: Entries of the log that a member may be behind the others and still be healthy.
BEHIND = 5000
#: How many new members in a row may fail, and seconds until another one is tried.
FAILURES, PATIENCE = 3, 600.0
#: Seconds between two defragmentations of a member, and if another one has less in use.
REST, SHORT_REST = 600.0, 20.0
#: The parts of the quota from which a file is worth defragmenting, and above which it stays full.
LARGE, FULL = 0.8, 0.9
#: The part of a file that is in use, above which it is not worth defragmenting.
DENSE = 0.9

#: Why a member leaves that is healthy, and so may stay after all.
UNWANTED = "it is not wanted any more"
HIBERNATES = "no member is wanted, and the volumes stay"
AGAIN = "the next one is as is wanted by now"


def quorum(voters: int) -> int:
    """Return how many of a number of voters are a quorum."""
    return voters // 2 + 1


# --- what is seen -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wanted:
    """What the user wants."""

    size: int
    version: str
    #: A hash of all else that a Pod is made of.
    template: str = ""
    #: Seconds after which a member is defragmented; 0 for never.
    defragment: float = 0.0
    #: Whether a backup is taken before the minor version changes.
    backup: bool = False
    #: What the names of the volumes of an earlier cluster end with that are to be adopted.
    adopt: str = ""
    tls: bool = False


@dataclass(frozen=True)
class Pod:
    """The Pod of a member, with the version and template that it was made from."""

    uid: str = ""
    version: str = ""
    template: str = ""
    #: How it boots without a log; empty if only the next Pod can boot as `member`.
    boot: str = "member"
    address: str = ""
    ready: bool = False
    deleting: bool = False
    #: Whether it has no TLS, though the cluster may have it by now.
    plain: bool = False
    #: Why it does not run again without help: it crashes again and again, or its node is lost.
    stuck: str = ""
    #: Whether it will never run again, as one that was evicted.
    ended: bool = False
    #: Why it does not run now, as Kubernetes tells: a reason and a message.
    reason: str = ""
    note: str = ""


@dataclass(frozen=True)
class Seen:
    """All that is known of a cluster at one moment; the keys of mappings are names of members."""

    name: str
    wanted: Wanted
    latched: Status
    pods: Mapping[str, Pod] = field(default_factory=dict)
    #: The uids of the volumes that are there to stay.
    volumes: Mapping[str, str] = field(default_factory=dict)
    #: The members as a quorum knows them. None is not an empty list: nobody could tell.
    members: tuple[Listed, ...] | None = None
    voices: Mapping[str, Voice] = field(default_factory=dict)
    alarms: tuple[Alarm, ...] = ()
    now: float = 0.0
    #: Members whose volumes are smaller than is wanted, have not grown yet, and are larger.
    small: frozenset[str] = frozenset()
    growing: frozenset[str] = frozenset()
    large: frozenset[str] = frozenset()
    #: Why the backup before an upgrade has failed; empty if it is complete, None before it ends.
    backup: str | None = None
    #: The names of the volumes that an earlier cluster of the same name has left.
    left: tuple[str, ...] = ()
    #: The members whose volumes are there, even if they are not adopted yet, and the versions that
    #: their data are of, where that was noted.
    kept: Mapping[str, str] = field(default_factory=dict)
    #: The uid of the EtcdCluster.
    uid: str = ""

    @property
    def staying(self) -> list[Entry]:
        """The members that are not leaving."""
        return [member for member in self.latched.members if not member.leaving]

    def listed(self, member: Entry) -> Listed | None:
        """Return a member from the member list, by name or by ID: its peer URL can change."""
        same = (m for m in self.members or () if m.name == member.name or m.id == member.id != "")
        return next(same, None)

    @property
    def voters(self) -> list[Entry]:
        """The members that vote, including those that are leaving."""
        pairs = ((member, self.listed(member)) for member in self.latched.members)
        return [member for member, listed in pairs if listed is not None and not listed.learner]

    @property
    def count(self) -> int:
        """How many voters the cluster has, including unknown ones."""
        return sum(not listed.learner for listed in self.members or ())

    @property
    def electorate(self) -> list[Entry]:
        """The voters; without a quorum, those that were voters, as far as is known."""
        former = [e for e in self.latched.members if e.id and (e.proved or e.ran)]
        return former if self.members is None else self.voters

    def intact(self, member: Entry) -> bool:
        """Return whether the volume with the member's data is there."""
        return bool(member.volume) and self.volumes.get(member.name) == member.volume

    def healthy(self, member: Entry) -> bool:
        """Return whether a member takes part: it is ready, knows the leader, and is not behind."""
        voice, pod = self.voices.get(member.name), self.pods.get(member.name)
        if voice is None or pod is None or pod.deleting or not pod.ready or not voice.leader:
            return False
        return max(v.index for v in self.voices.values()) - voice.applied < BEHIND

    def healthy_beside(self, member: Entry) -> int:
        """Return how many of the other voters are healthy."""
        return sum(self.healthy(other) for other in self.voters if other.name != member.name)

    def leads(self, member: Entry) -> bool:
        """Return whether a member is the leader."""
        voice = self.voices.get(member.name)
        return voice is not None and voice.leads

    @property
    def available(self) -> bool:
        """Whether a quorum has just answered, and one of it is behind the Service."""
        return self.count > 0 and any(map(self.healthy, self.voters))

    @property
    def adds_tls(self) -> bool:
        """Whether the members of a cluster get TLS, and do not have it among them yet."""
        return self.wanted.tls and self.latched.cluster_id != "" and self.latched.secure is False

    @property
    def rare(self) -> bool:
        """Whether there are two members, of which none is restarted: soon there are more or one."""
        return self.count == 2 and (self.wanted.size > 2 or self.adds_tls)

    @property
    def downgrade(self) -> str:
        """The target of the downgrade that is under way, such as 3.6, or an empty text."""
        target = next((v.downgrade for v in self.voices.values() if v.downgrade), "")
        return f"3.{minor(target)}" if target else ""  # it is told as 3.6.0

    @property
    def refusal(self) -> str:
        """Why the wanted version cannot be reached from here; empty if it can."""
        running = [voice.version for voice in self.voices.values()]
        return versions.refusal(
            running or [member.version for member in self.staying], self.wanted.version
        )

    @property
    def upgrades(self) -> bool:
        """Whether a member runs another minor version than is wanted, as far as is known."""
        voices = self.voices.values()
        return not voices or any(minor(v.version) != minor(self.wanted.version) for v in voices)

    @property
    def may_change(self) -> bool:
        """Whether a member may run the wanted version now, before its turn in a roll."""
        wanted, running = minor(self.wanted.version), [v.version for v in self.voices.values()]
        # If nobody answers, the data are of the versions that were healthy.
        running = running or [member.version for member in self.latched.members if member.proved]
        running = running or [member.ran for member in self.latched.members if member.ran]
        minors = {*map(minor, running or [member.version for member in self.staying])}
        unflushed = wanted == 7 and 7 not in minors and not self.latched.flushed
        announced = not running or wanted >= min(minors) or self.downgrade == f"3.{wanted}"
        return announced and not unflushed and not self.refusal

    @property
    def unsaved(self) -> bool:
        """Whether the backup is missing without which no member takes another minor version."""
        first = all(minor(v.version) != minor(self.wanted.version) for v in self.voices.values())
        return self.wanted.backup and first and self.backup != ""

    def as_wanted(self, member: Entry) -> bool:
        """Return whether a member's entry has the wanted version and template."""
        return (member.version, member.template) == (self.wanted.version, self.wanted.template)


# --- steps --------------------------------------------------------------------------------------


class Do(Enum):
    """What a step does: as users read it, the method of etcd that it calls, and its Event."""

    NOTHING = 0
    WAIT = 1
    REFUSE = 2
    LATCH = 3
    BACK_UP = 4
    SETTLE_POD = 5
    GROW_VOLUME = 6
    CREATE_VOLUME = 7, "{} gets a volume"
    CREATE_POD = 8, "{} gets a Pod"
    DELETE_POD = 9, "the Pod of {} is deleted"
    DELETE_VOLUME = 10, "the volume of {} is deleted"
    ADD = 11, "{} is added as a learner", "cluster/member/add", "MemberAdded"
    REMOVE = 12, "{} is removed from the cluster", "cluster/member/remove", "MemberRemoved"
    UPDATE = 13, "{} gets another peer URL", "cluster/member/update", "MemberUpdated"
    PROMOTE = 14, "{} becomes a voter", "cluster/member/promote", "MemberPromoted"
    MOVE_LEADER = 15, "{} leads no more", "maintenance/transfer-leadership", "LeaderMoved"
    DEFRAGMENT = 16, "{} is defragmented", "maintenance/defragment", "Defragmented"
    DISARM = 17, "an alarm is disarmed", "maintenance/alarm", "AlarmDisarmed"
    DOWNGRADE = 18, "etcd's next downgrade is set", "maintenance/downgrade", "Downgrade"

    def __init__(self, _: int, text: str = "", path: str = "", event: str = "") -> None:
        self.text, self.path, self.event = text, path, event


@dataclass(frozen=True)
class Step:
    """One write, or the reason for waiting or refusing."""

    do: Do
    #: The member that it is about.
    member: str = ""
    why: str = ""
    #: What is remembered; before the step, if that is a call.
    latched: Status | None = None
    #: How a new Pod boots, on which volume, and beside which members, by their peer URLs.
    boot: Boot = "member"
    uid: str = ""
    beside: Mapping[str, str] = field(default_factory=dict)
    #: The body of a call, and the only member that can answer it.
    body: Mapping[str, Any] = field(default_factory=dict)
    ask: str = ""

    @property
    def text(self) -> str:
        """What it does, and why, as a sentence without its end."""
        text = ": ".join(filter(None, (self.do.text.format(self.member), self.why)))
        return text if re.match(r"\S+-\d+\b", text) else f"{text[:1].upper()}{text[1:]}"


def wait(why: str) -> Step:
    """Wait, for a reason."""
    return Step(Do.WAIT, why=why)


def refuse(why: str) -> Step:
    """Refuse to go on, for a reason that a person has to remove."""
    return Step(Do.REFUSE, why=why)


def latch(s: Seen, why: str, **changes: Any) -> Step:
    """Record changes to the status."""
    return Step(Do.LATCH, why=why, latched=replace(s.latched, **changes))


def _set(
    s: Seen, member: Entry, why: str, status: Mapping[str, Any] | None = None, **changes: Any
) -> Step:
    """Record changes to the entry of a member, and to other fields of the status."""
    members = [replace(e, **changes) if e.name == member.name else e for e in s.latched.members]
    return latch(s, f"{member.name}: {why}", members=members, **(status or {}))


def _change(s: Seen, member: Entry, why: str, version: str = "") -> Step:
    """Record that a member is to be as is wanted now; that it runs like this is not proved yet.

    `version` takes the place of the wanted one, as long as that one has to wait.
    """
    ran = member.version if member.proved else member.ran
    now: dict[str, Any] = {"version": version or s.wanted.version, "template": s.wanted.template}
    return _set(s, member, why, ran=ran, proved=False, **now)


def _correct(s: Seen, member: Entry, why: str) -> Step | None:
    """Change a member that does not run to what is wanted, or to as much of that as may be now.

    What prepares another minor version needs all members. Until then, a member whose own version
    nobody runs goes back to a patch of the same minor version that did run.
    """
    version, own = s.wanted.version, member.version
    if minor(own) != minor(version) and (s.unsaved or not s.may_change):
        ran = [member.ran, *(voice.version for voice in s.voices.values())]
        good = [v for v in ran if v and minor(v) == minor(own)]
        version = own if own in good else next(iter(good), own)
    same = (own, member.template) == (version, s.wanted.template)
    return None if same else _change(s, member, why, version)


def _let_go(s: Seen, member: Entry, why: str, status: Mapping[str, Any] | None = None) -> Step:
    """Record that a member leaves. It never comes back: its data may be out of date by then."""
    return _set(s, member, why, status, leaving=why)


def _name(s: Seen, version: str) -> Step:
    """Record the entry of a new member."""
    number = s.latched.last_member + 1
    new = Entry(name=f"{s.name}-{number}", version=version, template=s.wanted.template)
    members = [*s.latched.members, new]
    secure = s.latched.secure if s.latched.members else s.wanted.tls
    why = f"{new.name} is to join"
    return latch(s, why, last_member=number, members=members, secure=secure)


def create_pod(s: Seen, member: Entry, boot: Boot) -> Step:
    """Create a member's Pod, which knows the others only when it joins them."""
    listed = ((other.name, s.listed(other)) for other in s.latched.members if boot == "join")
    beside = {name: other.url for name, other in listed if other is not None}
    return Step(Do.CREATE_POD, member.name, boot=boot, uid=member.volume, beside=beside)


def delete_pod(s: Seen, member: Entry, why: str) -> Step:
    """Delete a member's Pod, the one that was seen and no later one."""
    return Step(Do.DELETE_POD, member.name, why, uid=s.pods[member.name].uid)


def _move_leader(s: Seen, member: Entry, among: Sequence[Entry] | None = None) -> Step:
    """Move the leadership to the healthy voter that has applied the most."""
    others = s.voters if among is None else among
    able = [e for e in others if e.name != member.name and not e.leaving and s.healthy(e)]
    if not able:
        return wait(f"no other member can lead in place of {member.name}")
    to = s.voices[max(able, key=lambda e: s.voices[e.name].applied).name]
    return Step(Do.MOVE_LEADER, member.name, body={"targetID": to.id}, ask=member.name)


def decide(s: Seen) -> Step:
    """Return the next step: that of the first rule that has one.

    While TLS is added to two members, which could not do without each other, a third one helps, and
    stays until the last turn is over.
    """
    if s.wanted.size == 2 and (s.adds_tls or (s.latched.moved and s.count == 3)):
        s = dataclasses.replace(s, wanted=dataclasses.replace(s.wanted, size=3))
    return next((step for rule in RULES if (step := rule(s)) is not None), Step(Do.NOTHING))


def meanwhile(s: Seen, step: Step) -> Step:
    """Enlarge volumes in place of a step that only waits: it may wait because disks are full.

    If the status was lost, the volumes stay as they are.
    """
    waits = step.do is Do.WAIT or (step.do is Do.REFUSE and s.latched.cluster_id != "")
    return (_grow(s) if waits else None) or step


# --- rules: what has to be known first ----------------------------------------------------------


def _lost(s: Seen) -> Step | None:
    """Refuse to form a second cluster if the status of the existing one was lost."""
    entries = s.latched.members
    exists = any(member.id for member in entries) if entries else s.pods or s.volumes
    if not exists or (entries and s.latched.cluster_id):
        return None
    why = "the status was lost, but not the cluster: restore status.clusterId, .lastMember and "
    why += ".members (such as from a backup of this object); to start again without the data, "
    return refuse(f"{why}delete its Pods and PersistentVolumeClaims")


def _hibernate(s: Seen) -> Step | None:
    """Delete the Pods if no member is wanted; all else stays, so the members can continue."""
    if s.wanted.size:
        return None
    for name, pod in s.pods.items():
        if not pod.deleting:
            return Step(Do.DELETE_POD, name, HIBERNATES, uid=pod.uid)
    return wait(HIBERNATES)


def _left(s: Seen) -> Step | None:
    """Refuse to form a cluster beside the data of an earlier one, which somebody may want back."""
    if not s.left or s.latched.members or s.latched.cluster_id:
        return None
    why = f"an earlier EtcdCluster {s.name} has left its data in {', '.join(s.left)}: to begin "
    why += "without it, delete these PersistentVolumeClaims, or remove their label "
    why += "etcd.example.com/cluster; to continue with it, create the EtcdCluster again, with the "
    return refuse(f"{why}end of their names in spec.storage.adopt")


def _adopt(s: Seen) -> Step | None:
    """Run the members of an earlier cluster again on their volumes, as a whole.

    They know each other. Their Pods boot as `member`, which never forms a cluster without a log.
    Those that answer stay as they are, as the quorum may need them; what is edited comes later.
    """
    entries = s.latched.members
    if not s.wanted.adopt or s.latched.cluster_id:
        return None
    if not entries and not s.kept:
        return refuse(f"no PersistentVolumeClaim of {s.name} ends with {s.wanted.adopt}")
    noted = {minor(version): version for version in s.kept.values() if version}
    if noted and minor(s.wanted.version) not in noted:
        why = f"the data are of etcd {' and '.join(noted.values())}: set spec.version to that"
        return refuse(f"{why}; it can change once the cluster runs")
    if not entries:
        entries = [
            Entry(name=name, version=s.wanted.version, template=s.wanted.template)
            for name in sorted(s.kept)
        ]
        last, why = max(map(_number, entries)), "its members are those of the earlier cluster"
        return latch(s, why, last_member=last, members=entries)
    missing = {member.name for member in entries} - s.volumes.keys() - s.kept.keys()
    for member in entries:
        if member.name in missing or member.name in s.voices:
            continue
        if (step := start(s, member, "member")) is not None:
            return step
    if s.members is None and missing:
        return refuse(f"no volume is left of {listing(missing)}")
    if s.members is None:
        return wait("the members that are adopted have no quorum yet")
    ids = {member.name: member.id for member in s.members if member.name}
    listed = {member.id for member in s.members}
    ids |= {name: voice.id for name, voice in s.voices.items() if voice.id in listed}
    if unknown := listed - {*ids.values()}:
        why = f"nobody knows the name of {listing(unknown)}: `etcdctl member update` its"
        return refuse(f"{why} peer URL, or bring its volume back, too")
    others = [
        Entry(name=name, version=s.wanted.version, leaving="its volume is gone")
        for name in sorted(ids.keys() - {member.name for member in entries})
    ]
    gone = "it is not a member of the cluster"
    ran = {name: v.version for name, v in s.voices.items() if not v.learner}  # as a voter
    members = [
        replace(
            e,
            id=ids.get(e.name, ""),
            leaving=e.leaving if e.name in ids else gone,
            ran=ran.get(e.name, ""),
        )
        for e in (*entries, *others)
    ]
    cluster_id = next(voice.cluster_id for voice in s.voices.values() if voice.leader)
    last = max(map(_number, members))
    return latch(s, "all are adopted", cluster_id=cluster_id, members=members, last_member=last)


def start(s: Seen, member: Entry, boot: Boot) -> Step | None:
    """Start a member of a cluster that is not formed yet, as is wanted by now."""
    if member.name not in s.volumes:
        return Step(Do.CREATE_VOLUME, member.name)
    if not s.intact(member):
        return _set(s, member, "it has its volume", volume=s.volumes[member.name])
    if not s.as_wanted(member):  # it may be as it is the reason why it does not start
        return _change(s, member, "it is to be as is wanted by now")
    if (pod := s.pods.get(member.name)) is None:
        return create_pod(s, member, boot)
    if not pod.deleting and (pod.ended or not _made_of(pod, member)):
        return delete_pod(s, member, AGAIN)
    return None


def _made_of(pod: Pod, member: Entry) -> bool:
    """Return whether a Pod has the version and the template of its member's entry."""
    return (pod.version, pod.template) == (member.version, member.template)


def _bootstrap(s: Seen) -> Step | None:
    """Form the cluster from one seed, unless the status says that it was formed already."""
    if s.latched.cluster_id:
        return None
    if not s.latched.members and s.refusal:
        return refuse(s.refusal)
    if not s.latched.members:
        return _name(s, s.wanted.version)
    seed = s.latched.members[0]
    voice = s.voices.get(seed.name)
    if voice is not None and voice.leader and s.intact(seed):
        formed = {"cluster_id": voice.cluster_id}
        return _set(s, seed, "it has formed the cluster", formed, id=voice.id, ran=voice.version)
    return start(s, seed, "new") or wait(f"{seed.name} starts")


def _note(s: Seen) -> Step | None:
    """Record what was found before anything depends on it."""
    for member in s.staying:
        listed, pod = s.listed(member), s.pods.get(member.name)
        if not member.volume and member.name in s.volumes:
            return _set(s, member, "it has its volume", volume=s.volumes[member.name])
        if not member.id and listed is not None:
            return _set(s, member, "it is in the member list", id=listed.id)
        if member.proved or listed is None or listed.learner or not s.healthy(member):
            continue
        # Its Pod may have come after another edit: then it has the template that is wanted by now.
        templates = (member.template, s.wanted.template)
        if pod is not None and pod.version == member.version and pod.template in templates:
            done: dict[str, Any] = {"template": pod.template, "proved": True, "ran": ""}
            return _set(s, member, "it is a healthy voter", {"failed_joins": 0}, **done)
    return None


def _secure(s: Seen) -> Step | None:
    """Record whether all peer URLs are with TLS: if one is not, members listen without it, too.

    So TLS is added in three turns: all members get both, then other peer URLs, then only TLS.
    """
    secure = s.wanted.tls and not any(m and m.plain for m in map(s.listed, s.latched.members))
    if s.members is None:
        return None
    if secure != s.latched.secure:
        return latch(s, "the peer URLs are noted", secure=secure)
    now = all(e.proved and e.template == s.wanted.template for e in s.staying)
    return latch(s, "all have TLS", moved="") if secure and s.latched.moved and now else None


def _undo(s: Seen) -> Step | None:
    """Let a member run what the others run if its data are not of the version that it is to run.

    A downgrade ends early if it is canceled, or if the only member that had followed it is lost.
    """
    running = sorted((voice.version for voice in s.voices.values()), key=versions.parsed)
    for member in s.staying if running else ():
        to = minor(member.version)
        if member.proved or to >= minor(running[0]) or s.downgrade == f"3.{to}":
            continue
        own, pod = s.voices.get(member.name), s.pods.get(member.name)
        if own is not None or (pod is not None and pod.stuck):
            version = own.version if own is not None else running[0]
            return _set(s, member, "it runs as the others do", version=version)
    return None


def _take_back_alone(s: Seen) -> Step | None:
    """Without a quorum, change a member without a leader that never ran as it is to what is wanted.

    The quorum may need just this member, even if it is leaving. Of one that did run, only the Pod
    may be of something bad. Its volume stays. One that answers may only be in an election, as long
    as its Pod is ready, or there may be a leader once another one has started.
    """
    there = [e for e in s.latched.members if s.members is None and s.intact(e)]
    pods = {e.name: s.pods.get(e.name, Pod()) for e in there if e.id}
    new = {name for name, pod in pods.items() if pod.deleting or not (pod.address or pod.reason)}
    starting = {name for name in new if not pods[name].stuck}
    for member in there:
        pod, voice = s.pods.get(member.name), s.voices.get(member.name)
        if pod and voice and (voice.leader or pod.ready or starting - {member.name}):
            continue
        if not member.proved and (step := _correct(s, member, "it does not run as it is")):
            return step
        if pod is not None and not pod.deleting and not _may_stay(s, pod, member):
            return delete_pod(s, member, AGAIN)
    return None


def _may_stay(s: Seen, pod: Pod, member: Entry) -> bool:
    """Return whether a Pod is like its member's entry, or like the one that would replace it.

    If it cannot run, only the latter counts: the user may have corrected why.
    """
    idle = bool(pod.stuck) or not pod.address
    templates = {s.wanted.template} if idle else {s.wanted.template, member.template}
    return pod.version == member.version and pod.template in templates


def _restart(s: Seen) -> Step | None:
    """Start a member again whose Pod is gone, even without a quorum, because that can only help.

    Without a quorum, start members that are leaving, too: the quorum may need them.
    """
    for member in s.staying if s.members is not None else s.latched.members:
        pod = s.pods.get(member.name)
        if pod is not None and pod.ended and not pod.deleting:
            return delete_pod(s, member, "it has ended, and the next one runs")
        if pod is not None or not s.intact(member) or not member.id:
            continue
        listed = s.listed(member)
        if listed is not None or s.members is None:
            joins = listed is not None and not listed.started
            return create_pod(s, member, "join" if joins else "member")
    return None


def _unknown(s: Seen) -> Step | None:
    """Wait while no quorum can say who the members are."""
    return wait("") if s.members is None else None  # the condition Available says why


def _settle(s: Seen) -> Step | None:
    """Let the Pod of a member that has its log boot as `member`, before it votes beside others."""
    for member in s.staying:
        pod, voice = s.pods.get(member.name), s.voices.get(member.name)
        if pod is not None and voice is not None and pod.boot in ("new", "join"):
            return Step(Do.SETTLE_POD, member.name, f"{member.name} has its log", uid=pod.uid)
    return None


# --- rules: who leaves --------------------------------------------------------------------------


def _disarm_the_gone(s: Seen) -> Step | None:
    """Disarm the alarm of a member that has left, because the alarm still blocks all writes."""
    ids = {"", *(listed.id for listed in s.members or ())}
    alarm = next((alarm for alarm in s.alarms if alarm.id not in ids), None)
    return _disarm(alarm, "its member has left") if alarm else None


def _disarm(alarm: Alarm, why: str) -> Step:
    body = {"action": "DEACTIVATE", "alarm": alarm.kind, "memberID": alarm.id}
    return Step(Do.DISARM, why=why, body=body)


def _stay(s: Seen) -> Step | None:
    """Keep a healthy voter that was about to leave if it is needed by now."""
    for member in s.voters if len(s.staying) < s.wanted.size else ():
        unwanted = member.leaving.startswith(UNWANTED)
        if unwanted and s.healthy(member) and s.intact(member):
            return _set(s, member, "it is wanted again", leaving="")
    return None


def _leave(s: Seen) -> Step | None:
    """Take a leaving member out of the cluster, then delete its Pod, its volume and its entry."""
    for member in s.latched.members:
        if not member.leaving:
            continue
        listed, pod = s.listed(member), s.pods.get(member.name)
        if listed is not None and not listed.learner:
            if s.count < 2 or s.healthy_beside(member) < quorum(s.count - 1):
                continue
            if s.leads(member):
                if (step := _move_leader(s, member)).do is Do.WAIT:
                    continue
                return step
        if listed is not None:
            return Step(Do.REMOVE, member.name, member.leaving, body={"ID": listed.id})
        if member.id:  # it votes no more, even if the others are silent
            return _set(s, member, "it is no member any more", id="")
        if pod is not None:
            if pod.deleting:  # it ends when its node comes back; nobody waits for that
                continue
            return delete_pod(s, member, member.leaving)
        if member.name in s.volumes:
            return Step(Do.DELETE_VOLUME, member.name, member.leaving, uid=s.volumes[member.name])
        left = [other for other in s.latched.members if other.name != member.name]
        return latch(s, f"nothing is left of {member.name}", members=left)
    return None


def _late(s: Seen) -> Step | None:
    """Take back the addition of a member that had no entry any more when etcd carried it out."""
    entries = {entry.name for entry in s.latched.members}
    for listed in s.members or ():
        if listed.started or not listed.learner or listed.name in ("", *entries):
            continue
        if _number(listed) <= s.latched.last_member:
            why = "it was given up before it was added"
            return Step(Do.REMOVE, listed.name, why, body={"ID": listed.id})
    return None


def _removed(s: Seen) -> Step | None:
    """Let a member go that somebody has removed from the cluster."""
    gone = next((e for e in s.staying if e.id and s.listed(e) is None), None)
    return _let_go(s, gone, "somebody removed it") if gone else None


def _learner(s: Seen) -> Step | None:
    """Promote a learner that has caught up, or let a learner go that cannot start."""
    for member in s.staying:
        if (listed := s.listed(member)) is None or not listed.learner:
            continue
        pod = s.pods.get(member.name)
        if len(s.staying) > s.wanted.size:
            return _let_go(s, member, UNWANTED)
        if member.volume and not s.intact(member):
            return _let_go(s, member, "its volume is gone")
        if (voice := s.voices.get(member.name)) and voice.leader:
            return Step(Do.PROMOTE, member.name, body={"ID": listed.id})
        if s.count == 1 and any(e.template != s.wanted.template for e in s.voters):
            return _let_go(s, member, "the only voter, which it may not reach, changes first")
        if (step := _correct(s, member, "it is to be as is wanted by now")) is not None:
            return step
        if pod is not None:
            if not pod.deleting and not _made_of(pod, member):
                return delete_pod(s, member, AGAIN)
            if pod.stuck:  # if it is being deleted, its node is lost
                failed = {"failed_joins": s.latched.failed_joins + 1, "failed_at": s.now}
                return _let_go(s, member, pod.stuck, failed)
        return wait(f"the learner {member.name} starts")
    return None


def _dead(s: Seen) -> Step | None:
    """Let a dead voter go if the others work without it; a new member replaces it.

    A crash loop does not prove that the data is bad. But if the member was healthy with the same
    version and template before, no other reason is left. One on a lost node never comes back.
    """
    corrupt = {alarm.id for alarm in s.alarms if alarm.kind == "CORRUPT"}
    for member in s.voters:
        pod = s.pods.get(member.name)
        why = ""
        if not s.intact(member):
            why = "its volume is gone"
        elif pod is not None and pod.stuck and (member.proved or pod.deleting):
            why = pod.stuck
        elif member.id in corrupt:
            why = "its data is corrupt"
        if not why or member.leaving:
            continue
        if s.count == len(s.members or ()) == 1:  # a learner may take over yet
            return Step(Do.REFUSE, member.name, f"{member.name} is the only member, and {why}")
        if s.healthy_beside(member) >= quorum(s.count):
            return _let_go(s, member, why)
    return None


def _later(s: Seen) -> Step | None:
    """Wait for a member that cannot leave yet; the urgent rules above do not wait for it."""
    why = f"cannot leave before others are healthy, at least {max(1, quorum(s.count - 1))}"
    return next((wait(f"{member.name} {why}") for member in s.voters if member.leaving), None)


def _anonymous(s: Seen) -> Step | None:
    """Refuse to guess whose data is corrupt if etcd cannot tell."""
    if any(alarm.kind == "CORRUPT" and not alarm.id for alarm in s.alarms):
        why = "the members' data differ, and etcd cannot tell whose is corrupt: compare their "
        why += "hashes (etcdctl endpoint hashkv), delete the volume of the one that differs"
        return refuse(f"{why}, and disarm the alarm")
    if s.latched.compared is not None and s.latched.compared.differ:
        why = f"the members' data differ: {s.latched.compared.differ}; find out which is right, "
        return refuse(f"{why}and delete the volumes of the others, one at a time")
    return None


# --- rules: who joins, and what runs ------------------------------------------------------------


def _join(s: Seen) -> Step | None:
    """Give a new member its volume, then its place in the cluster, as a learner."""
    for member in s.staying:
        if s.listed(member) is not None:
            continue
        if len(s.staying) > s.wanted.size:
            return _let_go(s, member, UNWANTED)
        if member.name not in s.volumes:
            return Step(Do.CREATE_VOLUME, member.name)
        if sum(map(s.healthy, s.voters)) < s.count or len(s.members or ()) > s.count:
            return wait(f"{member.name} is added once all others are healthy voters")
        if s.downgrade:  # a server that joins demands a higher version than is left
            return Step(Do.DOWNGRADE, why=f"{member.name} is to join", body={"action": "CANCEL"})
        return Step(Do.ADD, member.name)
    return None


def _take_back(s: Seen) -> Step | None:
    """Change a voter that never ran as it is to what is wanted now.

    A voter that did run is only sick, which is no reason to change it.
    """
    sick = (e for e in s.voters if not (e.proved or e.leaving or s.healthy(e)))
    return next(filter(None, (_correct(s, e, "it does not run as it is") for e in sick)), None)


def _outdated(s: Seen) -> Step | None:
    """Delete a Pod that differs from its member's entry; first move the leader away from it.

    If a Pod is lost in the middle of a change, its replacement has the new template already.
    """
    for member in sorted(s.voters, key=s.healthy):  # the healthy ones wait for the others
        pod = s.pods.get(member.name)
        if pod is None or pod.deleting or member.leaving:
            continue
        if pod.boot == "member" and _may_stay(s, pod, member):
            continue
        if s.healthy(member) and s.healthy_beside(member) < s.count - 1:
            return wait(f"{member.name} is created again once all others are healthy")
        if s.rare and s.healthy(member):
            return None
        if s.leads(member) and s.count > 1:
            return _move_leader(s, member)
        why = AGAIN if pod.version else "it was changed by hand"
        return delete_pod(s, member, why)
    return None


def _readdress(s: Seen) -> Step | None:
    """Give the only member the peer URL that it is to have, and all those of TLS, one by one.

    A member without TLS could not reach the others by these, so all have to have it first. Each one
    starts again before the next, and one of them leads: so if they do not reach each other by TLS,
    it shows while the rest still is a quorum. Once the user has changed what they are made of, the
    first one gets its former URL back, because all have to have that before it tries again.
    """
    pairs = [(e, listed) for e in sorted(s.voters, key=s.leads) if (listed := s.listed(e))]
    pods = [s.pods[e.name] for e, _ in pairs if e.name in s.pods]
    changed = any(pod.template != s.wanted.template for pod in pods)
    for member, listed in pairs if s.adds_tls and changed else ():
        if member.name in s.pods and not (listed.plain or s.healthy(member)):
            return Step(Do.UPDATE, member.name, body={"ID": listed.id, "plain": True})
    unsure = s.count == 2 or len(pairs) < len(s.members or ())
    if unsure or not all(s.healthy(e) for e, _ in pairs):
        return None
    done = [e for e, listed in pairs if not listed.plain]
    for member in done:
        if s.pods[member.name].uid == s.latched.moved:
            return delete_pod(s, member, "the next one is reached by its new peer URL")
    tls = s.wanted.tls and not changed and not any(pod.plain for pod in pods)
    for member, listed in pairs:
        wrong = len(pairs) == 1 and (not listed.name or not (listed.plain or s.wanted.tls))
        if not wrong and not (tls and listed.plain):
            continue
        if done and (leader := next((e for e, old in pairs if old.plain and s.leads(e)), None)):
            return _move_leader(s, leader, done)
        latched = replace(s.latched, moved=s.pods[member.name].uid if len(pairs) > 1 else "")
        body = {"ID": listed.id, "plain": s.pods[member.name].plain}
        return Step(Do.UPDATE, member.name, body=body, latched=latched)
    return None


def _surplus_and_sick(s: Seen) -> Step | None:
    """If there are too many members, let a sick one go first."""
    for member in s.voters if len(s.staying) > s.wanted.size else ():
        sick = not member.leaving and not s.healthy(member)
        if sick and s.healthy_beside(member) >= quorum(s.count):
            return _let_go(s, member, f"{UNWANTED}, and not healthy")
    return None


def _unsettled(s: Seen) -> Step | None:
    """Wait with everything that is not urgent until all members are healthy."""
    sick = [member.name for member in s.staying if not (member in s.voters and s.healthy(member))]
    if sick:
        return wait(f"the rest waits for {listing(sick)} to be healthy")
    known = {entry.name: entry.id for entry in s.latched.members}
    for member in s.members or ():
        if member.name in known:
            continue
        if member.id in known.values():
            why = "somebody changed the peer URL of"
            return refuse(f"{why} {member.id}; `etcdctl member update` it back")
        why = f"somebody added the member {member.id}; remove it, or scale the cluster instead"
        return refuse(why)
    return None


def _space(s: Seen) -> Step | None:
    """Defragment each member that has no space, the leader last, and disarm its alarm.

    A member reports the space in use as of its last commit, and without space there are no commits.
    So the smallest report of all members is the right one. A member may also report nothing: then
    the size of its file counts. Each member with a large file is defragmented once in a while.
    """
    if not (alarms := [alarm for alarm in s.alarms if alarm.kind == "NOSPACE"]):
        return None
    done = {record.id: record.at for record in s.latched.defragmented}
    used = min(voice.used or voice.size for voice in s.voices.values())
    for member in sorted(s.voters, key=s.leads):
        voice = s.voices[member.name]
        large = not voice.quota or voice.size > LARGE * voice.quota
        rest = SHORT_REST if used < LARGE * voice.size else REST
        if large and s.now - done.get(member.id, 0.0) > rest:
            return _defragment(s, member, "it has no space left")
    if any(v.quota and v.size > FULL * v.quota for v in s.voices.values()):
        if any(member.template != s.wanted.template for member in s.voters):
            return None  # the quota may be raised by that
        return refuse("the data fills the quota; delete keys and compact, or raise the quota")
    return _disarm(alarms[0], "there is space again")


def _defragment(s: Seen, member: Entry, why: str) -> Step:
    done = {record.id: record for record in s.latched.defragmented}
    done[member.id] = Defragmented(member.id, s.now)
    records = [done[e.id] for e in s.voters if e.id in done]
    latched = replace(s.latched, defragmented=records)
    return Step(Do.DEFRAGMENT, member.name, why, latched=latched, ask=member.name)


def _version(s: Seen) -> Step | None:
    """Change one member after the other, the leader last; announce a downgrade to etcd first."""
    if s.rare:
        return None
    wanted, target = minor(s.wanted.version), s.downgrade
    voices = list(s.voices.values())
    minors = {minor(voice.version) for voice in voices}
    lowest = min(minors)
    cancel = Step(Do.DOWNGRADE, why=f"{target} is not wanted", body={"action": "CANCEL"})
    old = [e for e in sorted(s.voters, key=s.leads) if e.template != s.wanted.template]
    if old and s.wanted.tls and (s.refusal or not s.latched.secure):  # a backup needs all alike
        return _change(s, old[0], "it gets TLS", old[0].version)
    if s.refusal:
        return cancel if target else None  # it is told; all else goes on
    if s.unsaved:
        if s.backup is None:
            return Step(Do.BACK_UP, why=f"a backup is taken before {s.wanted.version}")
        why = f"the backup before {s.wanted.version} has failed: {s.backup}; once the cause is "
        return refuse(f"{why}removed, delete the EtcdBackup to try again")
    if minors == {6} and wanted == 7 and not s.latched.flushed:  # where 3.7 runs, all was read
        return _flush(s)
    if wanted == 5 and s.latched.flushed:
        return latch(s, "3.5 may write its entries again", flushed=False)
    if target and target != f"3.{wanted}" and wanted >= lowest:
        return cancel
    if target and any(v.storage and not v.storage.startswith(f"{target}.") for v in voices):
        return wait(f"each member converts its storage before the first runs {target}")
    if wanted == 7 and any(v.storage.startswith("3.5.") for v in voices):
        return wait("the storage is that of 3.6 again in a moment")
    if wanted < lowest and not target:
        return Step(Do.DOWNGRADE, body={"action": "ENABLE", "version": f"3.{wanted}"})
    if changed := [member for member in s.voters if not s.as_wanted(member)]:
        return _change(s, min(changed, key=s.leads), "it is the next to change")
    return wait("the downgrade ends") if target else None


def _flush(s: Seen) -> Step:
    """Make each member take a snapshot, because 3.7 panics if its log still has an entry of 3.5.

    Members take a snapshot when a downgrade to 3.5 is enabled, which is canceled after that.
    """
    if not s.downgrade:
        body = {"action": "ENABLE", "version": "3.5"}
        return Step(Do.DOWNGRADE, why="each member takes a snapshot", body=body)
    if all(voice.storage.startswith("3.5.") for voice in s.voices.values()):
        return latch(s, "each member has taken a snapshot", flushed=True)
    return wait("each member takes a snapshot before 3.7")


def _size(s: Seen) -> Step | None:
    """Name one more member, or let the newest one go that is not the leader."""
    if len(s.staying) < s.wanted.size:
        if s.latched.failed_joins >= FAILURES and s.now - s.latched.failed_at < PATIENCE:
            why = f"{FAILURES} new members in a row did not start; the last ones' logs say why"
            return refuse(why)
        return _name(s, s.staying[0].version)
    if len(s.staying) > s.wanted.size:
        newest = max(s.staying, key=lambda member: (not s.leads(member), _number(member)))
        return _let_go(s, newest, UNWANTED)
    return None


def _grow(s: Seen) -> Step | None:
    """Request more space for a volume that is smaller than wanted, which can only help.

    Without a quorum, do so for members that are leaving, too: the quorum may need them.
    """
    for member in s.staying if s.members is not None else s.latched.members:
        if member.name in s.small and s.intact(member):
            why = f"the volume of {member.name} is to grow"
            return Step(Do.GROW_VOLUME, member.name, why, uid=member.volume)
    return None


def _tidy(s: Seen) -> Step | None:
    """Defragment members from time to time, the leader last, once it leads no more."""
    done = {record.id: record.at for record in s.latched.defragmented}
    for member in sorted(s.voters, key=s.leads) if s.wanted.defragment else ():
        voice = s.voices[member.name]
        recent = s.now - done.get(member.id, 0.0) < s.wanted.defragment
        if recent or voice.used > DENSE * voice.size:
            continue
        if s.leads(member) and s.count > 1:
            return _move_leader(s, member)
        return _defragment(s, member, "it is time")
    return None


def _number(member: Entry | Listed) -> int:
    return int(member.name.rpartition("-")[2])


RULES: tuple[Callable[[Seen], Step | None], ...] = (
    _lost,
    _hibernate,
    _left,
    _adopt,
    _bootstrap,
    _note,
    _secure,
    _undo,
    _take_back_alone,
    _restart,
    _unknown,
    _settle,
    _disarm_the_gone,
    _stay,
    _leave,
    _late,
    _removed,
    _dead,
    _learner,
    _later,
    _anonymous,
    _readdress,
    _take_back,
    _outdated,
    _join,
    _surplus_and_sick,
    _unsettled,
    _space,
    _version,
    _size,
    _grow,
    _tidy,
)
