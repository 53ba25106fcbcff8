"""Says why a child is not ready, according to its own status.

`Controller.owns` uses these functions unless the author says when a child is ready. An object
without an author's `status` is ready once all of its children are. The rules are those of `kubectl
rollout status` and of kstatus (sigs.k8s.io/cli-utils): during a rollout a workload is not ready,
even if enough Pods serve.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw, Struct

from kopf_runtime.declaring import models
from kopf_runtime.declaring.kinds import DAEMON_SET, DEPLOYMENT, JOB, POD, STATEFUL_SET, Kind
from kopf_runtime.declaring.objects import Object

#: The attribute of a child of an author's class in which it is kept why it is not ready.
_UNREADY = "unready_by_its_status"
#: Characters of another controller's message that are kept.
_MAX_MESSAGE = 300
#: The conditions by which an object of any kind says that it is not ready, the foremost first.
_WRONG = {"Stalled": ("True",), "Reconciling": ("True",), "Ready": ("False", "Unknown")}


class Condition(Struct, frozen=True):
    """One aspect of the state, and why it holds or not."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class RollingUpdate(Struct, frozen=True):
    """How a StatefulSet's Pods are replaced; those below the partition stay as they are."""

    partition: int = 0


class UpdateStrategy(Struct, rename="camel", frozen=True):
    """How the Pods of a StatefulSet or DaemonSet are replaced; `OnDelete` leaves it to people."""

    type: str = ""
    rolling_update: RollingUpdate | None = None


class WorkloadSpec(Struct, rename="camel", frozen=True):
    """The wanted size and the way to change, if the kind has them."""

    replicas: int = 1
    update_strategy: UpdateStrategy = UpdateStrategy()


class WorkloadStatus(Struct, rename="camel", frozen=True):
    """The fields from which Kubernetes itself tells readiness."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    desired_number_scheduled: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    phase: str = ""
    conditions: list[Condition] = []


class Workload(Object):
    """A Pod, or an object that has Pods."""

    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()

    def condition(self, type_: str) -> Condition:
        """Return a condition, or an empty one."""
        conditions = (condition for condition in self.status.conditions if condition.type == type_)
        return next(conditions, Condition())

    def lacks(self, type_: str, otherwise: str) -> str:
        """Return why a condition is not true, empty if it is."""
        condition = self.condition(type_)
        return "" if condition.status == "True" else condition.message or otherwise

    @property
    def unobserved(self) -> str:
        """Why the status tells nothing yet, empty if it is about the current generation."""
        observed = self.status.observed_generation >= self.metadata.generation
        return "" if observed else "its status is not up to date yet"

    @property
    def rolls(self) -> bool:
        """Whether its Pods are replaced without anybody's help after an edit."""
        return self.spec.update_strategy.type != "OnDelete"


def _pod(pod: Workload) -> str:
    if pod.status.phase == "Succeeded":
        return ""
    return pod.lacks("Ready", f"it is {pod.status.phase or 'Pending'}")


def _deployment(workload: Workload) -> str:
    status, wanted = workload.status, workload.spec.replicas
    behind = (
        _count("available", status.available_replicas, wanted)
        or _count("updated", status.updated_replicas, wanted)
        or _surplus(status.replicas, wanted)
    )
    if workload.unobserved or not behind:
        return workload.unobserved
    failure, progress = workload.condition("ReplicaFailure"), workload.condition("Progressing")
    why = failure.message if failure.status == "True" else ""  # for example, a quota
    if progress.reason == "ProgressDeadlineExceeded":
        return f"its rollout has failed: {why or progress.message}"
    return f"{behind} ({why})" if why else behind


def _stateful_set(workload: Workload) -> str:
    status, wanted = workload.status, workload.spec.replicas
    return (
        workload.unobserved
        or _count("ready", status.ready_replicas, wanted)
        or (_rolling(workload) if workload.rolls else "")
        or _surplus(status.replicas, wanted)
    )


