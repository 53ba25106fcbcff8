"""The kind EtcdRestore: replaces the data of a cluster once, because a person has asked for it.

A backup is read and verified before anything is deleted. Then the controller of the cluster removes
the members, as `recovery` decides, and a Job of the EtcdRestore fills the first new member's
volume.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import kopf_runtime as kr
import msgspec
from msgspec import Meta

from etcd_operator import agent, jobs, kinds, stored
from etcd_operator.backups import EtcdBackup
from etcd_operator.jobs import JOB, POD, Course
from etcd_operator.kinds import BACKUP, CLUSTER, Entry, EtcdCluster, Text
from etcd_operator.manifests import Manifest
from etcd_operator.recovery import Order
from etcd_operator.settings import Settings, manager
from etcd_operator.stored import Path, Taken


class FromBackup(kr.Fields, frozen=True, kw_only=True):
    """A backup that an EtcdBackup of the same namespace has taken."""

    name: kr.ObjectName
    """The EtcdBackup."""
    entry: Path = ""
    """The name of one in its status; empty for the newest."""


class FromStore(kr.Fields, frozen=True, kw_only=True):
    """A backup in a store, such as that of another cluster."""

    store: Annotated[stored.Store, stored.ONE]
    name: Annotated[Path, Meta(min_length=1)]
    """Its file, below prefix or path."""
    sha256: stored.Sha256 | None = None
    """If the record beside it is not to be trusted."""


class Survivor(kr.Fields, frozen=True):
    """The data of a member that is left after the quorum was lost for good."""

    member: Annotated[str, Meta(max_length=63)] = ""
    """Which; empty for the one with the newest data of those that answer."""


class Source(kr.Fields, frozen=True):
    """What the data is restored from: exactly one of these."""

    backup: FromBackup | None = None
    store: FromStore | None = None
    survivor: Survivor | None = None


class Spec(kr.Fields, frozen=True, kw_only=True):
    """What is restored, and where."""

    cluster: kr.ObjectName
    """The EtcdCluster whose data are replaced."""
    confirm: kr.ObjectName
    """Its name again: all that was written after the backup is lost."""
    source: Source
    revision_bump: Annotated[int, Meta(ge=0, le=10**15)] = 10**9
    """By how much revisions are raised above all that are known, so that none comes back that a
    client may have seen: more than were written in five minutes."""


Phase = Literal["Checking", "Waiting", "Restoring", "Complete", "Refused"]


class Shown(kr.Fields, frozen=True):
    """The fields that are only for users."""

    phase: Phase = "Checking"
    """How far it is."""


class Status(Shown, frozen=True):
    """The status, with what the operator has to remember."""

    basis: kinds.Basis | None = None
    """What it is for. It acts neither for another EtcdCluster of that name, nor after another
    EtcdRestore."""
    accepted: bool = False
    """Whether it may be carried out."""
    backup: Taken | None = None
    """What is restored."""
    filled: Annotated[str, Meta(max_length=63)] = ""
    """The member whose volume has the backup."""
    lost: int = 0
    """Of a survivor: how many revisions are lost, as far as is known."""
    refused: Text = ""
    """Why it is not carried out."""
    complete: bool = False
    """Whether it was carried out."""
    joining: bool = False
    """Whether members were still to join after that."""


@kr.custom_resource(
    "etcd.example.com",
    "v1alpha1",
    "etcdrestores",
    status=Status,
    ready="the data are restored",
    printer_columns=[
        kr.Column("Cluster", ".spec.cluster"),
        kr.Column("Phase", ".status.phase"),
        kr.Column("Backup", ".status.backup.time"),
        kr.Column("Revision", ".status.backup.revision"),
        kr.READY,
        kr.AGE,
    ],
    validations=[
        kr.ValidationRule(
            "self.spec.confirm == self.spec.cluster",
            "spec.confirm must repeat the name of the cluster, whose data are replaced",
            ".spec.confirm",
        ),
        kr.ValidationRule(
            "self.spec == oldSelf.spec",
            "an EtcdRestore cannot be changed, since it acts once; create another one",
            ".spec",
        ),
        kr.ValidationRule(
            "[has(self.spec.source.backup), has(self.spec.source.store), "
            "has(self.spec.source.survivor)].filter(one, one).size() == 1",
            "spec.source must have exactly one of backup, store and survivor",
            ".spec.source",
        ),
        jobs.SHORT,
    ],
)
class EtcdRestore(kr.Resource, kw_only=True):
    """An EtcdRestore replaces the data of an EtcdCluster with a backup, or with a member's data."""

    spec: Spec


controller = manager.controller_for(EtcdRestore, transform=lambda restore: restore.spec)
controller.owns(JOB, kr.Job, update=kr.CREATE, transform=kr.Job.run)
controller.descendants(POD, kr.Pod, transform=kr.Pod.attempt)
controller.reads(
    CLUSTER, EtcdCluster, keys=lambda restore: [restore.spec.cluster], transform=kinds.known
)
controller.reads(
    BACKUP,
    EtcdBackup,
    keys=lambda restore: [restore.spec.source.backup.name] if restore.spec.source.backup else [],
    transform=lambda backup: (backup.spec.store, backup.status.get("backups", [])),
)


