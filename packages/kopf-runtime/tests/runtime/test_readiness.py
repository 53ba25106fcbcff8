"""Without an author's `status`, an object is ready once its children are, by their own status."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

import kopf_runtime as kr
from kopf_runtime.declaring import readiness
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.kinds import DAEMON_SET, DEPLOYMENT, JOB, POD, SECRET, STATEFUL_SET
from runtime.support.api_server import ApiServer, RefusedError
from runtime.support.running import operating
from runtime.support.waiting import until
from runtime.widgets import WIDGET, Raw, Widget, manifest, owning, ready, widget, working_on

KEY, CHILD = ("ns", "one"), ("ns", "w")
KINDS = (WIDGET, DEPLOYMENT, JOB, POD, SECRET)


def controller(*kinds: kr.Kind, **owns: Any) -> Controller:
    """Return a controller of Widgets that have a child of each of these kinds."""

    def desired(one: Widget, _: object) -> list[Raw]:
        spec = {"replicas": 3, "text": one.spec.text}
        return [manifest(kind, "w", spec=spec) for kind in kinds]

    return owning(desired, *kinds, **owns)


def condition(type_: str, status: str, message: str = "", reason: str = "") -> Raw:
    one = {"type": type_, "status": status, "message": message, "reason": reason}
    return {"conditions": [one]}


async def tells(server: ApiServer, status: str, reason: str, message: str) -> None:
    """Wait until the Widget's condition is this one."""

    def reported() -> tuple[Any, ...]:
        found = ready(server.get(WIDGET, KEY))
        return tuple(found.get(part) for part in ("status", "reason", "message"))

    await until(lambda: reported() == (status, reason, message))


def is_well(server: ApiServer) -> Any:
    return tells(server, "True", "Reconciled", "All of its objects are there.")


async def becomes(server: ApiServer, kind: kr.Kind, status: Raw) -> None:
    """Give the child a status, as its own controller does."""
    await until(lambda: server.get(kind, CHILD))
    server.edit(kind, CHILD, lambda raw: raw.update(status=status), subresource="status")


SEEN = {"observedGeneration": 1}
#: All of a Deployment's Pods are there and are new.
DEPLOYED = {**SEEN, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3}
LATE = 'ReplicaSet "w-1" has timed out progressing.'
TOO_LATE = condition("Progressing", "False", LATE, "ProgressDeadlineExceeded")["conditions"]
FULL = 'pods "w-" is forbidden: exceeded quota'
QUOTA = condition("ReplicaFailure", "True", FULL)["conditions"]
FAILED = "its rollout has failed: "
#: All of a StatefulSet's Pods are there and are new.
IN_STATE = {
    **SEEN,
    "replicas": 3,
    "updatedReplicas": 3,
    "readyReplicas": 3,
    "currentRevision": "w-1",
    "updateRevision": "w-1",
}
#: One of them is.
ONE_ROLLED = {**IN_STATE, "updateRevision": "w-2", "updatedReplicas": 1}
#: All of a DaemonSet's Pods are there and are new.
ON_NODES = {**SEEN, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 2}
BY_HAND = {"updateStrategy": {"type": "OnDelete"}}
PARTED = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}


