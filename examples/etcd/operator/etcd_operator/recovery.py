"""Decides the next step while an EtcdRestore is carried out: a pure function, as `decide` is.

It comes before all rules of `decide`. What it does cannot be undone, so each part is recorded
first, with the uid of the EtcdRestore, which therefore acts only once.
"""

import dataclasses
from collections.abc import Sequence

from msgspec.structs import replace

from etcd_operator.decide import Boot, Do, Seen, Step, create_pod, delete_pod, latch, start, wait
from etcd_operator.kinds import Basis, Entry, Recovery, Status, basis, listing

#: Why the members leave that do not survive.
LOST = "it was lost with the quorum"
#: Seconds between two notes of the revision.
NOTED = 300.0


@dataclasses.dataclass(frozen=True)
class Order:
    """An EtcdRestore that is not complete."""

    uid: str
    name: str
    #: What it is for; None until that is recorded.
    basis: Basis | None = None
    #: Whether its backup was read and verified, or the loss is accepted.
    accepted: bool = False
    #: Whether the data of a member are what is restored; of which one, empty for the best.
    survivor: bool = False
    member: str = ""
    #: The member whose volume has the backup by now.
    filled: str = ""


def recover(s: Seen, orders: Sequence[Order]) -> Step | None:
    """Return the next step of a recovery; None if there is nothing to recover.

    Nothing begins as long as the EtcdRestore that began last does not say itself that it is done.
    """
    now = s.latched.recovery
    if not s.latched.members and (s.pods or s.volumes):
        return None  # the status was lost, and names that are taken with it
    order = next((one for one in orders if now is not None and one.uid == now.uid), None)
    if order is None:
        begun = (_begin(s, one) for one in sorted(orders, key=lambda one: not one.accepted))
        if (step := next(filter(None, begun), None)) is not None:
            return step
    if now is None or now.ended:
        return None
    if now.survivor:
        return _force(s, now, next(e for e in s.latched.members if e.name == now.survivor))
    return _clear(s, now) or _fill(s, now, order)


def note(s: Seen) -> Step | None:
    """Note the revision now and then; if the quorum is lost, it shows how much is lost."""
    highest = _highest(s)
    if highest <= s.latched.revision or s.now - s.latched.revision_at < NOTED:
        return None
    return latch(s, "the revision is noted", revision=highest, revision_at=s.now)


def _highest(s: Seen) -> int:
    return max((s.latched.revision, *(voice.revision for voice in s.voices.values())))


def _begin(s: Seen, order: Order) -> Step | None:
    """Record which restore begins, and that all members leave, or which one survives.

    The status of the cluster alone tells which restore was the last. So of two that are for the
    same state of the cluster, only one begins, no matter when each is accepted; and none begins in
    another cluster of that name.
    """
    meant = order.basis == basis(s.uid, s.latched.recovery)
    if not order.accepted:
        # A new cluster has nothing to do in the meantime: it is born with the backup.
        new = not s.latched.members and (meant or order.basis is None)
        return wait(f"EtcdRestore {order.name} is checked") if new else None
    if not meant:
        return None
    why = f"EtcdRestore {order.name} replaces the data"
    if not order.survivor:
        gone = [replace(entry, leaving=entry.leaving or why) for entry in s.latched.members]
        recovery = Recovery(uid=order.uid, revision=_highest(s))
        return latch(s, why, recovery=recovery, members=gone)
    return _choose(s, order)


def _choose(s: Seen, order: Order) -> Step | None:
    """Record which member survives; None if there is a quorum again, or if it cannot be chosen.

    A member that has started again since the quorum was lost is silent. Of several such members,
    nobody knows which one has the newest data, so a person has to name it.
    """
    if s.members is not None:
        return None
    there = {*s.volumes, *s.kept}
    named = [e for e in s.staying if order.member in ("", e.name) and e.name in there]
    able = [entry for entry in named if s.intact(entry) and _voted(s, entry)]
    heard = [entry for entry in able if entry.name in s.voices]
    if not heard and (not able or len(named) > 1):
        return None

    def age(entry: Entry) -> tuple[int, int]:
        voice = s.voices[entry.name]
        return voice.revision, voice.index

    best = max(heard, key=age, default=able[0])
    recovery = Recovery(uid=order.uid, survivor=best.name, lost=_lost(s, best))
    return latch(s, f"{best.name} survives", recovery=recovery)


