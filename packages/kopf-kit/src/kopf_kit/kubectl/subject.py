"""The operator that a plugin is about: the packer writes it into the program."""

from __future__ import annotations

from typing import Any, NamedTuple

from kopf_kit.kubectl.text import Text


class Right(NamedTuple):
    """A verb on a resource, or on the one object of that name."""

    group: str
    resource: str
    verb: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"


class Kind(NamedTuple):
    """A kind that the operator serves."""

    kind: str
    #: Its plural for sentences, such as `Widgets`.
    many: str
    #: The name of its CRD.
    resource: str
    version: str
    namespaced: bool
    #: The texts in its spec that are not a user's own: True, or the fields of an object, or the
    #: values of a map as `*`; an array is as its items are.
    shown: dict[str, Any]


class Entry(NamedTuple):
    """What some reasons or Events mean, and what to do; `advice.yaml` describes it.

    Its sentences may contain {name}, {namespace}, {command}, {operator}, {many} and {home}.
    """

    #: Their names, in which `*` stands for any text.
    of: tuple[str, ...]
    do: Text
    means: Text = Text("")
    #: A pattern of the condition's message; empty if the reason alone decides.
    message: str = ""
    #: The alert whose runbook has more details, or an empty text.
    alert: str = ""


class Advice(NamedTuple):
    """What is known; of the entries for a reason, the first that fits counts."""

    #: Of the operator's own Pods; their sentences may contain {namespace}, {pod} and {node}.
    pods: tuple[Entry, ...] = ()

    reasons: tuple[Entry, ...] = ()
    events: tuple[Entry, ...] = ()


class Subject(NamedTuple):
    """An operator, as its repository says what it is."""

    #: Also the name of its chart, its OLM package and, by default, its Lease.
    name: str
    #: The word after `kubectl` that runs the plugin.
    command: str
    version: str
    #: Its page.
    home: str
    #: The page of its runbooks.
    runbooks: str
    #: The alerts of its chart.
    alerts: tuple[str, ...]
    #: What the names of its environment variables begin with.
    variables: str
    #: What an argument or a variable of its Deployment begins with, and of no other one.
    signs: tuple[str, ...]
    kinds: tuple[Kind, ...]
    #: The rights that it needs in each namespace that it serves.
    rights: tuple[Right, ...]
    #: Whether each of its objects has a `Ready` condition.
    tells: bool
    advice: Advice = Advice()

    @property
    def writes(self) -> Right:
        """The right that no operator of these kinds works without."""
        plural, _, group = self.kinds[0].resource.partition(".")
        status = Right(group, f"{plural}/status", "patch")
        return status if status in self.rights else Right(group, plural, "patch")

    @property
    def many(self) -> str:
        """Its kinds in the plural."""
        return ", ".join(kind.many for kind in self.kinds)

    def alert(self, name: str) -> str:
        """Return the full name of an alert, or an empty text if the chart has no such alert."""
        return next((alert for alert in self.alerts if alert.endswith(name)), "")

    def runbook(self, alert: str) -> str:
        """Return the URL of an alert's runbook."""
        return f"{self.runbooks}#{alert.lower()}"


_used: list[Subject] = []


def use(subject: Subject) -> None:
    """Set the operator that the plugin is about, before it is run."""
    _used[:] = [subject]


def current() -> Subject:
    """Return the operator that the plugin is about."""
    return _used[0]
