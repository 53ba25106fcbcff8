"""Without an author's `status`, an object is ready once its children are, by their own status."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

import kopf_runtime as kr
from kopf_runtime.controller import Controller
from kopf_runtime.kinds import DAEMON_SET, DEPLOYMENT, JOB, POD, SECRET, STATEFUL_SET
from tests.runtime.widgets import WIDGET, Raw, Widget, ready, widget
from tests.support.api_server import ApiServer
from tests.support.running import operating
from tests.support.waiting import until

KEY, CHILD = ("ns", "one"), ("ns", "w")
KINDS = (DAEMON_SET, DEPLOYMENT, JOB, POD, SECRET, STATEFUL_SET)


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(WIDGET, *KINDS).running() as one:
        yield one


def controller(*kinds: kr.Kind, **owns: Any) -> Controller:
    """Return a controller of Widgets that have a child of each of these kinds."""
    widgets = Controller(WIDGET, Widget, lambda _: None)
    for kind in kinds:
        widgets.owns(kind, **owns)

    @widgets.desired
    def desired(one: Widget, _: object) -> list[Raw]:
        spec = {"replicas": 3} if STATEFUL_SET in kinds else {}
        return [
            {
                "apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "w"},
                "spec": spec,
            }
            for kind in kinds
        ]  # fmt: skip

    return widgets


def condition(type_: str, status: str, message: str = "") -> Raw:
    return {"conditions": [{"type": type_, "status": status, "message": message}]}


async def tells(server: ApiServer, status: str, reason: str, message: str) -> None:
    """Wait until the Widget's condition is this one."""

    def told() -> tuple[Any, ...]:
        found = ready(server.get(WIDGET, KEY))
        return tuple(found.get(part) for part in ("status", "reason", "message"))

    await until(lambda: told() == (status, reason, message))


def is_well(server: ApiServer) -> Any:
    return tells(server, "True", "Reconciled", "All of its objects are there.")


async def becomes(server: ApiServer, kind: kr.Kind, status: Raw) -> None:
    """Give the child a status, as its own controller does."""
    await until(lambda: server.get(kind, CHILD))
    server.edit(kind, CHILD, lambda raw: raw.update(status=status), subresource="status")


SEEN = {"observedGeneration": 1}
UNAVAILABLE = "Deployment does not have minimum availability."


@pytest.mark.parametrize(
    ("kind", "waiting", "message", "well"),
    [
        (DEPLOYMENT, {}, "Deployment w: its status is not up to date yet.", None),
        (DEPLOYMENT, SEEN, "Deployment w: it is not available yet.", None),
        (
            DEPLOYMENT,
            {**SEEN, **condition("Available", "False", UNAVAILABLE)},
            f"Deployment w: {UNAVAILABLE}",
            {**SEEN, **condition("Available", "True")},
        ),
        (
            STATEFUL_SET,
            {**SEEN, "readyReplicas": 2},
            "StatefulSet w: ready Pods: 2 of 3.",
            {**SEEN, "readyReplicas": 3},
        ),
        (
            DAEMON_SET,
            {**SEEN, "numberReady": 1, "desiredNumberScheduled": 2},
            "DaemonSet w: ready Pods: 1 of 2.",
            {**SEEN, "numberReady": 2, "desiredNumberScheduled": 2},
        ),
        (JOB, {}, "Job w: it has not completed yet.", condition("Complete", "True")),
        (JOB, condition("Failed", "True", "Too late."), "Job w: it has failed: Too late.", None),
        (POD, {}, "Pod w: it is Pending.", {"phase": "Succeeded"}),
        (
            POD,
            {"phase": "Running", **condition("Ready", "False", "containers not ready: [c]")},
            "Pod w: containers not ready: [c].",
            {"phase": "Running", **condition("Ready", "True")},
        ),
        (POD, {"phase": "Failed"}, "Pod w: it is Failed.", None),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
async def test_a_child_is_ready_as_its_own_status_says(
    server: ApiServer, kind: kr.Kind, waiting: Raw, message: str, well: Raw | None
) -> None:
    server.put(WIDGET, widget())
    async with operating(server, controller(kind)):
        await becomes(server, kind, waiting)
        await tells(server, "False", "NotReady", message)

        if well is not None:
            await becomes(server, kind, well)
            await is_well(server)
            await becomes(server, kind, waiting)
            await tells(server, "False", "NotReady", message)


async def test_each_child_that_is_not_ready_is_named(server: ApiServer) -> None:
    server.put(WIDGET, widget())
    async with operating(server, controller(JOB, SECRET, POD)):
        await tells(
            server, "False", "NotReady",
            "Job w: it has not completed yet; Pod w: it is Pending.",
        )  # fmt: skip
        await becomes(server, JOB, condition("Complete", "True"))

        await tells(server, "False", "NotReady", "Pod w: it is Pending.")


async def test_a_child_of_another_kind_only_has_to_exist(server: ApiServer) -> None:
    server.put(WIDGET, widget())
    async with operating(server, controller(SECRET)):
        await is_well(server)


async def test_an_author_who_reads_a_child_says_when_it_is_ready(server: ApiServer) -> None:
    one = controller(
        POD, type_=kr.Conditioned, keep=lambda pod: pod.status.phase,
        unready=lambda phase: "" if phase == "Running" else f"phase {phase}",
    )  # fmt: skip
    server.put(WIDGET, widget())
    async with operating(server, one):
        await becomes(server, POD, {"phase": "Pending"})
        await tells(server, "False", "NotReady", "Pod w: phase Pending.")
        await becomes(server, POD, {"phase": "Running"})

        await is_well(server)


async def test_an_author_who_reads_a_child_and_says_nothing_needs_it_to_exist(
    server: ApiServer,
) -> None:
    server.put(WIDGET, widget())
    async with operating(server, controller(POD, type_=kr.Conditioned, keep=lambda pod: None)):
        await is_well(server)
