"""etcd_operator.restores: how far a restore is, and the Jobs that it needs."""

from dataclasses import replace
from typing import Any

import kopf_runtime as kr
import msgspec
import pytest

from etcd_operator import agent, restores, stored
from etcd_operator.jobs import Course
from etcd_operator.kinds import BACKUP, CLUSTER, Entry, EtcdCluster, Recovery
from etcd_operator.restores import EtcdRestore, Look, Status, Target
from etcd_operator.settings import Settings
from etcd_operator.stored import Report
from tests.unit.sentences import judge
from tests.unit.test_backups import TAKEN

STORE = stored.Store(volume=stored.Claim(claim="backups"))
SEED = Entry(name="c-4", version="3.6.16", volume="u4")
WELL = Target(None, None, available="True")
FILLS = Target(Recovery(uid="r1"), SEED, available="False")
NONE, RUNS = Course(), Course(True)
READ = Course(True, "", Report(taken=TAKEN))
FAILED = Course(True, "BackoffLimitExceeded", failures=3, failure="it is not what was backed up")


def restore(**source: Any) -> EtcdRestore:
    spec = {"cluster": "c", "confirm": "c", "source": source}
    meta = {"name": "back", "namespace": "ns", "uid": "r1", "resourceVersion": "1"}
    return msgspec.convert({"metadata": meta, "spec": spec}, EtcdRestore)


def cluster(**status: Any) -> EtcdCluster:
    meta = {"name": "c", "namespace": "ns", "uid": "c1", "resourceVersion": "1"}
    spec = {"version": "3.6.16"}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status}, EtcdCluster)


WHOLE = {"refused": "the cluster has a quorum, so nothing is lost"}
GROWS = Target(Recovery(uid="r1", ended=True), SEED, "True", unready="c-2 gets a volume.")
JOINS = Status(complete=True, joining=True)
GOES_ON = Target(Recovery(uid="r1", survivor="c-1"), None, available="True")
FROM_BACKUP, SURVIVOR = restore(backup={"name": "daily"}), restore(survivor={})


@pytest.mark.parametrize(
    ("it", "status", "to", "check", "fill", "news"),
    [
        (FROM_BACKUP, Status(), WELL, FAILED, NONE, {"refused": "it is not what was backed up"}),
        (FROM_BACKUP, Status(accepted=True), FILLS, NONE, FAILED, None),
        (SURVIVOR, Status(), WELL, NONE, NONE, WHOLE),
        (SURVIVOR, Status(), Target(None, None, available="False"), NONE, NONE, {"accepted": True}),
        (SURVIVOR, Status(), Target(None, None, available="Unknown"), NONE, NONE, None),
        (SURVIVOR, Status(accepted=True), WELL, NONE, NONE, WHOLE),
        (SURVIVOR, Status(accepted=True), GOES_ON, NONE, NONE, None),
    ],
)
def test_what_is_remembered(
    it: EtcdRestore, status: Status, to: Target, check: Course, fill: Course, news: Any
) -> None:
    assert restores.news(it.spec, status, to, check, fill) == news


@pytest.mark.parametrize(
    ("status", "look", "phase", "text"),
    [
        (Status(), Look(WELL, RUNS, NONE), "Checking", "read and verified"),
        (Status(refused="cut"), Look(WELL, FAILED, NONE), "Refused", "are not replaced: cut."),
        (Status(accepted=True), Look(WELL, READ, NONE), "Waiting", "about to begin"),
        (Status(accepted=True), Look(FILLS, READ, RUNS), "Restoring", "gets the backup"),
        (Status(accepted=True), Look(FILLS, READ, FAILED), "Restoring", "delete the Job to try"),
        (Status(accepted=True), Look(GOES_ON, NONE, NONE), "Restoring", "becomes what c-1 has."),
        (JOINS, Look(GROWS, NONE, NONE), "Restoring", "yet: c-2 gets a volume."),
        (Status(complete=True, lost=3), Look(GROWS, NONE, NONE), "Complete", " 3."),
        (
            Status(complete=True, lost=1),
            Look(WELL, NONE, NONE),
            "Complete",
            ": at least 1.",
        ),
    ],
)
def test_how_far_it_is(status: Status, look: Look, phase: str, text: str) -> None:
    verdict = restores.verdict(FROM_BACKUP.spec, status, look)

    assert verdict[0] == phase
    assert text in verdict[1]
    judge(verdict[1])


