"""etcd_operator.backups: when a backup begins, what is remembered of it, and its Job."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import kopf_runtime as kr
import msgspec
import pytest

from etcd_operator import agent, backups, jobs, kinds, stored
from etcd_operator.agent import Backup
from etcd_operator.backups import Look, Run, Spec, Status
from etcd_operator.jobs import Course
from etcd_operator.kinds import CLUSTER
from etcd_operator.settings import Settings
from etcd_operator.stored import Report, Taken

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


@pytest.mark.parametrize(
    ("course", "told"),
    [
        (Course(True, "Failed", failure="the store: refused"), ["BackupFailed", True]),
        (Course(True, "", Report(taken=TAKEN)), ["BackupComplete", False]),
        (Course(True, None), []),
    ],
)
async def test_the_end_of_a_backup_is_told_as_an_event(
    monkeypatch: pytest.MonkeyPatch, course: Course, told: list[Any]
) -> None:
    events = list[Any]()

    async def record(_: Any) -> None:
        pass

    def event(reason: str, message: str, *, warning: bool = False) -> None:
        assert message
        events.extend([reason, warning])

    monkeypatch.setattr(jobs, "course", lambda *_: course)
    backup: Any = SimpleNamespace(spec=ONCE)
    reads: Any = {CLUSTER: {("ns", ONCE.cluster): object()}}
    stored = msgspec.to_builtins(Status(run=RUN))
    await backups.follow(
        backup,
        kr.Context(
            Settings(),
            stored=stored,
            now=BORN,
            namespace="ns",
            reads=reads,
            record=record,
            event=event,
        ),
    )

    assert events == told


def test_a_report_that_comes_after_the_news_that_its_job_is_complete_is_waited_for() -> None:
    complete = Course(True, "", at=BORN)

    assert backups.ended(Status(run=RUN), RUN, complete, BORN + 1) is None
    gone = backups.ended(Status(run=RUN), RUN, complete, BORN + 3600)
    assert gone is not None
    assert gone["failures"] == 1


@pytest.mark.parametrize(
    ("spec", "status", "look", "expected"),
    [
        (ONCE, Status(), Look(Course()), (False, "Pending", "about to begin")),
        (
            ONCE,
            Status(run=RUN),
            Look(Course(True, failures=2, failure="the store: down")),
            (False, "Running", "Failed attempts: 2; the last one: the store: down"),
        ),
        (
            ONCE,
            Status(run=Run(job="j", due=0, ended=True), backups=[TAKEN]),
            Look(Course()),
            (True, "Complete", "revision 7"),
        ),
        (
            DAILY,
            Status(failures=1, error="full", backups=[TAKEN]),
            Look(Course(), next=datetime(2026, 1, 2, 3, tzinfo=UTC)),
            (False, "BackupFailed", "full"),
        ),
        (
            DAILY,
            Status(backups=[TAKEN]),
            Look(Course(), next=datetime(2026, 1, 2, 3, tzinfo=UTC)),
            (True, "Scheduled", "2026-01-02T03:00:00Z"),
        ),
        (DAILY, Status(), Look(Course(), refusal="`x`"), (False, "InvalidSchedule", "`x`.")),
    ],
)
def test_how_it_fares_is_told(
    spec: Spec, status: Status, look: Look, expected: tuple[bool, str, str]
) -> None:
    ready, reason, text = backups.verdict(spec, status, look)

    assert (ready, reason) == expected[:2]
    assert expected[2] in text


# --- Jobs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "course"),
    [
        ({}, Course(True)),
        ({"conditions": [{"type": "Suspended", "status": "True"}]}, Course(True)),
        (
            {
                "conditions": [{"type": "Complete", "status": "True"}],
                "completionTime": "1970-01-01T00:01:00Z",
            },
            Course(True, "", at=60.0),
        ),
        (
            {"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]},
            Course(True, "DeadlineExceeded"),
        ),
        ({"conditions": [{"type": "Failed", "status": "False"}]}, Course(True)),
    ],
)
def test_the_state_of_a_job_is_read_from_its_conditions(
    status: dict[str, Any], course: Course
) -> None:
    meta = {"name": "j", "uid": "u", "resourceVersion": "1"}
    assert jobs.outcome(msgspec.convert({"metadata": meta, "status": status}, jobs.JobObject)) == (
        course
    )


def container(**state: Any) -> dict[str, Any]:
    return {"state": state}


def attempt(
    *containers: dict[str, Any],
    init: tuple[dict[str, Any], ...] = (),
    conditions: tuple[dict[str, str], ...] = (),
) -> jobs.Attempt:
    meta = {"name": "p", "uid": "u", "resourceVersion": "1"}
    status = {
        "initContainerStatuses": init,
        "containerStatuses": containers,
        "conditions": conditions,
    }
    return jobs.attempt(msgspec.convert({"metadata": meta, "status": status}, jobs.PodObject))


def test_what_the_agent_told_is_found_in_its_pod() -> None:
    text = msgspec.json.encode(Report(taken=TAKEN)).decode()
    done = {"exitCode": 0, "reason": "Completed", "message": text}

    assert attempt(container(terminated=done)).report == text
    finished = {**done, "message": msgspec.json.encode(Report()).decode()}
    fetched = attempt(container(terminated=finished), init=(container(terminated=done),))
    assert fetched.report == text


def test_of_a_pod_that_ran_twice_the_newest_backup_counts_and_all_that_was_deleted() -> None:
    later = msgspec.structs.replace(TAKEN, name="ns/c/two.db")
    reports = [Report(taken=later, deleted=["ns/c/one.db"]), Report(taken=TAKEN, deleted=["x.db"])]
    pods: Any = [
        SimpleNamespace(
            key=("ns", f"b-1-{number}"),
            created=number,
            view=jobs.Attempt(report=msgspec.json.encode(report).decode()),
        )
        for number, report in enumerate(reports)
    ]

    course = jobs.course(kr.Context(None, children=[], grandchildren={jobs.POD: pods}), "b-1")

    assert course.report == Report(taken=later, deleted=["ns/c/one.db", "x.db"])


def test_why_a_pod_failed_or_does_not_start_is_found() -> None:
    killed = {"exitCode": 137, "reason": "OOMKilled"}
    assert attempt(container(terminated=killed)).failure == "OOMKilled"
    refused = {"exitCode": 1, "message": "the store: refused"}
    assert attempt(container(terminated=refused)).failure == "the store: refused"
    waits = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
    assert attempt(container(waiting=waits)).failure == "Back-off pulling image"
    assert attempt(container(waiting={"reason": "ContainerCreating"})) == jobs.Attempt()
    nowhere = {"type": "PodScheduled", "status": "False", "message": "no claim `backups`"}
    assert attempt(conditions=(nowhere,)).failure == "no claim `backups`"
    assert attempt(conditions=({**nowhere, "status": "True"},)) == jobs.Attempt()


def test_the_longest_report_fits_into_a_termination_message() -> None:
    folder = f"{'n' * 63}/{'c' * 40}/{'b' * 40}"
    names = [f"{folder}/20260101T000000Z-1234567890-0a1b2c3d.db"] * agent.AT_ONCE
    taken = msgspec.structs.replace(TAKEN, name=names[0], cluster_id="f" * 16)
    report = Report(taken=taken, deleted=names, warning="w" * 500)

    assert len(msgspec.json.encode(report)) <= 4096


def test_the_agent_reads_the_request_of_its_job() -> None:
    request = Backup(store=STORE, folder="ns/c", address="c-client.ns.svc", tls=True)
    text = msgspec.json.encode(request)

    assert msgspec.json.decode(text, type=agent.Request) == request


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
