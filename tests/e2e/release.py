"""The operator as it is installed: by `helm install` from the registry, as a user does."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from kopf_kit.cli import e2e
from kopf_kit.release.artifacts import Published
from kopf_kit.testing.requests import wait_until
from tests.e2e.kube import CommandError, Kube, Object
from tests.e2e.messages import LABELS, ready

NAMESPACE, _, NAME = e2e.RELEASE.partition("/")
CRD = "messages.myorg.dev"
#: All that a release may be in; Helm 3's `--all` is Helm 4's default.
STATES = ("--deployed", "--failed", "--pending", "--uninstalling", "--uninstalled")
_PART_OF = f"app.kubernetes.io/part-of={LABELS['app.kubernetes.io/part-of']}"


class Operator:
    """A release of the tests, and what its users and administrators do to it."""

    def __init__(
        self,
        kube: Kube,
        published: Published,
        *,
        name: str = NAME,
        namespace: str = NAMESPACE,
        takes_over: bool = False,
    ) -> None:
        self.kube = kube
        self.name = name
        self.namespace = namespace
        self._published = published
        #: Whether it takes over the kind that another release may have left.
        self._takes_over = ("--take-ownership",) if takes_over else ()
        self._selector = (
            f"app.kubernetes.io/instance={name},app.kubernetes.io/name=message-operator"
        )
        self._known: set[str] = set()  # lines of trouble that were seen
        self._untold: list[str] = []  # those of them that nobody was told of yet
        self._read = ""  # when the log was read last

    # --- Helm ---------------------------------------------------------------------------------

    def install(self, *options: str) -> None:
        """Install it, and wait until it is ready."""
        self._helm("install", *self._takes_over, *options)

    def upgrade(self, *options: str, to: Published | None = None) -> None:
        """Give it these values, or another chart, and wait until it is ready."""
        self._published = to or self._published
        self._helm("upgrade", *options)

    def rollback(self) -> None:
        """Go back to what was before the last upgrade, and wait until it is ready."""
        self._keep_trouble()
        self.kube.helm("rollback", self.name, "-n", self.namespace, "--wait", "--timeout=5m")

    def test(self) -> str:
        """Return what `helm test` prints, with the log of its Pod."""
        return self.kube.helm("test", self.name, "-n", self.namespace, "--timeout=5m", "--logs")

    @contextmanager
    def upgraded(self, *options: str) -> Iterator[None]:
        """Have other values for a while."""
        try:
            self._helm("upgrade", *options)
            yield
        finally:
            self._helm("upgrade")

    def uninstall(self) -> None:
        """Remove the release; the CRD and the Messages stay."""
        self._keep_trouble()
        self.kube.helm("uninstall", self.name, "-n", self.namespace, "--wait", "--timeout=5m")

    def _helm(self, verb: str, *options: str) -> None:
        self._keep_trouble()
        try:
            self.kube.helm(
                *(verb, self.name, self._published.chart, "--namespace", self.namespace),
                *("--wait", "--timeout=5m", *self._published.options, *options),
            )
        except CommandError as error:
            look = ("-n", self.namespace)
            pods = self.kube.kubectl(*look, "get", "pods", "-o", "wide")
            events = self.kube.kubectl(*look, "get", "events", "--sort-by=.lastTimestamp")
            raise CommandError(f"{error}\n\n{pods}\n{events}\n{self.log()}") from None

    def message_image(self) -> str:
        """Return the image that it runs message Pods of."""
        (image,) = (a for a in self.arguments() if a.startswith("--message-image="))
        return image.partition("=")[2]

    def arguments(self) -> list[str]:
        """Return the arguments that the operator is started with."""
        container = self._deployment()["spec"]["template"]["spec"]["containers"][0]
        return [str(argument) for argument in container["args"]]

    def _deployment(self) -> Object:
        found = self.kube.get("Deployment", self.name, self.namespace)
        assert found is not None, "the operator is not installed"
        return found

    # --- its Pods -----------------------------------------------------------------------------

    def pods(self) -> list[Object]:
        """Return the operator's Pods, those that are about to end included."""
        return self.kube.objects("Pod", self.namespace, labels=self._selector)[0]

    def scale(self, replicas: int) -> None:
        """Run so many operators, and wait until just these are there and ready."""
        self._keep_trouble()
        scale = ("scale", "deployment", self.name, f"--replicas={replicas}")
        self.kube.kubectl("-n", self.namespace, *scale)
        self.wait_until_ready(replicas)

    def wait_until_ready(self, replicas: int = 1) -> list[Object]:
        """Wait until just so many operators are there and ready; return their Pods."""
        return wait_until(
            f"{replicas} operators to be ready",
            self.pods,
            lambda pods: len(pods) == replicas and all(_is_up(pod) for pod in pods),
        )

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Have no operator for a while."""
        self.scale(0)
        try:
            yield
        finally:
            self.scale(1)

    @contextmanager
    def replicas(self, replicas: int) -> Iterator[list[Object]]:
        """Have more operators for a while."""
        try:
            self.scale(replicas)
            yield self.pods()
        finally:
            self.scale(1)

    def delete_pod(self, name: str, **options: int) -> None:
        """Delete one of the operator's Pods, without waiting."""
        self._keep_trouble()
        self.kube.delete("Pod", name, self.namespace, **options)

    def leader(self) -> str:
        """Return the name of the Pod that holds the Lease, empty if none does."""
        lease = self.kube.get("Lease", self.name, self.namespace) or {"spec": {}}
        return str(lease["spec"].get("holderIdentity") or "").partition("_")[0]

    def get(self, port: int, path: str) -> str:
        """GET from the operator's only Pod, through the API server."""
        (pod,) = self.pods()
        name = pod["metadata"]["name"]
        return self.kube.raw(f"/api/v1/namespaces/{self.namespace}/pods/{name}:{port}/proxy/{path}")

    # --- its log ------------------------------------------------------------------------------

    def log(self, since: str = "") -> str:
        """Return the log of all operators, from the time `since` (RFC 3339) on."""
        options = ["--prefix", "--tail=-1", "--ignore-errors"]
        options += [f"--since-time={since}"] if since else []
        try:
            return self.kube.kubectl("-n", self.namespace, "logs", "-l", self._selector, *options)
        except CommandError as error:
            return str(error)

    def trouble(self) -> list[str]:
        """Return what is new of tracebacks and errors in the log, and of restarts."""
        self._keep_trouble()
        untold, self._untold = self._untold, []
        return untold

    def _keep_trouble(self) -> None:
        """Read the log, also of a Pod that is about to be deleted."""
        since, self._read = self._read, now()
        text = self.log(since).splitlines()
        # The lines of a traceback follow it.
        lines = ["\n".join(text[n : n + 40]) for n, line in enumerate(text) if is_trouble(line)]
        lines += [
            f"{pod['metadata']['name']} was restarted: {json.dumps(state['lastState'])}"
            for pod in self.pods()
            for state in pod["status"].get("containerStatuses") or ()
            if state["restartCount"]
        ]
        self._untold += [line for line in lines if line not in self._known]
        self._known.update(lines)


