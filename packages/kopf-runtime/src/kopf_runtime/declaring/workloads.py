"""Pods, Jobs, claims and Secrets, as operators of workloads read them.

The classes are for `owns`, `watches` and `reads`; `Pod.attempt` and `Job.run` are projections.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from kopf_runtime.declaring.context import StepContext
from kopf_runtime.declaring.kinds import JOB, POD
from kopf_runtime.declaring.objects import Object

R = TypeVar("R")
#: Why a container waits that is only about to start.
_STARTS = ("", "PodInitializing", "ContainerCreating")


class _Condition(Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _State(Struct, rename="camel", frozen=True):
    reason: str = ""
    message: str = ""
    exit_code: int = 0

    def ended(self, why: str) -> str:
        """Return how a container ended: with the last error of its log, or `why` if it has none."""
        text = f"it ended with exit code {self.exit_code}"
        why = _last_error(self.message) or why
        return f"{text}: {why}" if why else f"{text}."


class _States(Struct, frozen=True):
    waiting: _State | None = None
    running: _State | None = None
    terminated: _State | None = None


class _ContainerStatus(Struct, rename="camel", frozen=True):
    name: str = ""
    restart_count: int = 0
    state: _States = _States()
    last_state: _States = _States()

    def crash(self) -> str:
        """Return how it ended while it waits after a crash; else an empty text."""
        waiting, ended = self.state.waiting, self.last_state.terminated
        if waiting is None or not self.waits_after_a_crash or ended is None or not ended.exit_code:
            return ""
        return ended.ended(waiting.message if ended.reason in ("", "Error") else ended.reason)

    @property
    def waits_after_a_crash(self) -> bool:
        """Whether it is started again in a while."""
        return self.state.waiting is not None and self.state.waiting.reason == "CrashLoopBackOff"


def _last_error(log: str) -> str:
    """Return the last error in the end of a log, which may be of JSON, or else its last line."""
    lines = [line for line in map(str.strip, log.splitlines()) if line]
    for line in reversed(lines):
        if line.startswith("{"):
            with contextlib.suppress(msgspec.MsgspecError, RecursionError):
                entry = msgspec.json.decode(line, type=dict[str, Any])
                if str(entry.get("level")).lower() in ("error", "panic", "fatal"):
                    said = [str(entry[key]) for key in ("msg", "message", "error") if key in entry]
                    return ": ".join(said) or line
    return lines[-1] if lines else ""


class _Container(Struct, frozen=True):
    name: str = ""
    image: str = ""
    env: list[dict[str, Any]] = []


class _PodSpec(Struct, rename="camel", frozen=True):
    node_name: str | None = None
    containers: list[_Container] = []


class _PodStatus(Struct, rename="camel", frozen=True):
    phase: str = "Pending"
    reason: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    conditions: list[_Condition] = []
    init_container_statuses: list[_ContainerStatus] = []
    container_statuses: list[_ContainerStatus] = []


class Attempt(NamedTuple):
    """The `report` of a Job's Pod, why it has failed (`failure`), or does not start (`waiting`)."""

    report: str = ""
    failure: str = ""
    waiting: str = ""


class Pod(Object):
    """A Pod."""

    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()

    def holds(self, condition: str) -> bool:
        """Tell whether a condition is true."""
        return any(c.type == condition and c.status == "True" for c in self.status.conditions)

    def _containers(self) -> list[_ContainerStatus]:
        return [*self.status.init_container_statuses, *self.status.container_statuses]

    def trouble(self, own: str = "") -> tuple[str, str]:
        """Return why it does not run: reason and message, both empty if it gives none.

        This includes containers that admission added: unless `own` is their name, it is in the
        message. Of one that crashes, the message has the last error of its log, which Kubernetes
        tells if the container has `terminationMessagePolicy: FallbackToLogsOnError`.
        """
        for container in self._containers():
            waiting, over = container.state.waiting, container.state.terminated
            if waiting is not None and waiting.reason != "PodInitializing":
                reason = waiting.reason
                text = container.crash() or waiting.message or f"It waits: {reason}."
            elif over is not None and over.exit_code:
                reason, text = over.reason or "Error", over.ended("")
            else:
                continue
            named = text if container.name == own else f"Container {container.name}: {text}"
            return reason, named
        for condition in self.status.conditions:
            if (condition.type, condition.status) == ("PodScheduled", "False"):
                return condition.reason, condition.message
        return "", ""

    def crashes(self, restarts: int) -> bool:
        """Tell whether a container waits after a crash, and was restarted so many times."""
        return any(
            container.restart_count >= restarts and container.waits_after_a_crash
            for container in self.status.container_statuses
        )

    def attempt(self) -> Attempt:
        """Return the report of a Job's Pod, why it has failed, or what it waits for.

        A report is a termination message that is a JSON object, of a container that ended well.
        """
        for condition in self.status.conditions:
            if (condition.type, condition.status) == ("PodScheduled", "False"):
                return Attempt(waiting=condition.message)  # such as that a volume does not exist
        states = [container.state for container in self._containers()]
        for state in states:
            if (over := state.terminated) is not None and over.exit_code:
                message = over.message.strip() or over.reason
                return Attempt(failure=message or f"it ended with {over.exit_code}")
            if (waits := state.waiting) is not None and waits.reason not in _STARTS:
                return Attempt(waiting=waits.message or waits.reason)
        texts = [state.terminated.message for state in states if state.terminated is not None]
        return Attempt(report=next((text for text in texts if text.startswith("{")), ""))


