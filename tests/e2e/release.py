"""A release of the operator, on the kit's fixtures: what its administrators do to it, and see."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from kopf_kit.cli import crd
from kopf_kit.release import artifacts
from kopf_kit.release.artifacts import Published
from kopf_kit.rig.cluster import Cluster
from kopf_kit.rig.run import CommandError
from kopf_kit.testing import Installed, Kubectl
from kopf_kit.testing.requests import wait_until
from tests.e2e.messages import PART_OF, Object, is_up

NAME = "message-operator"
CRD = "messages.myorg.dev"
#: All that a release may be in; Helm 3's `--all` is Helm 4's default.
STATES = ("--deployed", "--failed", "--pending", "--uninstalling", "--uninstalled")


@dataclass(frozen=True)
class Operator(Installed):
    """A release of the tests."""

    #: What is installed; by default what is published of this checkout.
    published: Published | None = None
    name: str = NAME
    #: Whether it takes over the kind that another release may have left.
    takes_over: bool = True
    _known: set[str] = field(default_factory=set)  # lines of trouble that were seen
    _new: list[str] = field(default_factory=list)  # those of them that `trouble` did not return

    # --- Helm ---------------------------------------------------------------------------------

    def install(self, *options: str) -> None:
        """Install it, and wait until it is ready."""
        self._helm("install", *(["--take-ownership"] if self.takes_over else []), *options)

    def upgrade(self, *options: str, to: Published | None = None) -> None:
        """Give it these values, or another chart, and wait until it is ready."""
        self._helm("upgrade", *options, published=to)

    def rollback(self) -> None:
        """Go back to what was before the last upgrade, and wait until it is ready."""
        self._look_for_trouble()
        self.helm("rollback", self.name, "--wait", "--timeout=5m")

    def test(self) -> str:
        """Return what `helm test` prints, with the log of its Pod."""
        return self.helm("test", self.name, "--timeout=5m", "--logs")

    @contextmanager
    def upgraded(self, *options: str) -> Iterator[None]:
        """Have other values for a while."""
        try:
            self._helm("upgrade", *options)
            yield
        finally:
            self._helm("upgrade")

    def uninstall(self) -> None:
        """Remove the release, if it is there; the CRD and the Messages stay."""
        self._look_for_trouble()
        self.helm("uninstall", self.name, "--ignore-not-found", "--wait", "--timeout=5m")

    def _helm(self, verb: str, *options: str, published: Published | None = None) -> None:
        self._look_for_trouble()
        one = published or self.published or artifacts.publish_installation(self.kubectl.cluster)
        try:
            wait = ("--wait", "--timeout=5m", *one.options)
            self.helm(verb, self.name, one.chart, *wait, *options)
        except CommandError as error:
            there = self.kubectl("get", "pods,events", "-o", "wide")
            raise CommandError(f"{error}\n\n{there}\n{self.log()}") from None

    # --- its Pods -----------------------------------------------------------------------------

    def pods(self) -> list[Any]:
        """Return the operator's Pods, those that are about to end included."""
        named = f"--selector=app.kubernetes.io/name={NAME}"
        pods: list[Any] = self.kubectl.get("pods", named)["items"]
        return pods

    def scale(self, replicas: int) -> None:
        """Run so many operators, and wait until just these are there and ready."""
        self._look_for_trouble()
        self.kubectl("scale", "deployment", self.name, f"--replicas={replicas}")
        self.wait_until_ready(replicas)

    def wait_until_ready(self, replicas: int = 1) -> list[Object]:
        """Wait until just so many operators are there and ready; return their Pods."""
        return wait_until(
            f"{replicas} operators to be ready",
            self.pods,
            lambda pods: len(pods) == replicas and all(map(is_up, pods)),
        )

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Have no operator for a while."""
        self.scale(0)
        try:
            yield
        finally:
            self.scale(1)

    def leader(self) -> str:
        """Return the name of the Pod that holds the Lease, empty if none does."""
        lease = self.kubectl.find("lease", self.name) or {"spec": {}}
        return str(lease["spec"].get("holderIdentity") or "").partition("_")[0]

    def get(self, port: int, path: str) -> str:
        """GET from the operator's only Pod, through the API server."""
        (pod,) = self.pods()
        where = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}:{port}"
        return self.kubectl("get", "--raw", f"{where}/proxy/{path}")

    # --- its log ------------------------------------------------------------------------------

    def trouble(self) -> list[str]:
        """Return what is new of tracebacks and errors in the log, and of restarts."""
        self._look_for_trouble()
        new = [*self._new]
        self._new.clear()
        return new

    def _look_for_trouble(self) -> None:
        """Read the log, also of a Pod that is about to be deleted."""
        lines = errors(self.log()) + [
            f"{pod['metadata']['name']} was restarted: {json.dumps(state['lastState'])}"
            for pod in self.pods()
            for state in pod["status"].get("containerStatuses") or ()
            if state["restartCount"]
        ]
        self._new.extend(line for line in lines if line not in self._known)
        self._known.update(lines)


def errors(log: str) -> list[str]:
    """Return the errors in a log, each with the lines of a traceback that may follow it."""
    text = log.splitlines()
    return ["\n".join(text[n : n + 40]) for n, line in enumerate(text) if _is_error(line)]


def _is_error(line: str) -> bool:
    """Tell whether a line of the log is an error, as JSON.

    What kopf tries again is none, though it calls it one: an API server that has just got the
    CRD answers 429 for a moment.
    """
    try:
        entry = json.loads(line)
    except ValueError:
        return "Traceback" in line
    if "failed; will retry" in str(entry.get("message")):
        return False
    return entry.get("level") not in ("debug", "info", "warning") or "exception" in entry


def uninstall(cluster: Cluster, *, but: str = "") -> None:
    """Uninstall every release of the chart, but for those in a namespace."""
    helm = Installed(Kubectl(cluster, NAME)).helm
    for release in json.loads(helm("list", "-A", *STATES, "-o", "json")):
        if release["chart"].startswith(f"{NAME}-") and release["namespace"] != but:
            there = Installed(Kubectl(cluster, release["namespace"]))
            there.helm("uninstall", release["name"], "--wait", "--ignore-not-found")


def clean(cluster: Cluster, *, kind: bool = True) -> None:
    """Remove every operator of a cluster of ours, what an interrupted run left, and the kind."""
    kubectl = Kubectl(cluster, NAME)
    uninstall(cluster)
    kubectl("delete", "namespaces", "-l", PART_OF, "--wait=false")
    with suppress(CommandError):  # there may not even be the kind
        kubectl("delete", "messages", "--all", "--all-namespaces", "--wait=false")
    if kind:
        crd.delete(cluster)
