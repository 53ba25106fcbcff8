"""The Message: its declaration, and its status, which follows from its Pod."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Annotated, Literal

from msgspec import Meta
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

import kopf_runtime as kr
from message_operator.pods import PodState, escape_env_value

#: Seconds after the end of its grace period when a Pod counts as stuck.
OVERDUE = 30.0
#: Length of the text's summary in the status, for the table of `kubectl get`.
SUMMARY = 40

#: Reasons of a waiting container that do not go away until somebody acts.
STUCK = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)

OTHER_TEXT = (
    "The Pod prints another text, because admission changed it or somebody else created the Pod; "
    "exempt the Pod from the webhook or policy that does so, then delete the Pod"
)
#: Limit of the text in UTF-8 bytes, and in characters. The Pod gets it as an environment variable
#: in which each `$` is doubled, because the kubelet would expand `$(NAME)`: at most 64 KiB, half of
#: the 131072 bytes that Linux allows one such string. The limit in characters is the same, so that
#: the API server's message ("more than 32768 bytes") is true.
LONGEST_TEXT = 32768
#: Limit of a Message's name in characters. A node keeps a Pod's logs in a directory named
#: <namespace>_<pod>_<uid>, and a file name has at most 255 bytes: with a longer name the Pod would
#: never start. 255 - 63 (longest namespace) - 36 (uid) - 2 (underscores) - 4 ("msg-") = 150.
#: https://github.com/kubernetes/kubernetes/issues/104288
LONGEST_NAME = 150

# No rule has a messageExpression with the actual size: the API server assumes that a number's text
# has no bound, and refuses the whole CRD as too costly.
Text = Annotated[
    str,
    Meta(
        max_length=LONGEST_TEXT,
        extra_json_schema=kr.validations(
            kr.ValidationRule(
                f"size(bytes(self)) <= {LONGEST_TEXT}",
                f"spec.text must have at most {LONGEST_TEXT} bytes in UTF-8; shorten it, or split "
                "it into several Messages",
            ),
            kr.ValidationRule(
                r'!self.contains("\u0000")',
                "spec.text must not contain the NUL character (U+0000): no process can receive it "
                "in its environment; remove it",
            ),
        ),
    ),
]
Interval = Annotated[int, Meta(ge=1, le=86400)]
Phase = Literal["Pending", "Processed", "Failed"]


class Spec(kr.Fields, frozen=True):
    """What is to be printed, and how often."""

    text: Text = "Hello from Operator!"
    """What the Pod prints, each time followed by a line break. Any Unicode but NUL, on one line or
    several, at most 32768 bytes in UTF-8 (some 10900 Korean characters). It is printed as it
    stands, no shell interprets it; an empty text prints empty lines."""
    interval_seconds: Interval = 10
    """Seconds between two prints, from 1 to 86400 (a day)."""


class Status(kr.Fields, frozen=True):
    """What the operator last observed. It is written by the operator alone."""

    phase: Phase
    """The state in one word. Pending means that the Pod does not run yet, Processed that it prints
    the text, Failed that it cannot; the Ready condition says why."""
    summary: Annotated[str, Meta(max_length=64)]
    """The beginning of the text, for tables."""
    pod_name: kr.ObjectName | None
    """Name of the Pod that prints the text."""
    node_name: kr.ObjectName | None
    """Name of the node that the Pod runs on."""


# Not in the category "all": `kubectl get all` would fail for everyone who may see Pods and Services
# but not Messages.
@kr.custom_resource(
    "myorg.dev",
    "v1",
    "messages",
    short_names=("msg",),
    status=Status,
    ready="the Pod prints the text as declared",
    printer_columns=[
        kr.Column("Text", ".status.summary", "The beginning of what the Pod prints"),
        kr.Column("Phase", ".status.phase", "Pending, Processed or Failed"),
        kr.READY,
        kr.AGE,
        kr.Column("Pod", ".status.podName", "The Pod that prints the text", wide=True),
        kr.Column("Node", ".status.nodeName", "The node that the Pod runs on", wide=True),
        kr.REASON,
    ],
    naming=f"Name of the Message, unique in its namespace, at most {LONGEST_NAME} characters. "
    "Its Pod is called msg-<name>.",
    validations=[
        kr.ValidationRule(
            f"size(self.metadata.name) <= {LONGEST_NAME}",
            f"metadata.name must have at most {LONGEST_NAME} characters: the Pod is called "
            "msg-<name>, and a node cannot start a Pod with a longer name; choose a shorter one",
            field_path=".metadata.name",
        )
    ],
)
class Message(kr.Resource):
    """A Message is a text that a Pod of its own, called msg-<name>, prints again and again.

    Edit it, and the Pod is replaced; delete it, and the Pod goes with it.
    """

    spec: Spec = Spec()


def summary(message: Message) -> str:
    """Return the beginning of the text, for a cell of a table."""
    start = message.spec.text[: SUMMARY + 1]
    plain = start if start.isprintable() else "".join(c if c.isprintable() else " " for c in start)
    return plain if len(start) <= SUMMARY else f"{plain[: SUMMARY - 1]}…"


def project(message: Message) -> tuple[str, int]:
    """Return what is kept of a Message: the summary, and a hash of the text in its Pod."""
    return summary(message), hash(escape_env_value(message.spec.text))


def status(kept: tuple[str, int], seen: kr.Observed) -> kr.Status:
    """Return the status of a Message, given what `project` returned of it."""
    child = seen.child
    pod: PodState | None = child.view if child is not None else None
    phase, reason, text, again = _state(kept[1], seen, child, pod)
    fields = Status(
        phase=phase,
        summary=kept[0],
        pod_name=child.name if child is not None else None,
        node_name=pod.node if pod is not None else None,
    )
    return kr.Status(
        phase == "Processed",
        reason,
        text,
        fields,
        transient=phase == "Pending",
        requeue_after=again,
    )


def _state(
    text: int, seen: kr.Observed, child: kr.Child | None, pod: PodState | None
) -> tuple[Phase, str, str, float | None]:
    """Return the phase, the Ready condition's reason and message, and when to requeue."""
    if (trouble := seen.trouble) is not None:
        return "Failed" if trouble.final else "Pending", trouble.reason, trouble.message, None
    if child is None or pod is None:
        return "Pending", "PodMissing", "The Pod is about to be created.", None
    if child.deleting:
        overdue = child.deadline + OVERDUE - seen.now
        if overdue > 0:
            return "Pending", "PodTerminating", "The former Pod is about to end.", overdue + 1.0
        return "Failed", "PodStuckTerminating", _why_stuck(child, pod), None
    if pod.text != text:
        return "Failed", "AdmissionChanged", OTHER_TEXT, None
    if pod.ready:
        return "Processed", "PodRunning", "The Pod prints the text.", None
    if pod.reason in STUCK:
        return "Failed", pod.reason, pod.note or "The Pod's container does not start.", None
    return "Pending", pod.reason or "PodPending", pod.note or "The Pod is starting.", None


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
    """Counts the Messages by phase at each scrape."""

    def __init__(self, name: str, owners: Callable[[], Iterator[kr.Owner]]) -> None:
        self._name, self._owners = name, owners

    def collect(self) -> Iterator[Metric]:
        """Return the gauge."""
        family = GaugeMetricFamily(self._name, "Messages, by phase.", labels=["phase"])
        phases = Counter(str(owner.status.get("phase") or "Pending") for owner in self._owners())
        for phase in ("Pending", "Processed", "Failed"):
            family.add_metric([phase], phases[phase])
        yield family
