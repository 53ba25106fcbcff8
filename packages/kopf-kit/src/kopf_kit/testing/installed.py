"""The operator of a repository in a cluster, and kubectl, as its end-to-end tests use them."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kopf_kit.cli import crd, deploy, push
from kopf_kit.image import build
from kopf_kit.image.build import pinned
from kopf_kit.project import documents, nested
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import cluster as clusters
from kopf_kit.rig import dockerfiles, engine, kind, registry, tools
from kopf_kit.rig.cluster import Cluster
from kopf_kit.rig.run import CommandError, KitError, output

#: Seconds that a command may take; kubectl's own waits are shorter.
TIMEOUT = 400.0
#: As long as OLM may take, which pulls, unpacks and installs.
_SLOWLY = "--timeout=390s"
#: Seconds in which a connection has to come about.
_CONNECT = 60.0
#: The namespace of the tests' objects.
HOME = f"{PROJECT.name}-tests"
#: The namespace into which OLM installs the operator.
_BY_OLM = f"{PROJECT.name}-by-olm"


@dataclass(frozen=True)
class Kubectl:
    """kubectl in a namespace of a cluster."""

    cluster: Cluster
    namespace: str

    def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl, and return what it prints; raise `CommandError` with its error.

        A busy machine may not answer a connection in time; then nothing was done, and it is tried
        again for a while.
        """
        given = None if stdin is None else stdin.encode()
        deadline = time.monotonic() + _CONNECT
        while True:
            try:
                return output(self.command(*arguments), stdin=given, timeout=TIMEOUT)
            except CommandError as error:
                unanswered = "Unable to connect to the server" in str(error)
                if not unanswered or time.monotonic() > deadline:
                    raise
                time.sleep(1)

    def get(self, *arguments: str) -> Any:
        """Return what `kubectl get` finds: an object, or a list with `items`."""
        return json.loads(self("get", *arguments, "--output=json"))

    def find(self, *arguments: str) -> Any:
        """Return what `kubectl get` finds, or None if it is not there."""
        return json.loads(self("get", *arguments, "--ignore-not-found", "--output=json") or "null")

    def apply(self, *manifests: Any) -> None:
        """Apply objects."""
        self("apply", "--filename=-", stdin=documents.text(*manifests))

    def refusal(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl, which must fail; return its error."""
        try:
            printed = self(*arguments, stdin=stdin)
        except CommandError as error:
            return str(error)
        raise AssertionError(f"kubectl {' '.join(arguments)} was not refused: {printed}")

    def command(self, *arguments: str) -> list[str]:
        """Return the command, for a process of one's own, such as `port-forward`."""
        kubeconfig = ("--kubeconfig", str(self.cluster.kubeconfig))
        return [str(self.cluster.kubectl), *kubeconfig, "--namespace", self.namespace, *arguments]


@dataclass(frozen=True)
class Installed:
    """The operator in a cluster."""

    #: In the operator's own namespace.
    kubectl: Kubectl

    @property
    def namespace(self) -> str:
        """The operator's namespace."""
        return self.kubectl.namespace

    def helm(self, *arguments: str) -> str:
        """Run Helm in the operator's namespace, and return what it prints."""
        command = [*self.kubectl.cluster.helm_command, "--namespace", self.namespace, *arguments]
        return output(command, timeout=TIMEOUT)

    def pods(self) -> list[Any]:
        """Return the operator's Pods, except those that are being deleted."""
        pods = self.kubectl.get("pods", f"--selector=app.kubernetes.io/name={PROJECT.name}")
        return [pod for pod in pods["items"] if "deletionTimestamp" not in pod["metadata"]]

    def log(self) -> str:
        """Return the log of the operator's Pods."""
        selector = f"--selector=app.kubernetes.io/name={PROJECT.name}"
        return self.kubectl("logs", selector, "--tail=-1", "--ignore-errors")


def cluster_up() -> Cluster:
    """Return the cluster of `kopf-kit deploy`, which is created if it does not exist."""
    return clusters.up()


def push_image(cluster: Cluster, name: str, dockerfile: Path) -> str:
    """Build a further image, such as that of a service which the operator calls, and push it.

    Return the name by which the kind cluster pulls it, with its digest.
    """
    if cluster.registry is None:
        raise KitError(
            f"{name} is built for the kind cluster; for yours, push the image of {dockerfile} to a "
            "registry that it pulls from"
        )
    return pinned(build.push(build.build(f"{cluster.registry}/{name}:dev", dockerfile)))


def stand_in(cluster: Cluster, public: str, dockerfile: Path | None = None) -> None:
    """Build an image that the kind cluster pulls instead of a public one, such as `gcr.io/a/b:1`.

    BusyBox, as `docker.io/library/busybox:1.37`, needs no Dockerfile. Another cluster pulls the
    public one.
    """
    host, _, name = public.partition("/")
    if cluster.registry is not None:
        ref = f"{cluster.registry}/{name}"
        if dockerfile is None:
            dockerfiles.copy(public, ref)
        else:
            build.push(build.build(ref, dockerfile))
        registry.join(kind.node(cluster.name), host)


def in_node(cluster: Cluster, *command: str) -> None:
    """Run a command in the node of the kind cluster, such as to make a folder for a volume."""
    engine.docker("exec", kind.node(cluster.name), *command)


def by_helm(cluster: Cluster, options: Sequence[str], users: Path) -> Iterator[Installed]:
    """Install the operator by Helm with these options; remove it with its kinds at the end.

    Processes with the same file `users` share it: the first installs it, the last removes it.
    """
    nested.ensure(PROJECT)
    with tools.lock("e2e-operator"):
        if not _counted(users, 1):
            try:
                deploy.install(cluster, *options)
            except BaseException:
                _counted(users, -1)  # so that the next process tries it, too
                raise
    installed = Installed(Kubectl(cluster, crd.NAMESPACE))
    yield installed
    with tools.lock("e2e-operator"):
        if _counted(users, -1) == 1:
            crd.delete(cluster)
            installed.helm("uninstall", crd.RELEASE, "--wait", "--timeout=3m")
            installed.kubectl("delete", "namespace", installed.namespace, "--timeout=120s")


def _counted(users: Path, more: int) -> int:
    """Count more or fewer users; return how many they were before."""
    before = int(users.read_text()) if users.exists() else 0
    users.write_text(str(before + more))
    return before


def by_olm(cluster: Cluster) -> Iterator[Installed]:
    """Install the operator by OLM, from a catalog of its own; remove it with its kinds at the end.

    OLM has to be in the cluster.
    """
    nested.ensure(PROJECT)
    installed = Installed(Kubectl(cluster, _BY_OLM))
    kubectl = installed.kubectl
    _remove_by_olm(kubectl)  # what an interrupted run left
    helm = Installed(Kubectl(cluster, crd.NAMESPACE)).helm
    helm("uninstall", crd.RELEASE, "--ignore-not-found", "--wait", "--timeout=3m")
    crd.refuse_others(cluster, f"two would act on the same {PROJECT.many}")
    push.push_bundle()
    subscribe(kubectl, PROJECT.name, push.push_catalog())
    csv = f"csv/{PROJECT.name}.v{PROJECT.version}"
    kubectl("wait", "--for=create", csv, _SLOWLY)
    kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", csv, _SLOWLY)
    yield installed
    _remove_by_olm(kubectl)


def subscribe(kubectl: Kubectl, operator: str, catalog: str) -> None:
    """Create the namespace, and ask OLM there for an operator of the catalog in this image."""
    kubectl("create", "namespace", kubectl.namespace)
    declared = f"""\
apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata: {{name: catalog}}
spec:
  sourceType: grpc
  image: {catalog}
  grpcPodConfig: {{securityContextConfig: restricted}}
---
apiVersion: operators.coreos.com/v1
kind: OperatorGroup
metadata: {{name: all-namespaces}}
spec: {{}}
---
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {{name: {operator}}}
spec:
  name: {operator}
  channel: stable
  source: catalog
  sourceNamespace: {kubectl.namespace}
"""
    kubectl("apply", "--filename=-", stdin=declared)


def _remove_by_olm(kubectl: Kubectl) -> None:
    crd.delete(kubectl.cluster)
    kubectl("delete", "subscriptions.operators.coreos.com,csv", "--all", "--timeout=120s")
    kubectl("delete", "namespace", _BY_OLM, "--ignore-not-found", "--timeout=300s")


@contextmanager
def namespace(
    cluster: Cluster, name: str = HOME, *labels: str, wait: bool = True
) -> Iterator[Kubectl]:
    """Create a namespace, and yield kubectl in it once it takes Pods; delete it at the end.

    Pods are refused until a controller has made the namespace's ServiceAccount. Without `wait`, the
    namespace may be there a while longer.
    """
    kubectl = Kubectl(cluster, name)
    delete = ("delete", "namespace", name, "--ignore-not-found", "--timeout=300s")
    kubectl(*delete)
    kubectl("create", "namespace", name)
    if labels:
        kubectl("label", "namespace", name, *labels)
    kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=300s")
    try:
        yield kubectl
    finally:
        kubectl(*delete, f"--wait={str(wait).lower()}")
