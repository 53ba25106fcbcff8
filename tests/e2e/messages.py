"""A namespace and the Messages in it, on the kit's kubectl, so that tests read like the guide."""

import json
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kopf_kit.rig.cluster import Cluster
from kopf_kit.rig.run import KitError, outcome
from kopf_kit.testing import Kubectl
from kopf_kit.testing.installed import TIMEOUT
from kopf_kit.testing.installed import namespace as made_namespace
from kopf_kit.testing.requests import wait_until

Object = dict[str, Any]
WAIT = "--timeout=300s"
#: Marks all namespaces of the tests, so that what an interrupted run left is found.
PART_OF = "app.kubernetes.io/part-of=message-operator-e2e"
RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"


@dataclass(frozen=True)
class Namespace:
    """A namespace of a test; Pod Security admits only what is `restricted`."""

    kubectl: Kubectl

    @property
    def name(self) -> str:
        """Its name."""
        return self.kubectl.namespace

    def create(self, name: str, text: str | None = None, interval: int | None = None) -> "Message":
        """Create a Message without the fields that are None."""
        fields = {"text": text, "intervalSeconds": interval}
        spec = {name: value for name, value in fields.items() if value is not None}
        manifest: Object = {"apiVersion": "myorg.dev/v1", "kind": "Message"}
        manifest |= {"metadata": {"name": name}, **({"spec": spec} if spec else {})}
        self.kubectl("create", "--filename=-", stdin=json.dumps(manifest))
        return self.message(name)

    def message(self, name: str) -> "Message":
        """Return the Message of that name, whether it is there or not."""
        return Message(self.kubectl, name)

    def output(self, *arguments: str) -> bytes:
        """Run kubectl and return what it prints byte for byte; nothing if it fails."""
        return outcome(self.kubectl.command(*arguments), timeout=TIMEOUT)[1]

    def now(self) -> str:
        """Return the resource version of this moment, for `history`."""
        return str(
            json.loads(self.kubectl("get", "--raw", self._pods))["metadata"]["resourceVersion"]
        )

    def history(self, since: str) -> list[tuple[str, Object]]:
        """Return what happened to Pods since a resource version: ADDED, MODIFIED or DELETED.

        The API server remembers it, so nothing is missed.
        """
        watch = f"{self._pods}?watch=true&resourceVersion={since}&timeoutSeconds=1"
        lines = self.kubectl("get", "--raw", watch).splitlines()
        return [(event["type"], event["object"]) for event in map(json.loads, lines)]

    def looks(self, *looks: str) -> Iterator[tuple[str, str]]:
        """Yield what `kubectl get` shows of each, with a title: what a failed test shows."""
        for look in looks:
            try:
                yield f"{look} in {self.name}", self.kubectl("get", *look.split())
            except KitError as error:
                yield f"{look} in {self.name}", str(error)

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.name}/pods"


