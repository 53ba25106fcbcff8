"""etcd_operator.backups: when a backup begins, what is remembered of it, and its Job."""

from datetime import UTC, datetime
from itertools import product
from types import SimpleNamespace
from typing import Any

import kopf_runtime as kr
import msgspec
import pytest

from etcd_operator import agent, backups, jobs, kinds, metrics, stored
from etcd_operator.agent import Backup
from etcd_operator.backups import CLAIM, Look, Run, Spec, Status
from etcd_operator.cron import Schedule
from etcd_operator.jobs import Course
from etcd_operator.kinds import CLUSTER
from etcd_operator.settings import Settings
from etcd_operator.stored import Report, Taken
from tests.unit.sentences import judge

STORE = stored.Store(s3=stored.S3(bucket="backups", region="eu-central-1"))
ONCE = Spec(cluster="c", store=STORE)
DAILY = Spec(cluster="c", store=STORE, schedule="0 3 * * *")
TAKEN = Taken(
    name="ns/c/one.db",
    time="2026-01-02T03:00:00Z",
    revision=7,
    version="3.6.16",
    size=9,
    sha256="0" * 64,
)


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


BORN = at("2026-01-01T12:00")


@pytest.mark.parametrize(
    ("status", "now", "due"),
    [
        (Status(), "2026-01-02T02:59", None),
        (Status(), "2026-01-02T03:00", "2026-01-02T03:00"),
        # of those that were missed, only the last one
        (Status(), "2026-01-05T04:00", "2026-01-05T03:00"),
        (Status(run=Run(job="j", due=at("2026-01-02T03:00"))), "2026-01-05T04:00", None),
        (
            Status(run=Run(job="j", due=at("2026-01-02T03:00"), ended=True)),
            "2026-01-03T03:00",
            "2026-01-03T03:00",
        ),
        (
            Status(run=Run(job="j", due=at("2026-01-02T03:00"), ended=True)),
            "2026-01-03T02:00",
            None,
        ),
    ],
)
def test_a_schedule_has_one_backup_at_a_time(status: Status, now: str, due: str | None) -> None:
    assert backups.due(DAILY, status, BORN, at(now)) == (at(due) if due else None)


def test_without_a_schedule_there_is_one_whether_it_fails_or_not() -> None:
    assert backups.due(ONCE, Status(), BORN, BORN + 1) == BORN
    ended = Status(run=Run(job="j", due=BORN, ended=True), failures=1)
    assert backups.due(ONCE, ended, BORN, BORN + 1) is None


def test_while_it_is_suspended_none_begins() -> None:
    suspended = msgspec.structs.replace(DAILY, suspended=True)

    assert backups.due(suspended, Status(), BORN, at("2026-01-05T04:00")) is None


RUN = Run(job="b-1", due=BORN)


def test_a_complete_backup_is_listed_and_those_that_it_deleted_are_not() -> None:
    old = msgspec.structs.replace(TAKEN, name="ns/c/old.db")
    older = msgspec.structs.replace(TAKEN, name="ns/c/older.db")
    status = Status(run=RUN, backups=[old, older], failures=2, error="down")
    report = Report(taken=TAKEN, deleted=["ns/c/older.db"])

    fields = backups.ended(status, RUN, Course(True, "", report), BORN)

    assert fields is not None
    assert fields["backups"] == [TAKEN, old]
    assert (fields["failures"], fields["error"], fields["run"].ended) == (0, "", True)


def test_a_failed_one_leaves_the_list_as_it_is_and_says_why() -> None:
    status = Status(run=RUN, backups=[TAKEN], failures=1)
    failed = Course(True, "BackoffLimitExceeded", failures=5, failure="the store: refused")

    fields = backups.ended(status, RUN, failed, BORN)

    assert fields == {
        "run": Run(job="b-1", due=BORN, ended=True),
        "failures": 2,
        "error": "the store: refused",
    }
    assert backups.ended(status, RUN, Course(True, None, failures=1), BORN) is None