def now() -> str:
    """Return the time, as the API server writes times."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def clean(kube: Kube, *, ours: bool) -> None:
    """Remove what an interrupted run left, and whatever other operator there is.

    In a cluster that is not `ours`, another operator is an error: nobody asked us to remove it.
    """
    for release in json.loads(kube.helm("list", "-A", *STATES, "-o", "json")):
        if not release["chart"].startswith("message-operator-"):
            continue
        here = (release["name"], release["namespace"]) == (NAME, NAMESPACE)
        if not (ours or here):
            raise CommandError(
                f"The cluster has a message-operator already: release {release['name']} in the "
                f"namespace {release['namespace']}. The tests install one of their own, and two "
                "would work on the same Messages: uninstall it first, or use another cluster."
            )
        where = ("-n", release["namespace"])  # which may be on its way out, with the release
        kube.helm("uninstall", release["name"], *where, "--wait", "--ignore-not-found")
    remove_namespaces(kube)
    wait_until(
        f"the namespace {NAMESPACE} of an earlier run to be gone",
        lambda: kube.get("Namespace", NAMESPACE),
        lambda found: found is None or "deletionTimestamp" not in found["metadata"],
    )


def namespaces(kube: Kube) -> list[str]:
    """Return the names of the tests' namespaces."""
    return [found["metadata"]["name"] for found in kube.objects("Namespace", labels=_PART_OF)[0]]


def remove_namespaces(kube: Kube) -> None:
    """Delete all namespaces of the tests, the operator's among them, without waiting."""
    kube.kubectl("delete", "namespaces", "-l", _PART_OF, "--wait=false")


def _is_up(pod: Object) -> bool:
    gone = "deletionTimestamp" in pod["metadata"]
    return not gone and ready(pod["status"]).get("status") == "True"


def is_trouble(line: str) -> bool:
    """Tell whether a line of the log, as JSON behind the Pod's name, is an error.

    What kopf tries again is none, though it calls it one: an API server that has just got the
    CRD answers 429 for a moment.
    """
    _, _, said = line.partition(" ")
    try:
        entry = json.loads(said)
    except ValueError:
        return "Traceback" in line
    if "failed; will retry" in str(entry.get("message")):
        return False
    return entry.get("level") not in ("debug", "info", "warning") or "exception" in entry


def remove_crd(kube: Kube) -> None:
    """Delete the CRD and its roles, unless there are Messages that no test made."""
    if kube.get("CustomResourceDefinition", CRD) is None:
        return
    ours = namespaces(kube)
    messages, _ = kube.objects("Message")
    if all(message["metadata"]["namespace"] in ours for message in messages):
        kube.kubectl("delete", "crd", CRD, "--ignore-not-found")
        roles = [f"{CRD}-{role}" for role in ("view", "edit", "admin")]
        kube.kubectl("delete", "clusterrole", *roles, "--ignore-not-found")