def orders(namespace: str, cluster: str) -> list[Order]:
    """Return the EtcdRestores of a cluster that are neither complete nor refused."""
    pending = [
        (owner, msgspec.convert(owner.status, Status))
        for owner in controller.owners
        if owner.key[0] == namespace and owner.view.cluster == cluster
    ]
    return [
        Order(
            owner.uid,
            owner.key[1],
            status.basis,
            accepted=status.accepted,
            survivor=owner.view.source.survivor is not None,
            member=owner.view.source.survivor.member if owner.view.source.survivor else "",
            filled=status.filled,
        )
        for owner, status in sorted(pending, key=lambda pair: pair[0].key)
        if not (status.complete or status.refused)
    ]


# --- what is restored ----------------------------------------------------------------------------


def request(restore: EtcdRestore, context: kr.StepContext[Settings], version: str) -> agent.Fetch:
    """Return what the agent is to fetch; raise `kr.Wait` while that is not known."""
    source, remembered = restore.spec.source, context.last(Status).backup
    if (file := source.store) is not None:
        return agent.Fetch(store=file.store, name=file.name, version=version, sha256=file.sha256)
    assert source.backup is not None
    store, entries = context.read(BACKUP, source.backup.name)
    taken = remembered
    if taken is None:
        listed = msgspec.convert(entries, list[Taken])
        wanted = source.backup.entry
        taken = next((backup for backup in listed if wanted in ("", backup.name)), None)
    if taken is None:
        which = f"named {source.backup.entry}" if source.backup.entry else "yet"
        raise kr.Wait("BackupMissing", f"EtcdBackup {source.backup.name} has no backup {which}.")
    return agent.Fetch(store=store, name=taken.name, version=version, sha256=taken.sha256)


@dataclass(frozen=True)
class Target:
    """What is known of the cluster whose data is replaced."""

    #: How far this EtcdRestore has come; None if the cluster has not begun with it.
    recovery: kinds.Recovery | None
    #: The member whose volume gets the backup, once there is one.
    seed: Entry | None
    #: The status of its condition Available.
    available: str
    #: What an EtcdRestore would be for that is created now.
    basis: kinds.Basis | None = None
    #: Whether nothing is changed for now.
    paused: bool = False
    #: What is said of it while a member is to join yet; else empty.
    unready: str = "it is not looked at."


def target(restore: EtcdRestore, cluster: EtcdCluster) -> Target:
    """Return what the cluster's status says about this EtcdRestore."""
    latched = msgspec.convert(cluster.status, kinds.Status)
    available = kr.condition(cluster.status, "Available").get("status", "")
    now, own = latched.recovery, kinds.basis(cluster.metadata.uid, latched.recovery)
    ready, paused = kr.condition(cluster.status, "Ready"), cluster.spec.paused
    staying = [member for member in latched.members if not member.leaving]
    whole = available == "True" and all(member.proved for member in staying)
    whole = whole and len(staying) >= cluster.spec.size
    unready = "" if whole or not cluster.spec.size else ready.get("message", "it begins.")
    if now is None or now.uid != restore.metadata.uid:
        return Target(None, None, available, own, paused, unready)
    seeds = [member for member in staying if member.volume]
    seed = seeds[0] if seeds and not now.survivor else None
    return Target(now, seed, available, own, paused, unready)


def news(
    spec: Spec, status: Status, to: Target, check: Course, fill: Course, rival: str = ""
) -> dict[str, Any] | None:
    """Return the fields to record now; None if nothing has changed.

    `rival` is another EtcdRestore that the cluster has begun with.
    """
    if status.complete or status.refused:  # another one may have begun since
        joined = status.joining and (not to.unready or to.recovery is None)
        return {"joining": False} if joined else None
    if status.basis is None and to.basis is not None:
        return {"basis": to.basis}
    if to.recovery is not None and to.recovery.ended:
        return {"complete": True, "joining": True, "lost": to.recovery.lost}
    if to.recovery is None and (why := superseded(spec.cluster, status.basis, to.basis, rival)):
        return {"refused": why}
    if spec.source.survivor is not None:
        if to.available == "True" and to.recovery is None:
            # Even if it was accepted: what was asked for is not to happen at the next loss.
            return {"refused": "the cluster has a quorum, so nothing is lost"}
        return {"accepted": True} if to.available == "False" and not status.accepted else None
    if status.accepted:
        if to.seed is None or fill.ended != "" or status.filled == to.seed.name:
            return None
        return {"filled": to.seed.name}
    if check.ended:
        return {"refused": (check.failure or check.ended)[:1024]}
    if check.ended == "" and check.report is not None and check.report.taken is not None:
        return {"accepted": True, "backup": check.report.taken}
    return None


