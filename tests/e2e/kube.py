"""The cluster as the tests see it: kubectl and Helm as a user types them, and the API.

Every command and every request is bounded in time. Objects are plain dictionaries, as
`kubectl get -o json` prints them.
"""

import os
import subprocess
from pathlib import Path
from typing import Any, Protocol

from kubernetes import client, config, dynamic, watch
from kubernetes.dynamic.exceptions import NotFoundError

#: Seconds for one command or request; what waits in kubectl itself is told `WAIT` seconds.
TIMEOUT = 400.0
WAIT = "--timeout=300s"

Object = dict[str, Any]

_API_VERSIONS = {
    "Message": "myorg.dev/v1",
    "Lease": "coordination.k8s.io/v1",
    "Deployment": "apps/v1",
    "CustomResourceDefinition": "apiextensions.k8s.io/v1",
    "OperatorGroup": "operators.coreos.com/v1",
    **dict.fromkeys(
        ("CatalogSource", "Subscription", "InstallPlan", "ClusterServiceVersion"),
        "operators.coreos.com/v1alpha1",
    ),
    "ClusterCatalog": "olm.operatorframework.io/v1",
    "Job": "batch/v1",
    **dict.fromkeys(
        ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
        "rbac.authorization.k8s.io/v1",
    ),
}


class Cluster(Protocol):
    """What the tests use of pytest-kind's `KindCluster`."""

    name: str
    kubeconfig_path: Path
    kubectl_path: Path

    def kubectl(self, *args: str, **kwargs: Any) -> str:
        """Run kubectl and return what it prints."""


class ExistingCluster:
    """The cluster of the current kubeconfig, which kind knows nothing of."""

    def __init__(self, name: str, kubeconfig: Path, kubectl: Path) -> None:
        self.name = name
        self.kubeconfig_path = kubeconfig
        self.kubectl_path = kubectl

    def kubectl(self, *args: str, **kwargs: Any) -> str:
        """Run kubectl and return what it prints."""
        command = [str(self.kubectl_path), *args]
        env = {**os.environ, "KUBECONFIG": str(self.kubeconfig_path)}
        return str(subprocess.check_output(command, env=env, encoding="utf-8", **kwargs))


class _BoundedClient(client.ApiClient):
    """Gives every request a timeout: the package's own default is to wait for ever."""

    def call_api(self, *args: Any, **kwargs: Any) -> Any:
        kwargs["_request_timeout"] = kwargs.get("_request_timeout") or TIMEOUT
        return super().call_api(*args, **kwargs)


class CommandError(AssertionError):
    """A command failed that should not; the text is the command and what it printed."""


class Kube:
    """Talks to one cluster."""

    def __init__(self, cluster: Cluster, helm: Path) -> None:
        self.cluster = cluster
        self._helm = helm
        configuration = client.Configuration()
        config.load_kube_config(  # type: ignore[no-untyped-call]
            config_file=str(cluster.kubeconfig_path), client_configuration=configuration
        )
        api = _BoundedClient(configuration)
        self._dynamic: Any = dynamic.DynamicClient(api)  # type: ignore[no-untyped-call]

    # --- commands -----------------------------------------------------------------------------

    def kubectl(self, *args: str, stdin: str | None = None, timeout: float = TIMEOUT) -> str:
        """Run kubectl and return what it prints; raise `CommandError` where it fails."""
        try:
            return self.cluster.kubectl(
                *args,
                **({"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}),
                stderr=subprocess.PIPE,
                timeout=timeout,
            )
        except subprocess.CalledProcessError as error:
            raise CommandError(f"kubectl {' '.join(args)}: {error.stderr.strip()}") from None

    def refusal(self, *args: str, stdin: str | None = None) -> str:
        """Run kubectl, which must fail; return the error that it prints."""
        try:
            printed = self.kubectl(*args, stdin=stdin)
        except CommandError as error:
            return str(error)
        raise AssertionError(f"kubectl {' '.join(args)} was not refused but printed: {printed}")

    def output(self, *args: str) -> bytes:
        """Run kubectl and return what it prints byte for byte; nothing where it fails."""
        return self._run([self.cluster.kubectl_path, *args], TIMEOUT).stdout

    def helm(self, *args: str, timeout: float = 400.0) -> str:
        """Run Helm and return what it prints; raise `CommandError` where it fails."""
        done = self._run([self._helm, *args], timeout)
        if done.returncode:
            raise CommandError(f"helm {' '.join(args)}: {done.stderr.decode().strip()}")
        return done.stdout.decode()

    def _run(
        self, command: list[str | Path], timeout: float
    ) -> "subprocess.CompletedProcess[bytes]":
        env = {**os.environ, "KUBECONFIG": str(self.cluster.kubeconfig_path)}
        return subprocess.run(
            command, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout
        )

    # --- the API ------------------------------------------------------------------------------

    def _resource(self, kind: str) -> Any:
        return self._dynamic.resources.get(api_version=_API_VERSIONS.get(kind, "v1"), kind=kind)

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """Return an object, None where there is none."""
        try:
            found = self._resource(kind).get(name=name, namespace=namespace)
        except NotFoundError:
            return None
        return _plain(found)

    def objects(
        self, kind: str, namespace: str | None = None, *, labels: str = ""
    ) -> tuple[list[Object], str]:
        """Return the objects, and the resource version of the list."""
        found = _plain(self._resource(kind).get(namespace=namespace, label_selector=labels))
        return found["items"], found["metadata"]["resourceVersion"]

    def create(self, manifest: Object, namespace: str | None = None) -> Object:
        """Create an object; raise the `kubernetes` package's error where it is refused."""
        resource = self._resource(manifest["kind"])
        manifest = {"apiVersion": _API_VERSIONS.get(manifest["kind"], "v1"), **manifest}
        return _plain(resource.create(body=manifest, namespace=namespace))

    def patch(self, kind: str, name: str, body: Object, namespace: str | None = None) -> Object:
        """Merge a patch into an object."""
        return _plain(
            self._resource(kind).patch(
                name=name,
                namespace=namespace,
                body=body,
                content_type="application/merge-patch+json",
            )
        )

    def delete(self, kind: str, name: str, namespace: str | None = None, **options: Any) -> None:
        """Delete an object, with these DeleteOptions, without waiting; well if it is gone."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        try:
            self._resource(kind).delete(name=name, namespace=namespace, body=body)
        except NotFoundError:
            return

    def history(
        self, kind: str, namespace: str, since: str, *, seconds: int = 1
    ) -> list[tuple[str, Object]]:
        """Return what happened to the objects of a kind since a resource version.

        Each is (ADDED, MODIFIED or DELETED, the object). The API server remembers them, so
        nothing is missed; `seconds` is how long to watch for more.
        """
        resource = self._resource(kind)
        events = watch.Watch().stream(  # type: ignore[no-untyped-call]
            resource.get,
            namespace=namespace,
            resource_version=since,
            timeout_seconds=seconds,
            serialize=False,
        )
        return [(event["type"], event["raw_object"]) for event in events]

    def raw(self, path: str) -> str:
        """Return what the API server answers to a GET of a path."""
        return self.kubectl("get", "--raw", path)


def _plain(found: Any) -> Object:
    plain: Object = found.to_dict()
    return plain