def _rolling(stateful_set: Workload) -> str:
    """Return how far the rollout of a StatefulSet has come, empty if it is over."""
    status, update = stateful_set.status, stateful_set.spec.update_strategy.rolling_update
    partition = update.partition if update is not None else 0
    if not partition and status.current_revision != status.update_revision:
        return f"updated Pods: {status.updated_replicas} of {stateful_set.spec.replicas}"
    return _count("updated", status.updated_replicas, stateful_set.spec.replicas - partition)


def _daemon_set(workload: Workload) -> str:
    status, wanted = workload.status, workload.status.desired_number_scheduled
    return (
        workload.unobserved
        or _count("available", status.number_available, wanted)
        or (_count("updated", status.updated_number_scheduled, wanted) if workload.rolls else "")
    )


def _job(job: Workload) -> str:
    failed = job.condition("Failed")
    if failed.status == "True":
        return f"it has failed: {failed.message}"
    return job.lacks("Complete", "it has not completed yet")


class Anything(Object):
    """An object of a kind without rules of its own, whose status may have any form."""

    status: Any = None


def _anything(thing: Anything) -> str:
    """Return why an object is not ready, by the rules of kstatus for any kind."""
    status = thing.status if isinstance(thing.status, dict) else {}
    observed = status.get("observedGeneration")
    if isinstance(observed, int) and observed < thing.metadata.generation:
        return "its status is not up to date yet"
    listed = status.get("conditions")
    conditions = [c for c in (listed if isinstance(listed, list) else ()) if isinstance(c, dict)]
    for type_, wrong in _WRONG.items():
        for condition in conditions:
            if condition.get("type") == type_ and condition.get("status") in wrong:
                text = condition.get("message") or condition.get("reason")
                return f"{text}"[:_MAX_MESSAGE] if text else f"its {type_} is {condition['status']}"
    return ""


def of(kind: Kind) -> tuple[type[Object], Callable[[Any], str]]:
    """Return how a kind is read, and the function that returns why a child is not ready."""
    return (Workload, UNREADY[kind]) if kind in UNREADY else (Anything, _anything)


class Judge:
    """Decodes the children of a kind, and tells of each whether it is ready.

    An author's own class may lack the fields that tell it. So a child is then decoded twice, and
    what the second look says is kept with the first.
    """

    def __init__(self, kind: Kind, type_: type[Any] | None) -> None:
        #: The class of what `decode` returns.
        self.type: type[Any]
        self.type, self._unready = of(kind)
        self._decoder = msgspec.json.Decoder(self.type)
        self._own: msgspec.json.Decoder[Any] | None = None
        self._decode: Callable[[bytes | Raw], Any] = self._decoder.decode
        if type_ is not None and models.is_model(type_):
            self._decode = models.Decoder(type_, self._decode).decode
        elif type_ is not None:
            self.type = msgspec.defstruct(
                type_.__name__,
                [(_UNREADY, str, "")],
                bases=(type_,),
                kw_only=True,
                frozen=type_.__struct_config__.frozen,
            )
            self._own = msgspec.json.Decoder(self.type)

    def decode(self, payload: bytes | Raw, /) -> Any:
        """Return a child; raise `MsgspecError`."""
        if self._own is None:
            return self._decode(payload)
        child = self._own.decode(payload)
        msgspec.structs.force_setattr(child, _UNREADY, self._look(payload))
        return child

    def _look(self, payload: bytes | Raw) -> str:
        try:
            return self._unready(self._decoder.decode(payload))
        except msgspec.MsgspecError as error:
            return f"its status cannot be read: {error}"[:_MAX_MESSAGE]

    def unready(self, child: Any) -> str:
        """Return why a decoded child is not ready; empty if it is."""
        return self._unready(child) if self._own is None else str(getattr(child, _UNREADY))


def _count(state: str, actual: int, wanted: int) -> str:
    return "" if actual >= wanted else f"{state} Pods: {actual} of {wanted}"


def _surplus(actual: int, wanted: int) -> str:
    return "" if actual <= wanted else f"Pods that are still to go: {actual - wanted}"


#: By kind, a function that returns why a child is not ready, and an empty text if it is.
UNREADY: dict[Kind, Callable[[Any], str]] = {
    POD: _pod,
    DEPLOYMENT: _deployment,
    STATEFUL_SET: _stateful_set,
    DAEMON_SET: _daemon_set,
    JOB: _job,
}
