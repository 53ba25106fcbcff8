"""Says why a child of a well-known kind is not ready, according to its own status.

`Behavior.owns` uses these functions for the kinds whose children the author does not read. An
object without an author's `status` is ready once all of its children are.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from kopf_runtime.kinds import DAEMON_SET, DEPLOYMENT, JOB, POD, STATEFUL_SET, Kind
from kopf_runtime.objects import Object


class Condition(Struct, frozen=True):
    """One aspect of the state, and why it holds or not."""

    type: str = ""
    status: str = ""
    message: str = ""


class WorkloadSpec(Struct, frozen=True):
    """The wanted size, if the kind has one."""

    replicas: int = 1


class WorkloadStatus(Struct, rename="camel", frozen=True):
    """The fields from which Kubernetes itself tells readiness."""

    observed_generation: int = 0
    ready_replicas: int = 0
    desired_number_scheduled: int = 0
    number_ready: int = 0
    phase: str = ""
    conditions: list[Condition] = []


class Workload(Object):
    """A Pod, or an object that has Pods."""

    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()

    def lacks(self, type_: str, otherwise: str) -> str:
        """Return why a condition is not true, empty if it is."""
        conditions = (one for one in self.status.conditions if one.type == type_)
        condition = next(conditions, Condition())
        return "" if condition.status == "True" else condition.message or otherwise

    @property
    def unobserved(self) -> str:
        """Why the status tells nothing yet, empty if it is about the current generation."""
        known = self.status.observed_generation >= self.metadata.generation
        return "" if known else "its status is not up to date yet"


def _pod(pod: Workload) -> str:
    if pod.status.phase == "Succeeded":
        return ""
    return pod.lacks("Ready", f"it is {pod.status.phase or 'Pending'}")


def _deployment(deployment: Workload) -> str:
    return deployment.unobserved or deployment.lacks("Available", "it is not available yet")


def _stateful_set(one: Workload) -> str:
    return one.unobserved or _count(one.status.ready_replicas, one.spec.replicas)


def _daemon_set(one: Workload) -> str:
    return one.unobserved or _count(one.status.number_ready, one.status.desired_number_scheduled)


def _job(job: Workload) -> str:
    failed = (one for one in job.status.conditions if (one.type, one.status) == ("Failed", "True"))
    if (failure := next(failed, None)) is not None:
        return f"it has failed: {failure.message}"
    return job.lacks("Complete", "it has not completed yet")


def _count(ready: int, wanted: int) -> str:
    return "" if ready >= wanted else f"ready Pods: {ready} of {wanted}"


#: By kind, a function that returns why a child is not ready, and an empty text if it is.
UNREADY: dict[Kind, Callable[[Any], str]] = {
    POD: _pod,
    DEPLOYMENT: _deployment,
    STATEFUL_SET: _stateful_set,
    DAEMON_SET: _daemon_set,
    JOB: _job,
}