def _voted(s: Seen, entry: Entry) -> bool:
    """Return whether a member is a voter, or was one; of those to be adopted, nobody knows."""
    if (voice := s.voices.get(entry.name)) is not None:
        return not voice.learner
    adopted = bool(s.wanted.adopt) and not s.latched.cluster_id
    return entry.proved or bool(entry.ran) or adopted


def _lost(s: Seen, survivor: Entry) -> int:
    """Return how many revisions a member lacks; 0 while it does not answer."""
    voice = s.voices.get(survivor.name)
    return max(0, s.latched.revision - voice.revision) if voice is not None else 0


def _end_pods(s: Seen, members: Sequence[Entry], why: str = "") -> Step | None:
    """Delete the Pods of members, by default because they leave, and wait until they have ended."""
    running = [member for member in members if member.name in s.pods]
    for member in running:
        if not s.pods[member.name].deleting:
            return delete_pod(s, member, why or member.leaving)
    names = listing(member.name for member in running) if running else ""
    why = f"the rest waits for {names} to end; if a node is lost, delete its Pod by force"
    return wait(why) if running else None


# --- a backup --------------------------------------------------------------------------------


def _clear(s: Seen, now: Recovery) -> Step | None:
    """Delete all Pods, then all volumes; then name the member that gets the backup."""
    old = [member for member in s.latched.members if member.leaving]
    if (step := _end_pods(s, old)) is not None:
        return step
    for member in old:
        if member.name in s.volumes:
            return Step(Do.DELETE_VOLUME, member.name, member.leaving, uid=s.volumes[member.name])
    if s.latched.members and not old:
        return None
    # A claim of that name that waits to be adopted has data already.
    kept = [int(name.rpartition("-")[2]) for name in s.kept]
    number = max([s.latched.last_member, *kept]) + 1
    seed = Entry(name=f"{s.name}-{number}", version=s.wanted.version, template=s.wanted.template)
    latched = Status(last_member=number, members=[seed], recovery=now, secure=s.wanted.tls)
    return Step(Do.LATCH, why=f"{seed.name} gets the backup", latched=latched)


def _fill(s: Seen, now: Recovery, order: Order | None) -> Step:
    """Boot the only member from its volume once the backup is there."""
    (seed,) = s.latched.members
    if s.intact(seed) and (voice := s.voices.get(seed.name)) is not None and voice.leader:
        return latch(
            s,
            "the backup is restored",
            members=[replace(seed, id=voice.id, ran=voice.version)],
            cluster_id=voice.cluster_id,
            recovery=replace(now, ended=True),
        )
    filled = order is not None and order.filled == seed.name
    # From then on, the data are of its version, which another one may not be able to read.
    wanted = dataclasses.replace(s.wanted, version=seed.version) if filled else s.wanted
    step = start(dataclasses.replace(s, wanted=wanted), seed, "member")  # its log is there
    if step is not None and (filled or step.do is not Do.CREATE_POD):
        return step
    return wait(f"{seed.name} starts" if filled else f"the volume of {seed.name} gets the backup")


# --- a survivor ------------------------------------------------------------------------------


def _force(s: Seen, now: Recovery, survivor: Entry) -> Step:
    """Make the survivor the only member, then replace its Pod; the others' data never come back."""
    others = [other for other in s.latched.members if other.name != survivor.name]
    if (step := _end_pods(s, others, LOST)) is not None:
        return step
    pod, voice = s.pods.get(survivor.name), s.voices.get(survivor.name)
    boot: Boot = "member" if now.alone else "force"
    if pod is None:
        return create_pod(s, survivor, boot)
    if pod.deleting:
        return wait(f"{survivor.name} ends")
    # What a Pod was made of that does not run may have been corrected since then.
    outdated = voice is None and pod.template != s.wanted.template
    if pod.boot != boot or pod.ended or outdated:
        return delete_pod(s, survivor, f"the next one boots as `{boot}`")
    if voice is None or [s.listed(survivor)] != [*(s.members or ())]:
        return wait(f"{survivor.name} becomes the cluster")
    if now.alone:
        return latch(s, f"{survivor.name} serves alone", recovery=replace(now, ended=True))
    # Of one to be adopted, both were not known.
    alone = replace(survivor, id=voice.id, ran="" if survivor.proved else voice.version)
    gone = [replace(member, leaving=member.leaving or LOST, id="") for member in others]
    return latch(
        s,
        f"{survivor.name} is the cluster",
        members=[alone, *gone],
        cluster_id=voice.cluster_id,
        recovery=replace(now, lost=max(now.lost, _lost(s, survivor)), alone=True),
    )