@pytest.mark.parametrize(
    ("to", "joined"), [(GROWS, False), (replace(GROWS, unready=""), True), (WELL, True)]
)
def test_it_is_complete_once_all_members_have_joined(to: Target, joined: bool) -> None:
    """Before that, a script that waits for the restore would go on too early."""
    told = restores.news(FROM_BACKUP.spec, Status(accepted=True), GROWS, NONE, NONE)
    assert told == {"complete": True, "joining": True, "lost": 0}
    told = restores.news(FROM_BACKUP.spec, JOINS, to, NONE, NONE)
    assert told == ({"joining": False} if joined else None)


def test_one_that_an_earlier_operator_has_completed_stays_complete() -> None:
    """Its status has no word about members that join."""
    old = Status(complete=True)
    assert restores.news(FROM_BACKUP.spec, old, GROWS, NONE, NONE) is None
    assert restores.verdict(FROM_BACKUP.spec, old, Look(GROWS, NONE, NONE))[0] == "Complete"


@pytest.mark.parametrize(
    ("available", "proved", "size", "joined"),
    [
        ("True", 3, 3, True),
        ("True", 2, 3, False),
        ("True", 3, 4, False),
        ("False", 3, 3, False),
        ("Unknown", 1, 0, True),
    ],
)
def test_a_cluster_that_is_not_ready_for_long_keeps_no_restore_from_its_end(
    available: str, proved: int, size: int, joined: bool
) -> None:
    """Such as one whose volumes cannot grow, or whose version is refused."""
    entries = [Entry(name=f"c-{n}", version="3.6.16", proved=n <= proved) for n in (1, 2, 3)]
    entries.append(Entry(name="c-4", version="3.6.16", leaving="why"))
    refused = {"type": "Ready", "status": "False", "message": "VersionRefused."}
    conditions = [refused, {"type": "Available", "status": available}]
    recovery = Recovery(uid="r1", ended=True)
    status = {"members": entries, "recovery": recovery, "conditions": conditions}
    there = cluster(**msgspec.to_builtins(status))
    there = msgspec.structs.replace(there, spec=msgspec.structs.replace(there.spec, size=size))
    assert restores.target(FROM_BACKUP, there).unready == ("" if joined else "VersionRefused.")


def test_who_waits_for_a_silent_survivor_is_told_to_name_it() -> None:
    look = Look(Target(None, None, available="False"), NONE, NONE)

    phase, text = restores.verdict(SURVIVOR.spec, Status(accepted=True), look)

    assert phase == "Waiting"
    assert text.endswith("with the name of one.")


def context(look: Look, *taken: stored.Taken, **stored_: Any) -> kr.CallContext[Settings]:
    return kr.CallContext(
        Settings(),
        sync_result=look,
        children=(),
        stored=stored_,
        namespace="ns",
        reads={
            CLUSTER: {("ns", "c"): cluster()},
            BACKUP: {("ns", "daily"): (STORE, msgspec.to_builtins(list(taken)))},
        },
    )


def requests(job: dict[str, Any]) -> list[agent.Request]:
    pod = job["spec"]["template"]["spec"]
    variables = [
        variable["value"]
        for container in (*pod["initContainers"], *pod["containers"])
        for variable in container.get("env", ())
        if variable["name"] == agent.REQUEST
    ]
    return [msgspec.json.decode(text, type=agent.Request) for text in variables]


def test_a_backup_is_only_read_first() -> None:
    (job,) = restores.desired(FROM_BACKUP, context(Look(WELL, NONE, NONE), TAKEN))

    (fetch,) = requests(job)
    assert fetch == agent.Fetch(
        store=STORE, name=TAKEN.name, version="3.6.16", sha256=TAKEN.sha256, dry=True
    )
    volumes = job["spec"]["template"]["spec"]["volumes"]
    assert [volume["persistentVolumeClaim"]["claimName"] for volume in volumes] == ["backups"]