class _JobStatus(Struct, rename="camel", frozen=True):
    conditions: list[_Condition] = []
    completion_time: str = ""


@dataclass(frozen=True)
class JobRun(Generic[R]):
    """Whether a Job `exists`, how it fares, and the `report` of its Pods.

    `ended` says why it has failed; it is empty if the Job is complete, and None while it runs.
    `failures` Pods have failed, the last one for the reason `failure`. The Job was complete `at` a
    time, in seconds of Unix time. The newest Pod does not start for the reason `waiting`.
    """

    exists: bool = False
    ended: str | None = None
    report: R | None = None
    failures: int = 0
    failure: str = ""
    at: float = 0.0
    waiting: str = ""

    @property
    def trouble(self) -> str:
        """A sentence to add about a Pod that does not start, or attempts that have failed."""
        if self.waiting:
            return f" The Job's Pod does not start yet: {self.waiting.rstrip('.')}."
        if not self.failure:
            return ""
        return f" Failed attempts: {self.failures}; the last one: {self.failure.rstrip('.')}."

    @classmethod
    def of(
        cls, context: StepContext[Any], name: str, read: Callable[[Sequence[str]], R]
    ) -> "JobRun[R]":
        """Return how the Job with a name fares, of all its Pods, which are descendants.

        A Pod may run twice, so `read` gets all reports, those of the oldest Pod first.
        """
        views = (job.view for job in context.children_of(JOB) if job.key[1] == name)
        pods = [
            pod.view
            for pod in sorted(context.descendants[POD], key=lambda pod: pod.created)
            if pod.key[1].startswith(f"{name}-")
        ]
        reports = [pod.report for pod in pods if pod.report]
        failed = [pod.failure for pod in pods if pod.failure]
        return replace(
            next(views, cls()),
            report=read(reports) if reports else None,
            failures=len(failed),
            failure=failed[-1] if failed else "",
            waiting=pods[-1].waiting if pods else "",
        )


class Job(Object):
    """A Job."""

    status: _JobStatus = _JobStatus()

    def run(self) -> JobRun[Any]:
        """Return how it fares, as far as it tells that without its Pods."""
        true = {entry.type: entry for entry in self.status.conditions if entry.status == "True"}
        if (failed := true.get("Failed")) is not None:
            return JobRun(True, failed.message or failed.reason or "it failed")
        time = self.status.completion_time
        at = datetime.fromisoformat(time).timestamp() if time else 0.0
        return JobRun(True, "" if "Complete" in true else None, at=at)


class _Resources(Struct, frozen=True):
    requests: dict[str, str] = {}


class _ClaimSpec(Struct, frozen=True):
    resources: _Resources = _Resources()


class _ClaimStatus(Struct, frozen=True):
    phase: str = ""
    capacity: dict[str, str] = {}


class PersistentVolumeClaim(Object):
    """A claim of a volume: `spec.resources.requests` is asked for, `status.capacity` is there."""

    spec: _ClaimSpec = _ClaimSpec()
    status: _ClaimStatus = _ClaimStatus()


class Secret(Object):
    """A Secret, decoded."""

    data: dict[str, bytes] = msgspec.field(default_factory=dict)

    def texts(self) -> dict[str, str]:
        """Return its values as texts."""
        return {name: value.decode(errors="replace") for name, value in self.data.items()}
