"""The kind EtcdBackup: takes backups of a cluster, once or on a schedule, each in a Job.

The status records a run before its Job is created, and the Job's report before the Job is removed.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any

import kopf_runtime as kr
import msgspec
from msgspec import Meta

from etcd_operator import agent, jobs, stored
from etcd_operator.cron import Schedule
from etcd_operator.jobs import JOB, POD, Course
from etcd_operator.kinds import BACKUP, CLUSTER, ID, EtcdCluster, Text, fixed, known
from etcd_operator.manifests import Manifest
from etcd_operator.settings import Settings, manager
from etcd_operator.stored import Taken

MAX_BACKUPS = 30  # backups that the status lists
#: Seconds for which the Pod of a complete Job may be news to us: each kind has a watch of its own.
LATE, HIBERNATED, CLAIM = 60.0, "Hibernated", kr.kinds.PERSISTENT_VOLUME_CLAIM
Cron = Annotated[str, Meta(max_length=100)]
TIME = "%Y-%m-%dT%H:%M:%SZ"


class Keep(kr.Fields, frozen=True):
    """Which backups of the cluster are kept. The newest one always is."""

    last: Annotated[int, Meta(ge=1, le=1000)] = 28
    """How many."""
    days: Annotated[int, Meta(ge=0, le=36_500)] = 0
    """Days to keep; 0 sets no limit."""
    discard: Annotated[list[ID], Meta(max_length=100)] = []
    """IDs of former clusters of the same name: their backups are kept, unless listed here."""


class Spec(kr.Fields, frozen=True, kw_only=True, omit_defaults=True):  # the API takes no null
    """What is backed up, when, and where to."""

    cluster: Annotated[kr.ObjectName, fixed("the cluster of an EtcdBackup cannot be changed")]
    """The EtcdCluster."""
    store: Annotated[
        stored.Store, fixed("the store of an EtcdBackup cannot be changed"), stored.ONE
    ]
    """Where to."""
    schedule: Cron | None = None
    """When, as cron has it, such as "0 */6 * * *"; without it, once."""
    time_zone: Annotated[str, Meta(max_length=64)] = "UTC"
    """That of the schedule."""
    suspended: bool = False
    """Whether no backup is begun."""
    timeout: Annotated[int, Meta(ge=60, le=86_400)] = 1800
    """Seconds for a backup with all its retries."""
    retries: Annotated[int, Meta(ge=0, le=20)] = 4
    """How often one that fails is tried again."""
    keep: Keep = Keep()


class Run(kr.Fields, frozen=True, kw_only=True):
    """A backup that was begun."""

    job: kr.ObjectName
    due: float
    """For when it was due, in seconds of Unix time."""
    ended: bool = False


class Shown(kr.Fields, frozen=True):
    """The fields that are only for users."""

    last: Taken | None = None
    """The newest one."""
    next_time: Annotated[str, Meta(max_length=32)] = ""
    """When the next one is due."""


class Status(Shown, frozen=True):
    """The status, with what the operator has to remember."""

    run: Run | None = None
    backups: Annotated[list[Taken], Meta(max_length=MAX_BACKUPS)] = []
    """The newest ones, the newest first."""
    failures: Annotated[int, Meta(ge=0)] = 0
    """Backups in a row that have failed."""
    error: Text = ""
    """Why the last one has failed."""
    warning: Text = ""
    """What went wrong beside the last one."""


@kr.custom_resource(
    "etcd.example.com",
    "v1alpha1",
    "etcdbackups",
    status=Status,
    ready="the backup is complete, or none of a schedule has failed since the last one",
    printer_columns=[
        kr.Column("Cluster", ".spec.cluster"),
        kr.Column("Schedule", ".spec.schedule"),
        kr.Column("Last", ".status.last.time"),
        kr.Column("Revision", ".status.last.revision"),
        kr.Column("Size", ".status.last.size", wide=True),
        kr.READY,
        kr.REASON,
        kr.AGE,
    ],
    validations=[jobs.SHORT],
)
class EtcdBackup(kr.Resource, kw_only=True):
    """An EtcdBackup takes backups of an EtcdCluster to a store, once or on a schedule."""

    spec: Spec


# --- what is next --------------------------------------------------------------------------------


def due(spec: Spec, status: Status, created: float, now: float) -> float | None:
    """Return the time for which a backup is due now; None if no backup is due.

    If several times were missed, for example while nothing ran, only the last one counts. Raise
    `ValueError` if the schedule is invalid.
    """
    if spec.schedule is None:
        return created if status.run is None else None
    if spec.suspended or (status.run is not None and not status.run.ended):
        return None
    last = Schedule(spec.schedule, spec.time_zone).before(datetime.fromtimestamp(now, UTC))
    before = created if status.run is None else status.run.due
    return last.timestamp() if last is not None and last.timestamp() > before else None


def ended(status: Status, run: Run, course: Course, now: float) -> dict[str, Any] | None:
    """Return the fields to record once a run has ended; None while it runs."""
    unread = course.ended == "" and course.report is None and now - course.at < LATE
    if course.ended is None or unread:
        return None
    end: dict[str, Any] = {"run": msgspec.structs.replace(run, ended=True)}
    if course.ended or course.report is None or course.report.taken is None:
        lost = "its Pod was removed before it was read" if not course.ended else course.ended
        why = course.failure or course.waiting or lost
        return {**end, "failures": status.failures + 1, "error": why[:1024]}
    report = course.report
    others = [taken for taken in status.backups if taken.name not in report.deleted]
    end |= {"backups": [report.taken, *others][:MAX_BACKUPS], "warning": report.warning}
    return {**end, "failures": 0, "error": ""}


# --- the controller ------------------------------------------------------------------------------

controller = manager.controller_for(EtcdBackup, transform=lambda backup: backup.spec)
controller.owns(JOB, kr.Job, update=kr.CREATE, transform=kr.Job.run)
controller.descendants(POD, kr.Pod, transform=kr.Pod.attempt)
controller.reads(CLUSTER, EtcdCluster, keys=lambda backup: [backup.spec.cluster], transform=known)
controller.reads(
    CLAIM,
    kr.PersistentVolumeClaim,
    keys=lambda backup: [backup.spec.store.volume.claim] if backup.spec.store.volume else [],
    transform=lambda _: True,
)


@dataclass(frozen=True)
class Look:
    """What `sync` has found: the Job of the last run, and why no run can begin."""

    course: Course
    refusal: str = ""
    next: datetime | None = None


@controller.sync(every=20, on=(JOB, POD))
async def follow(backup: EtcdBackup, context: kr.CallContext[Settings]) -> Look:
    """Record how a run has ended, or begin a run that is due."""
    spec, status = backup.spec, context.last(Status)
    cluster: EtcdCluster = context.read(CLUSTER, spec.cluster)
    run = status.run
    course = Course() if run is None else jobs.course(context, run.job)
    created = datetime.fromisoformat(backup.metadata.creation_timestamp or "").timestamp()
    try:
        moment = due(spec, status, created, context.now)
        look = Look(course, next=_next(spec, context.now))
    except ValueError as error:
        look, moment = Look(course, refusal=str(error)), None
    if run is not None and not run.ended:
        if (end := ended(status, run, course, context.now)) is not None:
            await context.record(end)
            if why := end["error"]:
                context.event("BackupFailed", why, warning=True)
            else:
                text = f"Job {run.job} has taken a backup. {end['warning']}"
                context.event("BackupComplete", text.strip())
        return look
    claim = spec.store.volume.claim if spec.store.volume and not spec.suspended else ""
    if claim and (spec.schedule is None) != (moment is None):
        context.read(CLAIM, claim)  # of a schedule, one that is due begins, fails, and alerts
    if moment is None:
        return look
    if not cluster.status.get("clusterId"):
        raise kr.Wait("ClusterNotFormed", f"EtcdCluster {spec.cluster} has not been formed yet.")
    if not cluster.spec.size:
        raise kr.Wait(HIBERNATED, f"No member of EtcdCluster {spec.cluster} runs: its size is 0.")
    job = f"{backup.metadata.name}-{int(moment) // 60}"
    await context.record({"run": Run(job=job, due=moment)})
    return replace(look, course=Course())


def _next(spec: Spec, now: float) -> datetime | None:
    if spec.schedule is None or spec.suspended:
        return None
    return Schedule(spec.schedule, spec.time_zone).after(datetime.fromtimestamp(now, UTC))


@controller.desired(stepwise=True)
def desired(backup: EtcdBackup, context: kr.StepContext[Settings]) -> list[Manifest]:
    """Return the Job of the last run; do not create it again after the run has ended."""
    run = context.last(Status).run
    exists = any(child.key[1] == run.job for child in context.children_of(JOB)) if run else False
    if run is None or (run.ended and not exists):
        return []
    cluster: EtcdCluster = context.read(CLUSTER, backup.spec.cluster)
    if not (exists or cluster.status.get("clusterId")):
        raise kr.Wait("ClusterNotFormed", f"EtcdCluster {backup.spec.cluster} is not formed.")
    namespace, name, spec = backup.metadata.namespace, cluster.metadata.name, backup.spec
    request = agent.Backup(
        store=spec.store,
        folder=f"{namespace}/{name}/{backup.metadata.name}",  # what `keep` says is about these
        address=f"{name}-client.{namespace}.svc",
        host=f"client.{name}.{namespace}.svc",
        tls=cluster.status.get("secure", cluster.spec.tls is not None),
        cluster_id=cluster.status.get("clusterId", ""),
        cluster_uid=cluster.metadata.uid,
        keep=spec.keep.last,
        days=spec.keep.days,
        discard=spec.keep.discard,
    )
    return [jobs.backup(cluster, run.job, request, spec.timeout, spec.retries, context.settings)]


def before_upgrade(cluster: EtcdCluster, context: kr.StepContext[Settings]) -> Manifest:
    """Return the EtcdBackup that is taken once before the minor version of a cluster changes.

    Once it is there, it stays as it is, even if the one that it is made of is deleted.
    """
    read = context.find if context.children_of(BACKUP) else context.read
    spec: Spec | None = read(BACKUP, cluster.spec.maintenance.backup_before_upgrade or "")
    changes: dict[str, Any] = {"cluster": cluster.metadata.name, "schedule": None}
    once: Any = msgspec.structs.replace(spec, **changes) if spec is not None else {}
    return {
        "apiVersion": BACKUP.api_version,
        "kind": BACKUP.kind,
        "metadata": {"name": f"upgrade-{kr.short_hash(cluster.metadata.uid)}"},
        "spec": msgspec.to_builtins(once),
    }


@controller.status
def status(spec: Spec, seen: kr.Observed) -> kr.Status:
    """Return the status of the backups."""
    last = seen.last(Status)
    look: Look = seen.sync_result or Look(Course())
    newest = last.backups[0] if last.backups else None
    shown = Shown(last=newest, next_time=f"{look.next:{TIME}}" if look.next else "")
    ready, reason, text = verdict(spec, last, look)
    return kr.Status(ready, reason, text, shown)


def verdict(spec: Spec, status: Status, look: Look) -> tuple[bool, str, str]:
    """Return whether the backups are as wanted, a reason, and a message."""
    good = status.failures == 0
    if look.refusal:
        return False, "InvalidSchedule", f"{look.refusal}."
    if status.run is not None and not status.run.ended:
        done = spec.schedule is not None and good and bool(status.backups)
        return done, "Running", f"Job {status.run.job} takes a backup.{look.course.trouble}"
    if not good:
        return False, "BackupFailed", f"The last backup has failed: {status.error.rstrip('.')}."
    if spec.suspended:
        return True, "Suspended", "No backup is begun while spec.suspended is true."
    if spec.schedule is not None:
        text = "The schedule has no time within 50 years."
        if look.next is not None:
            text = f"The next backup begins at {look.next:{TIME}}."
        return True, "Scheduled", f"{text} {status.warning}".strip()
    if not status.backups:
        return False, "Pending", "The backup is about to begin."
    text = f"The backup has revision {status.backups[0].revision}. {status.warning}"
    return True, "Complete", text.strip()