def superseded(cluster: str, basis: kinds.Basis | None, now: kinds.Basis | None, rival: str) -> str:
    """Return why an EtcdRestore is not for the cluster that is there now; empty if it is."""
    if rival:
        return f"EtcdRestore {rival} is being carried out"
    if basis == now or basis is None or now is None:
        return ""
    if basis.cluster != now.cluster:
        why = f"it was for another EtcdCluster {cluster}, which was deleted; if it is for this "
        return f"{why}one, too, create it again"
    return "another EtcdRestore has begun since; if it is to follow that one, create it again"


@dataclass(frozen=True)
class Look:
    """What `sync` has found: the cluster and both Jobs."""

    to: Target
    check: Course
    fill: Course


def _names(restore: EtcdRestore, seed: Entry | None) -> tuple[str, str]:
    """Return the names of the Jobs that check the backup, and that fill a volume with it."""
    name = restore.metadata.name
    if seed is None:
        return f"{name}-check", ""
    # As the version has its etcdutl, another version is another Job.
    number, version = seed.name.rpartition("-")[2], seed.version.replace(".", "-")
    return f"{name}-check", f"{name}-{number}-{version}"


@controller.sync(every=5, on=(JOB, POD))
async def follow(restore: EtcdRestore, context: kr.CallContext[Settings]) -> Look:
    """Record how far the Jobs and the cluster are."""
    status, cluster = context.last(Status), context.read(CLUSTER, restore.spec.cluster)
    to = target(restore, cluster)
    check, fill = (jobs.course(context, name) for name in _names(restore, to.seed))
    pending = orders(restore.metadata.namespace, restore.spec.cluster)
    began = to.basis.restore if to.basis is not None and to.recovery is None else ""
    rival = next((order.name for order in pending if order.uid == began), "")
    while (fields := news(restore.spec, status, to, check, fill, rival)) is not None:
        await context.record(fields)
        status = msgspec.structs.replace(status, **fields)
    return Look(to, check, fill)


@controller.desired(stepwise=True)
def desired(restore: EtcdRestore, context: kr.StepContext[Settings]) -> list[Manifest]:
    """Return the Job that checks the backup, then the one that fills the volume."""
    status, look = context.last(Status), context.sync_result
    if status.complete or status.refused or restore.spec.source.survivor is not None:
        return []
    cluster: EtcdCluster = context.read(CLUSTER, restore.spec.cluster)
    check, fill = _names(restore, look.to.seed)
    if not status.accepted:
        fetch = request(restore, context, cluster.spec.version)
        return [jobs.check(cluster, check, fetch, context.settings)]
    if look.to.seed is None or status.filled == look.to.seed.name:  # then a member runs on it
        return []
    fetch = request(restore, context, look.to.seed.version)
    # The data that is replaced may itself have been restored, and its revisions raised.
    ahead = look.to.recovery.revision if look.to.recovery is not None else 0
    bump = restore.spec.revision_bump
    bump += max(0, ahead - (status.backup.revision if status.backup is not None else 0))
    token = f"{cluster.metadata.uid}-{restore.metadata.uid[:8]}"
    return [jobs.restore(cluster, fill, look.to.seed.name, token, fetch, bump, context.settings)]


@controller.status
def status(spec: Spec, seen: kr.Observed) -> kr.Status:
    """Return the status of a restore."""
    if seen.sync_result is None:
        return kr.default_status(seen)
    phase, text = verdict(spec, seen.last(Status), seen.sync_result)
    return kr.Status(phase == "Complete", phase, text, Shown(phase=phase))


def verdict(spec: Spec, status: Status, look: Look) -> tuple[Phase, str]:
    """Return the phase of a restore, and a sentence about it."""
    if status.complete:
        lost = f" Revisions that are lost: at least {status.lost}." if status.lost else ""
        text = f"The data of {spec.cluster} are restored.{lost}"
        if status.joining:
            text += f" EtcdCluster {spec.cluster} is not as wanted yet: {look.to.unready}"
        return "Restoring" if status.joining else "Complete", text
    if status.refused:
        return "Refused", f"The data are not replaced: {status.refused.rstrip('.')}."
    if not status.accepted:
        if spec.source.survivor is not None:
            return "Checking", "Whether the quorum is lost is not known yet."
        return "Checking", f"The backup is read and verified.{look.check.trouble}"
    if look.to.paused:
        text = f"EtcdCluster {spec.cluster} is paused: set its spec.paused to false to go on."
        return "Waiting" if look.to.recovery is None else "Restoring", text
    if look.to.recovery is None:
        text = f"EtcdCluster {spec.cluster} is about to begin."
        if spec.source.survivor is not None:
            text += " If no member answers, create this EtcdRestore again, with the name of one."
        return "Waiting", text
    if look.fill.ended:
        why = (look.fill.failure or look.fill.ended).rstrip(".")
        return "Restoring", f"The backup cannot be fetched; delete the Job to try again: {why}."
    if survivor := look.to.recovery.survivor:
        return "Restoring", f"EtcdCluster {spec.cluster} becomes what {survivor} has."
    return "Restoring", f"EtcdCluster {spec.cluster} stops and gets the backup.{look.fill.trouble}"