def test_the_volume_is_filled_by_the_tools_of_the_member_s_version() -> None:
    seen = context(Look(FILLS, NONE, NONE), TAKEN, accepted=True)

    (job,) = restores.desired(FROM_BACKUP, seen)

    pod = job["spec"]["template"]["spec"]
    etcdutl = pod["initContainers"][1]
    assert etcdutl["image"].endswith(":v3.6.16")
    assert {"--mark-compacted", "--bump-revision=1000000000", "--name=c-4"} < {*etcdutl["command"]}
    assert {"persistentVolumeClaim": {"claimName": "data-c-4-c1"}, "name": "data"} in pod["volumes"]
    fetch, finish = requests(job)
    assert isinstance(fetch, agent.Fetch)
    assert (fetch.token, finish) == ("c1-r1", agent.Finish())
    assert all(f"$({agent.POD})" in path for path in etcdutl["command"] if agent.DATA in path)
    uid = {"name": agent.POD, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}
    assert all(uid in each["env"] for each in (*pod["initContainers"], *pod["containers"]))


def test_the_job_is_another_one_once_the_version_is_another_one() -> None:
    names = []
    for version in ("3.6.99", "3.6.16"):
        to = replace(FILLS, seed=msgspec.structs.replace(SEED, version=version))
        look = Look(to, NONE, NONE)
        (job,) = restores.desired(FROM_BACKUP, context(look, TAKEN, accepted=True))
        names.append(job["metadata"]["name"])
        assert restores.desired(FROM_BACKUP, context(look, accepted=True, filled="c-4")) == []

    assert names == ["back-4-3-6-99", "back-4-3-6-16"]


def test_revisions_continue_above_those_that_a_former_restore_has_raised() -> None:
    to = replace(FILLS, recovery=Recovery(uid="r1", revision=1_000_000_500))
    backup = msgspec.to_builtins(msgspec.structs.replace(TAKEN, revision=400))
    seen = context(Look(to, NONE, NONE), TAKEN, accepted=True, backup=backup)

    (job,) = restores.desired(FROM_BACKUP, seen)

    etcdutl = job["spec"]["template"]["spec"]["initContainers"][1]
    assert f"--bump-revision={10**9 + 1_000_000_500 - 400}" in etcdutl["command"]


def test_what_was_chosen_stays_when_a_newer_backup_is_taken() -> None:
    newer = msgspec.structs.replace(TAKEN, name="ns/c/two.db")
    seen = context(
        Look(FILLS, NONE, NONE), newer, TAKEN, accepted=True, backup=msgspec.to_builtins(TAKEN)
    )

    assert restores.request(FROM_BACKUP, seen, "3.6.16").name == TAKEN.name


def test_it_waits_for_a_backup_that_is_not_there_yet() -> None:
    with pytest.raises(kr.Wait, match="EtcdBackup daily has no backup yet"):
        restores.desired(FROM_BACKUP, context(Look(WELL, NONE, NONE)))


@pytest.mark.parametrize(
    ("it", "done"),
    [(FROM_BACKUP, {"complete": True}), (FROM_BACKUP, {"refused": "cut"}), (SURVIVOR, {})],
)
def test_what_has_ended_and_a_survivor_need_no_job(it: EtcdRestore, done: dict[str, Any]) -> None:
    assert restores.desired(it, context(Look(WELL, NONE, NONE), TAKEN, **done)) == []


@pytest.mark.parametrize(("to", "phase"), [(WELL, "Waiting"), (FILLS, "Restoring")])
def test_f9_a_restore_of_a_paused_cluster_says_what_it_waits_for(to: Target, phase: str) -> None:
    look = Look(replace(to, paused=True), READ, NONE)
    told = restores.verdict(FROM_BACKUP.spec, Status(accepted=True), look)
    assert told == (phase, "EtcdCluster c is paused: set its spec.paused to false to go on.")