class World:
    """An EtcdBackup, the course of its Job, and what the operator does with them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, spec: Spec, now: float = BORN) -> None:
        monkeypatch.setattr(jobs, "course", lambda *_: self.course)
        meta = SimpleNamespace(name="b", creation_timestamp="2026-01-01T12:00:00Z")
        self.backup: Any = SimpleNamespace(spec=spec, metadata=meta)
        self.course: Course = Course()
        self.now = now
        self.claim = True
        self.stored: dict[str, Any] = {}
        self.events: list[tuple[str, bool]] = []

    async def step(self) -> tuple[bool | None, str, str]:
        """Look once; return the status that follows: whether it is ready, why, and a sentence."""

        async def record(fields: dict[str, Any]) -> None:
            self.stored |= msgspec.to_builtins(fields)

        def event(reason: str, message: str, *, warning: bool = False) -> None:
            assert message
            self.events.append((reason, warning))

        formed = SimpleNamespace(status={"clusterId": "a1"}, spec=kinds.Spec(version="3.6.16"))
        claims = {("ns", "backups"): True if self.claim else None}
        reads: Any = {CLUSTER: {("ns", "c"): formed}, CLAIM: claims}
        more: Any = {"namespace": "ns", "reads": reads, "record": record, "event": event}
        context = kr.CallContext(Settings(), stored=self.stored, now=self.now, **more)
        look = await backups.follow(self.backup, context)
        seen = kr.Observed(None, sync_result=look, now=self.now, stored=self.stored)
        status = backups.status(self.backup.spec, seen)
        return status.ready, status.reason, status.message


@pytest.mark.parametrize("complete", [True, False])
async def test_f3_the_status_is_right_before_during_and_after_each_run(
    monkeypatch: pytest.MonkeyPatch, complete: bool
) -> None:
    world = World(monkeypatch, DAILY)
    end = Course(True, "", Report(taken=TAKEN)) if complete else Course(True, "Failed", failure="x")
    text = "The next backup begins at 2026-01-{:02}T03:00:00Z."
    assert await world.step() == (True, "Scheduled", text.format(2))

    for day in (2, 3, 4):
        world.now, world.course = at(f"2026-01-{day:02}T03:00"), Course()
        for _ in range(2):
            assert (await world.step())[:2] == (complete and day > 2, "Running")
        world.course = end
        for _ in range(2):
            failed = (False, "BackupFailed", "The last backup has failed: x.")
            rests = (True, "Scheduled", text.format(day + 1)) if complete else failed
            assert await world.step() == rests

    assert world.events == 3 * [("BackupComplete", False) if complete else ("BackupFailed", True)]


@pytest.mark.parametrize("schedule", [None, DAILY.schedule])
async def test_a_claim_that_does_not_exist_is_named_before_a_backup_is_due(
    monkeypatch: pytest.MonkeyPatch, schedule: str | None
) -> None:
    store = stored.Store(volume=stored.Claim(claim="backups"))
    world = World(monkeypatch, msgspec.structs.replace(DAILY, store=store, schedule=schedule))
    world.claim = False
    with pytest.raises(kr.Wait, match="PersistentVolumeClaim ns/backups does not exist") as told:
        await world.step()
    assert told.value.reason == "ReferenceMissing"
    assert not world.stored, "none is begun"
    owner: Any = SimpleNamespace(view=world.backup.spec, status=world.stored)
    if schedule:
        assert metrics.due(owner) is None
        world.now = at("2026-01-02T03:01")
        assert (await world.step())[1] == "Running", "else nobody is alerted"
        assert metrics.due(owner) is not None
        world.course = Course(True, "DeadlineExceeded", waiting="no such claim")
        assert (await world.step())[1] == "BackupFailed"
        assert metrics.BACKUPS["backup_failures"][1](owner) == 1
        with pytest.raises(kr.Wait, match="does not exist"):
            await world.step()
    world.claim = True
    assert (await world.step())[1] == ("BackupFailed" if schedule else "Running")


def test_a_pod_that_waits_is_no_failed_attempt() -> None:
    waits = Look(Course(True, waiting='persistentvolumeclaim "backups" not found.'))
    _, _, text = backups.verdict(ONCE, Status(run=RUN), waits)
    assert "attempt" not in text
    assert text.endswith("The Job's Pod does not start yet: " + waits.course.waiting)


def test_f3_each_state_has_a_sentence() -> None:
    runs, now = (None, RUN, msgspec.structs.replace(RUN, ended=True)), datetime.now(UTC)
    statuses = [
        Status(run=run, backups=taken, failures=failures, error="why" * failures, warning=warning)
        for run, taken, failures, warning in product(
            runs, ([], [TAKEN]), (0, 1), ("", "Some stay.")
        )
    ]
    reports = None, Report(), Report(taken=TAKEN)
    states = product((True, False), (None, "", "Failed"), reports, (0, 1), ("", "down"))
    courses = [Course(*state) for state in states]
    looks = [Look(*parts) for parts in product(courses, ("", "No schedule"), (None, now))]
    specs = ONCE, DAILY, msgspec.structs.replace(DAILY, suspended=True)
    for spec, status, look in product(specs, statuses, looks):
        ready, reason, text = backups.verdict(spec, status, look)
        assert reason
        assert text
        judge(text)
        assert not (ready and (status.failures or look.refusal))
        waits = status.run is None or status.run.ended
        if spec.schedule and waits and not status.failures and not look.refusal:
            assert ready


def test_a_report_that_comes_after_the_news_that_its_job_is_complete_is_waited_for() -> None:
    complete = Course(True, "", at=BORN)

    assert backups.ended(Status(run=RUN), RUN, complete, BORN + 1) is None
    gone = backups.ended(Status(run=RUN), RUN, complete, BORN + 3600)
    assert gone is not None
    assert gone["failures"] == 1


@pytest.mark.parametrize(("reason", "due"), [("Scheduled", True), ("Hibernated", False)])
def test_no_backup_of_a_cluster_that_hibernates_is_overdue(reason: str, due: bool) -> None:
    status = {"run": {"job": "j"}, "conditions": [{"type": "Ready", "reason": reason}]}
    owner: Any = SimpleNamespace(view=DAILY, status=status)
    assert (metrics.due(owner) is not None) == due


def test_f1_no_backup_begins_of_a_cluster_whose_id_is_not_known() -> None:
    def plan(*children: Any, **status: Any) -> list[Any]:
        meta = {"name": "c", "namespace": "ns", "uid": "u", "resourceVersion": "1"}
        tls = {"peerSecret": "p", "clientSecret": "c"}
        there = {"metadata": meta, "spec": {"version": "3.6.16", "tls": tls}, "status": status}
        cluster = kinds.known(msgspec.convert(there, kinds.EtcdCluster))
        reads: Any = {CLUSTER: {("ns", "c"): cluster}}
        more: Any = {"namespace": "ns", "reads": reads, "children": children}
        backup: Any = SimpleNamespace(spec=ONCE, metadata=kr.ObjectMeta("b", "u", "", "ns"))
        context = kr.CallContext(Settings(), stored=msgspec.to_builtins(Status(run=RUN)), **more)
        return backups.desired(backup, context)

    for secure in (False, True):  # until then, all members serve without TLS
        [job] = plan(clusterId="a1", secure=secure)
        [variable] = job["spec"]["template"]["spec"]["containers"][0]["env"]
        wants = msgspec.json.decode(variable["value"], type=Backup)
        assert (wants.cluster_uid, wants.cluster_id, wants.tls) == ("u", "a1", secure)
    with pytest.raises(kr.Wait, match="is not formed"):
        plan()  # another one has its name by now
    assert plan(SimpleNamespace(kind=jobs.JOB, key=("ns", RUN.job)))


# --- Jobs ----------------------------------------------------------------------------------------


def test_of_a_pod_that_ran_twice_the_newest_backup_counts_and_all_that_was_deleted() -> None:
    later = msgspec.structs.replace(TAKEN, name="ns/c/two.db")
    reports = [Report(taken=later, deleted=["ns/c/one.db"]), Report(taken=TAKEN, deleted=["x.db"])]
    pods: Any = [
        SimpleNamespace(
            key=("ns", f"b-1-{number}"),
            created=number,
            view=kr.Attempt(report=msgspec.json.encode(report).decode()),
        )
        for number, report in enumerate(reports)
    ]

    course = jobs.course(kr.CallContext(None, children=[], descendants={jobs.POD: pods}), "b-1")

    assert course.report == Report(taken=later, deleted=["ns/c/one.db", "x.db"])


def test_the_longest_report_fits_into_a_termination_message() -> None:
    folder = f"{'n' * 63}/{'c' * 40}/{'b' * 40}"
    names = [f"{folder}/20260101T000000Z-1234567890-0a1b2c3d.db"] * agent.AT_ONCE
    ids = {"cluster_id": "f" * 16, "cluster_uid": "f" * 36}
    taken = msgspec.structs.replace(TAKEN, name=names[0], **ids)
    report = Report(taken=taken, deleted=names, warning="w" * 500)

    assert len(msgspec.json.encode(report)) <= 4096


def test_only_the_keys_that_the_agent_needs_come_from_a_secret() -> None:
    cluster: Any = SimpleNamespace(spec=kinds.Spec(version="3.6.16"))
    store = stored.Store(s3=stored.S3(bucket="backups", secret="any"))  # noqa: S106
    request = Backup(store=store, folder="ns/c", address="c-client.ns.svc")
    job = jobs.backup(cluster, "j", request, 60, 0, Settings())
    [container] = job["spec"]["template"]["spec"]["containers"]

    sources = [env["valueFrom"]["secretKeyRef"] for env in container["env"] if "valueFrom" in env]
    assert "envFrom" not in container
    assert [(source["name"], source["key"], source["optional"]) for source in sources] == [
        ("any", "AWS_ACCESS_KEY_ID", False),
        ("any", "AWS_SECRET_ACCESS_KEY", False),
        ("any", "AWS_SESSION_TOKEN", True),
    ]


# --- the times of a schedule ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "moment", "after"),
    [
        ("0 */6 * * *", "2026-01-01T06:00", "2026-01-01T12:00"),
        ("0 0 * * sun", "2026-01-01T00:00", "2026-01-04T00:00"),
        ("0 0 29 feb *", "2026-01-01T00:00", "2028-02-29T00:00"),
    ],
)
def test_the_next_time(schedule: str, moment: str, after: str) -> None:
    when = Schedule(schedule)
    expected = datetime.fromisoformat(after).replace(tzinfo=UTC)

    assert when.after(datetime.fromisoformat(moment).replace(tzinfo=UTC)) == expected
    assert when.before(expected) == when.before(expected.replace(second=59)) == expected


def test_a_time_zone_has_its_summer() -> None:
    when = Schedule("0 3 * * *", "Europe/Berlin")

    assert when.after(datetime(2026, 1, 1, tzinfo=UTC)) == datetime(2026, 1, 1, 2, tzinfo=UTC)
    assert when.after(datetime(2026, 7, 1, tzinfo=UTC)) == datetime(2026, 7, 1, 1, tzinfo=UTC)

    skipped = Schedule("30 2 * * *", "Europe/Berlin").after(datetime(2026, 3, 29, tzinfo=UTC))
    assert skipped == datetime(2026, 3, 29, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "zone", "why"),
    [
        ("0 0 * *", "UTC", "has 4 fields"),
        ("0 0 0 * * *", "UTC", "has 6 fields"),
        ("60 0 * * *", "UTC", "is no schedule: Bad minute"),
        ("0 0 30 feb *", "UTC", "is no schedule: Bad day-of-month"),
        ("0 0 * * *", "Mars/Base", "there is no time zone `Mars/Base`"),
    ],
)
def test_what_is_no_schedule_is_told(schedule: str, zone: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Schedule(schedule, zone)