MONITOR = kr.Kind("monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor")
UNOBSERVED = "its status is not up to date yet"
#: A kind, a status, why it is not ready, and what its spec has beside three replicas.
ROWS: list[tuple[Any, ...]] = [
    (DEPLOYMENT, {}, UNOBSERVED),
    (DEPLOYMENT, {"conditions": TOO_LATE}, UNOBSERVED),  # a former rollout
    (DEPLOYMENT, SEEN, "available Pods: 0 of 3"),
    (DEPLOYMENT, DEPLOYED, ""),
    (DEPLOYMENT, {**DEPLOYED, "availableReplicas": 2}, "available Pods: 2 of 3"),
    (DEPLOYMENT, {**DEPLOYED, "replicas": 4, "updatedReplicas": 1}, "updated Pods: 1 of 3"),
    (DEPLOYMENT, {**DEPLOYED, "replicas": 4}, "Pods that are still to go: 1"),
    (DEPLOYMENT, {**DEPLOYED, "updatedReplicas": 1, "conditions": TOO_LATE}, f"{FAILED}{LATE}"),
    (DEPLOYMENT, {**SEEN, "conditions": QUOTA}, f"available Pods: 0 of 3 ({FULL})"),
    (DEPLOYMENT, {**SEEN, "conditions": [*TOO_LATE, *QUOTA]}, f"{FAILED}{FULL}"),
    (DEPLOYMENT, {**SEEN, "replicas": 1}, "Pods that are still to go: 1", {"replicas": 0}),
    (DEPLOYMENT, SEEN, "", {"replicas": 0}),
    (STATEFUL_SET, {}, UNOBSERVED),
    (STATEFUL_SET, IN_STATE, ""),
    (STATEFUL_SET, {**IN_STATE, "readyReplicas": 2}, "ready Pods: 2 of 3"),
    (STATEFUL_SET, ONE_ROLLED, "updated Pods: 1 of 3"),
    (STATEFUL_SET, {**IN_STATE, "replicas": 4}, "Pods that are still to go: 1"),
    (STATEFUL_SET, {**ONE_ROLLED, "updatedReplicas": 0}, "updated Pods: 0 of 1", PARTED),
    (STATEFUL_SET, ONE_ROLLED, "", PARTED),
    (STATEFUL_SET, {**ONE_ROLLED, "readyReplicas": 2}, "ready Pods: 2 of 3", BY_HAND),
    (STATEFUL_SET, ONE_ROLLED, "", BY_HAND),
    (DAEMON_SET, {}, UNOBSERVED),
    (DAEMON_SET, ON_NODES, ""),
    (DAEMON_SET, {**ON_NODES, "numberAvailable": 1}, "available Pods: 1 of 2"),
    (DAEMON_SET, {**ON_NODES, "updatedNumberScheduled": 1}, "updated Pods: 1 of 2"),
    (DAEMON_SET, {**ON_NODES, "numberAvailable": 1}, "available Pods: 1 of 2", BY_HAND),
    (DAEMON_SET, {**ON_NODES, "updatedNumberScheduled": 0}, "", BY_HAND),
    (JOB, {}, "it has not completed yet"),
    (JOB, condition("Complete", "True"), ""),
    (JOB, condition("Failed", "True", "Too late."), "it has failed: Too late."),
    (POD, {}, "it is Pending"),
    (POD, {"phase": "Running", **condition("Ready", "False", "no c")}, "no c"),
    (POD, {"phase": "Running", **condition("Ready", "True")}, ""),
    (POD, {"phase": "Succeeded"}, ""),
    (POD, {"phase": "Failed"}, "it is Failed"),
    # Any other kind, by the rules of kstatus.
    (MONITOR, None, ""),
    (MONITOR, "text", ""),
    (MONITOR, {"observedGeneration": "2", "conditions": {"Ready": "False"}}, ""),
    (MONITOR, condition("Ready", "True"), ""),
    (MONITOR, condition("Available", "False"), ""),
    (MONITOR, {"observedGeneration": 0}, UNOBSERVED),
    (MONITOR, condition("Ready", "False", "no disk"), "no disk"),
    (MONITOR, condition("Ready", "Unknown", reason="Starting"), "Starting"),
    (MONITOR, condition("Ready", "False"), "its Ready is False"),
    (MONITOR, condition("Reconciling", "True", "rolling"), "rolling"),
    (MONITOR, condition("Reconciling", "False"), ""),
    (MONITOR, condition("Stalled", "True", "quota"), "quota"),
    (MONITOR, {"conditions": ["Ready", {"type": ["Ready"], "status": {}}]}, ""),
]


@pytest.mark.parametrize("row", ROWS)
def test_a_child_is_ready_as_its_own_status_and_spec_say(row: tuple[Any, ...]) -> None:
    kind, status, why, *more = row
    type_, unready = readiness.of(kind)
    meta = {"name": "w", "uid": "u", "resourceVersion": "1", "generation": 1}
    spec = {"replicas": 3} | (more[0] if more else {})

    child = msgspec.convert({"metadata": meta, "spec": spec, "status": status}, type_)

    assert unready(child) == why


async def test_each_child_that_is_not_ready_is_named(server: ApiServer) -> None:
    async with working_on(server, widget(), controller(JOB, SECRET, POD)):
        await tells(
            server, "False", "NotReady", "Job w: it has not completed yet; Pod w: it is Pending."
        )
        await becomes(server, JOB, condition("Complete", "True"))

        await tells(server, "False", "NotReady", "Pod w: it is Pending.")


async def test_an_author_who_reads_a_child_says_when_it_is_ready(server: ApiServer) -> None:
    one = controller(
        POD,
        type_=kr.Conditioned,
        transform=lambda pod: pod.status.phase,
        unready=lambda phase: "" if phase == "Running" else f"phase {phase}",
    )
    async with working_on(server, widget(), one):
        await becomes(server, POD, {"phase": "Pending"})
        await tells(server, "False", "NotReady", "Pod w: phase Pending.")
        await becomes(server, POD, {"phase": "Running"})

        await is_well(server)


class Labelled(kr.Object):
    """What an author reads of a child: nothing that tells whether it is ready."""

    spec: Raw = {}  # noqa: RUF012 (msgspec copies it)


@pytest.mark.parametrize("type_", [None, kr.Object, Labelled])
async def test_an_author_who_reads_a_child_leaves_its_readiness_as_it_is(
    server: ApiServer, type_: type[kr.Object] | None
) -> None:
    one, seen = controller(DEPLOYMENT, type_=type_, transform=lambda it: it.metadata.name), []

    @one.status
    def status(_: Any, now: kr.Observed) -> kr.Status:
        seen.append(now.child and now.child.view)
        return kr.default_status(now)

    async with working_on(server, widget(), one):
        await becomes(server, DEPLOYMENT, {**DEPLOYED, "availableReplicas": 1})
        await tells(server, "False", "NotReady", "Deployment w: available Pods: 1 of 3.")
        await becomes(server, DEPLOYMENT, DEPLOYED)
        await is_well(server)
    assert seen[-1] == "w"


async def test_what_lacks_a_child_is_not_ready(server: ApiServer) -> None:
    one, told = controller(DEPLOYMENT, SECRET), kr.Status(True, "", "")

    @one.status
    def status(_: Any, seen: kr.Observed) -> kr.Status:
        nonlocal told
        return (told := kr.default_status(replace(seen, trouble=None)))

    server.refuse("PATCH", f"/secrets/{CHILD[1]}$", RefusedError(403, "Forbidden", "no"), 1000)
    server.put(WIDGET, widget())
    async with operating(server, one):
        await until(lambda: told.message == "1 of its objects are missing.")
        assert not told.ready
