"""A namespace and the Messages in it, so that tests read like the guide."""

import json
import re
import secrets
from collections.abc import Iterator
from typing import Any

from kopf_kit.testing.requests import wait_until
from tests.e2e.kube import Kube, Object

#: Marks all namespaces of the tests, so that what an interrupted run left is found.
LABELS = {
    "app.kubernetes.io/part-of": "message-operator-e2e",
    "pod-security.kubernetes.io/enforce": "restricted",
}

#: The label by which a Message's Pods are found, whatever they are called.
OWNER = "myorg.dev/message-uid"


class Namespace:
    """A namespace of a test; Pod Security admits only what is `restricted`."""

    def __init__(self, kube: Kube, name: str) -> None:
        self.kube = kube
        self.name = name

    def make(self) -> None:
        """Create it, and wait until it is ready for Pods."""
        self.kube.create({"kind": "Namespace", "metadata": {"name": self.name, "labels": LABELS}})
        wait_until(
            f"the default ServiceAccount of {self.name}",
            lambda: self.kube.get("ServiceAccount", "default", self.name),
            lambda account: account,
        )

    def remove(self) -> None:
        """Delete it with all that is in it, without waiting."""
        self.kube.delete("Namespace", self.name)

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        """Run kubectl in this namespace and return what it prints."""
        return self.kube.kubectl("-n", self.name, *args, stdin=stdin)

    def create(self, name: str, text: str | None = None, interval: int | None = None) -> "Message":
        """Declare a Message; what is None is left out."""
        fields = {"text": text, "intervalSeconds": interval}
        spec = {name: value for name, value in fields.items() if value is not None}
        manifest: Object = {"kind": "Message", "metadata": {"name": name}}
        self.kube.create(manifest | ({"spec": spec} if spec else {}), self.name)
        return self.message(name)

    def message(self, name: str) -> "Message":
        """Return the Message of that name, whether it is there or not."""
        return Message(self, name)

    def pods(self) -> list[Object]:
        """Return the Pods that are there."""
        return self.kube.objects("Pod", self.name)[0]

    def now(self) -> str:
        """Return the resource version of this moment, for `history`."""
        return self.kube.objects("Pod", self.name)[1]


class Message:
    """A Message that a test declared, and the Pod of it."""

    def __init__(self, namespace: Namespace, name: str) -> None:
        self.namespace = namespace
        self.kube = namespace.kube
        self.name = name
        self.pod_name = f"msg-{name}"

    # --- what a user does ---------------------------------------------------------------------

    def edit(self, **spec: Any) -> None:
        """Change fields of the spec."""
        self.kube.patch("Message", self.name, {"spec": spec}, self.namespace.name)

    def delete(self, **options: Any) -> None:
        """Delete it, without waiting."""
        self.kube.delete("Message", self.name, self.namespace.name, **options)

    def delete_pod(self, **options: Any) -> None:
        """Delete its Pod, without waiting."""
        self.kube.delete("Pod", self.pod_name, self.namespace.name, **options)

    def patch_pod(self, patch: Object) -> None:
        """Alter its Pod by hand."""
        self.namespace.kubectl(
            "patch", "pod", self.pod_name, "--type=merge", "-p", json.dumps(patch)
        )

    # --- what a user sees ---------------------------------------------------------------------

    def get(self) -> Object | None:
        """Return the Message as it is, None if it is gone."""
        return self.kube.get("Message", self.name, self.namespace.name)

    def status(self) -> Object:
        """Return its status, empty if there is none."""
        return (self.get() or {}).get("status") or {}

    def ready(self) -> Object:
        """Return its Ready condition, empty if there is none."""
        return ready(self.status())

    def pod(self) -> Object | None:
        """Return its Pod as it is, None if there is none."""
        return self.kube.get("Pod", self.pod_name, self.namespace.name)

    def log(self) -> bytes:
        """Return what `kubectl logs` prints of its Pod; nothing before that has started."""
        return self.kube.output("-n", self.namespace.name, "logs", self.pod_name)

    def events(self) -> list[Object]:
        """Return the Events about it, the oldest first."""
        events, _ = self.kube.objects("Event", self.namespace.name)
        ours = [event for event in events if event["involvedObject"].get("name") == self.name]
        return sorted(ours, key=lambda event: int(event["metadata"]["resourceVersion"]))

    # --- waiting ------------------------------------------------------------------------------

    def wait_until_ready(self, *, instead_of: Object | None = None) -> Object:
        """Wait until it is Ready as last edited, with its Pod running; return the Pod.

        `instead_of` is a Pod that must have been replaced.
        """
        former = instead_of["metadata"]["uid"] if instead_of else None

        def look() -> tuple[Object | None, Object | None]:
            return self.get(), self.pod()

        def holds(seen: tuple[Object | None, Object | None]) -> bool:
            message, pod = seen
            if message is None or pod is None:
                return False
            status = message.get("status") or {}
            return (
                pod["metadata"]["uid"] != former
                and "deletionTimestamp" not in pod["metadata"]
                and ready(pod["status"]).get("status") == "True"
                and ready(status).get("status") == "True"
                and status["observedGeneration"] == message["metadata"]["generation"]
            )

        _, pod = wait_until(
            f"Message {self.name} to be Ready" + (" with another Pod" if former else ""),
            look,
            holds,
        )
        assert pod is not None
        return pod

    def wait_for_reason(self, *reasons: str) -> Object:
        """Wait until its Ready condition has one of the reasons; return the condition."""
        return wait_until(
            f"Message {self.name} to say {' or '.join(reasons)}",
            self.ready,
            lambda condition: condition.get("reason") in reasons,
        )

    def wait_for_event(self, reason: str) -> Object:
        """Wait until it has an Event of that reason; return the last one."""
        events = wait_until(
            f"an Event {reason} about Message {self.name}",
            self.events,
            lambda events: any(event["reason"] == reason for event in events),
        )
        return [event for event in events if event["reason"] == reason][-1]

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


def make_namespace(kube: Kube, test: str) -> Iterator[Namespace]:
    """Make a namespace that is named after a test, then remove it; a fixture's body."""
    slug = re.sub(r"[^a-z0-9]+", "-", test.removeprefix("test_").lower())[:50].strip("-")
    made = Namespace(kube, f"{slug}-{secrets.token_hex(3)}")
    made.make()
    yield made
    made.remove()


def ready(status: Object) -> Object:
    """Return the Ready condition of a Message's or a Pod's status, empty without one."""
    conditions: list[Object] = status.get("conditions") or []
    return next((condition for condition in conditions if condition["type"] == "Ready"), {})


def uid(found: Object | None) -> str:
    """Return the uid of an object that must be there."""
    assert found is not None, "the object is gone"
    return str(found["metadata"]["uid"])


def restarts(pod: Object) -> int:
    """Tell how often a Pod's container was started again."""
    (container,) = pod["status"]["containerStatuses"]
    return int(container["restartCount"])