@dataclass(frozen=True)
class Message:
    """A Message that a test created, and its Pod."""

    kubectl: Kubectl
    name: str

    @property
    def pod_name(self) -> str:
        """The name of its Pod."""
        return f"msg-{self.name}"

    # --- what a user does ---------------------------------------------------------------------

    def edit(self, **spec: Any) -> None:
        """Change fields of the spec."""
        patch = json.dumps({"spec": spec})
        self.kubectl("patch", "message", self.name, "--type=merge", "-p", patch)

    def delete(self) -> None:
        """Delete it, without waiting."""
        self.kubectl("delete", "message", self.name, "--wait=false")

    def delete_pod(self, *options: str) -> None:
        """Delete its Pod, without waiting."""
        self.kubectl("delete", "pod", self.pod_name, "--wait=false", *options)

    def patch_pod(self, patch: Object, *options: str) -> None:
        """Alter its Pod by hand."""
        patched = ("--type=merge", "-p", json.dumps(patch))
        self.kubectl("patch", "pod", self.pod_name, *patched, *options)

    # --- what a user sees ---------------------------------------------------------------------

    def get(self) -> Any:
        """Return the Message as it is, None if it is gone."""
        return self.kubectl.find("message", self.name)

    def status(self) -> Any:
        """Return its status, empty if there is none."""
        return (self.get() or {}).get("status") or {}

    def pod(self) -> Any:
        """Return its Pod as it is, None if there is none."""
        return self.kubectl.find("pod", self.pod_name)

    def log(self) -> bytes:
        """Return what `kubectl logs` prints of its Pod; nothing before that has started."""
        return Namespace(self.kubectl).output("logs", self.pod_name)

    def events(self) -> list[Any]:
        """Return the Events about it, the oldest first."""
        about = f"--field-selector=involvedObject.name={self.name}"
        events = self.kubectl.get("events", about)["items"]
        return sorted(events, key=lambda event: int(event["metadata"]["resourceVersion"]))

    # --- waiting ------------------------------------------------------------------------------

    def wait_until_ready(self, *, instead_of: Any = None) -> Any:
        """Wait until it is Ready as last edited, with its Pod running; return the Pod.

        `instead_of` is a Pod that must have been replaced.
        """
        former = instead_of["metadata"]["uid"] if instead_of else None

        def look() -> tuple[Any, Any]:
            message = self.get() or {"metadata": {}}
            status, generation = message.get("status") or {}, message["metadata"].get("generation")
            current = is_ready(status) and status["observedGeneration"] == generation
            return message, self.pod() if current else None

        def holds(seen: tuple[Any, Any]) -> bool:
            pod = seen[1]
            return bool(pod and is_up(pod) and pod["metadata"]["uid"] != former)

        another = " with another Pod" if former else ""
        return wait_until(f"Message {self.name} to be Ready{another}", look, holds)[1]

    def wait_for_reason(self, *reasons: str) -> Any:
        """Wait until its Ready condition has one of the reasons; return the condition."""
        return wait_until(
            f"Message {self.name} to say {' or '.join(reasons)}",
            lambda: ready(self.status()),
            lambda condition: condition.get("reason") in reasons,
        )

    def wait_for_event(self, reason: str) -> Any:
        """Wait until it has an Event of that reason; return the last one."""
        return wait_until(
            f"an Event {reason} about Message {self.name}",
            lambda: [event for event in self.events() if event["reason"] == reason],
            bool,
        )[-1]

    def wait_for_log(self, start: bytes) -> bytes:
        """Wait until its Pod has printed this first; return the whole log."""
        return wait_until(
            f"Pod {self.pod_name} to print {start[:60]!r}",
            self.log,
            lambda log: log.startswith(start),
        )

    def wait_until_gone(self) -> None:
        """Wait until neither the Message nor its Pod is there."""
        wait_until(
            f"Message {self.name} and its Pod to be gone",
            lambda: (self.get(), self.pod()),
            lambda seen: seen == (None, None),
        )


@contextmanager
def make_namespace(cluster: Cluster, test: str) -> Iterator[Namespace]:
    """Have a namespace that is named after a test."""
    slug = re.sub(r"[^a-z0-9]+", "-", test.removeprefix("test_").lower())[:50].strip("-")
    name = f"{slug}-{secrets.token_hex(3)}"
    with made_namespace(cluster, name, PART_OF, RESTRICTED, wait=False) as kubectl:
        yield Namespace(kubectl)


def ready(status: Object) -> Any:
    """Return the Ready condition of a Message's or a Pod's status, empty without one."""
    conditions: list[Object] = status.get("conditions") or []
    return next((condition for condition in conditions if condition["type"] == "Ready"), {})


def is_ready(status: Object) -> bool:
    """Tell whether the Ready condition in a status holds."""
    return bool(ready(status).get("status") == "True")


def is_up(pod: Object) -> bool:
    """Tell whether a Pod is ready and not about to end."""
    return "deletionTimestamp" not in pod["metadata"] and is_ready(pod["status"])


def uid(found: Any) -> str:
    """Return the uid of an object that must be there."""
    assert found is not None, "the object is gone"
    return str(found["metadata"]["uid"])


def restarts(pod: Object) -> int:
    """Tell how often a Pod's container was started again."""
    (container,) = pod["status"]["containerStatuses"]
    return int(container["restartCount"])
