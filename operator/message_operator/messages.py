"""What a Message is, and how one fares by its Pod."""

from collections import Counter
from collections.abc import Callable, Iterator

import msgspec
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

import kopf_runtime as kr
from message_operator.pods import PodState

KIND = kr.Kind("myorg.dev", "v1", "messages", "Message")

#: Seconds after the end of its grace when a Pod is not about to end any more, but stuck.
OVERDUE = 30.0
#: Characters of the text that the status repeats, for the table of `kubectl get`.
SUMMARY = 40

#: What a container waits for when no waiting will help: somebody has to act.
STUCK = frozenset({
    "CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull",
    "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "RunContainerError",
})  # fmt: skip


class Spec(msgspec.Struct, rename="camel", frozen=True):
    """What a user declares; the API server has filled in the defaults."""

    text: str = ""
    interval_seconds: int = 10


class Message(kr.Resource):
    """A Message."""

    spec: Spec = Spec()


def summary(message: Message) -> str:
    """Return the beginning of the text, fit for a cell of a table."""
    start = message.spec.text[: SUMMARY + 1]
    plain = "".join(c if c.isprintable() else " " for c in start)
    return plain if len(start) <= SUMMARY else f"{plain[: SUMMARY - 1]}…"


def status(seen: kr.Observed) -> kr.Status:
    """Return how a Message fares."""
    child = seen.child
    pod: PodState | None = child.view if child is not None else None
    phase, reason, text, again = _state(seen, child, pod)
    fields = {
        "phase": phase,
        "summary": seen.object.view,
        "podName": child.key[1] if child is not None else None,  # null takes the field away
        "nodeName": pod.node if pod is not None else None,
    }
    return kr.Status(
        phase == "Processed", reason, text, fields, passing=phase == "Pending", again=again
    )


def _state(
    seen: kr.Observed, child: kr.Child | None, pod: PodState | None
) -> tuple[str, str, str, float | None]:
    """Return the phase, the Ready condition's reason and message, and when to look again."""
    if (trouble := seen.trouble) is not None:
        phase = "Failed" if trouble.final else "Pending"
        return phase, trouble.reason, trouble.message, None
    if child is None or pod is None:
        return "Pending", "PodMissing", "The Pod is about to be created.", None
    if child.deleting:
        overdue = child.deadline + OVERDUE - seen.now
        if overdue > 0:
            return "Pending", "PodTerminating", "The former Pod is about to end.", overdue + 1.0
        return "Failed", "PodStuckTerminating", _why_stuck(child, pod), None
    if pod.ready:
        return "Processed", "PodRunning", "The Pod prints the text.", None
    if pod.reason in STUCK:
        return "Failed", pod.reason, pod.note or "The Pod's container does not start.", None
    note = pod.note or "The Pod is starting."
    return "Pending", pod.reason or "PodPending", note, None


def _why_stuck(child: kr.Child, pod: PodState) -> str:
    if child.finalizers:
        return (
            f"The former Pod is held by the finalizer {', '.join(child.finalizers)}. It is "
            "replaced once that finalizer is removed; ask its owner."
        )
    return (
        f"The former Pod does not end: its node {pod.node} has not confirmed it. It is replaced as "
        "soon as it has gone. If that node is lost, delete the Node, or the Pod by force."
    )


class Phases(Collector):
    """Counts the Messages by phase when somebody asks."""

    def __init__(self, name: str, known: Callable[[], Iterator[kr.Primary]]) -> None:
        self._name, self._known = name, known

    def collect(self) -> Iterator[Metric]:
        """Return the gauge."""
        family = GaugeMetricFamily(self._name, "Messages, by phase.", labels=["phase"])
        phases = Counter(message.status.get("phase") or "Pending" for message in self._known())
        for phase in ("Pending", "Processed", "Failed"):
            family.add_metric([phase], phases[phase])
        yield family
