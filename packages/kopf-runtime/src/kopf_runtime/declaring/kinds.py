"""Kinds of the Kubernetes API, and the paths at which the API server serves them.

Every module that talks to the API server names its objects by a `Kind`.
"""

from typing import NamedTuple

#: Namespace and name; the namespace of a cluster-scoped object is empty.
Key = tuple[str, str]


class Kind(NamedTuple):
    """A kind of object; `group` is empty for the core API."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its manifests."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
        """Return the path of all objects, of those in a namespace, or of one object."""
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if namespace else ""
        rest = "".join(f"/{part}" for part in (name, subresource) if part)
        return f"{root}{scope}/{self.plural}{rest}"

    def at(self, key: Key, subresource: str = "") -> str:
        """Return the path of one object."""
        return self.path(key[0], key[1], subresource)

    def __str__(self) -> str:
        """Return `widgets.example.dev`, as in the name of a CRD."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


NAMESPACE = Kind("", "v1", "namespaces", "Namespace", namespaced=False)
POD = Kind("", "v1", "pods", "Pod")
CONFIG_MAP = Kind("", "v1", "configmaps", "ConfigMap")
SECRET = Kind("", "v1", "secrets", "Secret")
SERVICE = Kind("", "v1", "services", "Service")
DEPLOYMENT = Kind("apps", "v1", "deployments", "Deployment")
STATEFUL_SET = Kind("apps", "v1", "statefulsets", "StatefulSet")
DAEMON_SET = Kind("apps", "v1", "daemonsets", "DaemonSet")
JOB = Kind("batch", "v1", "jobs", "Job")
CRON_JOB = Kind("batch", "v1", "cronjobs", "CronJob")
PERSISTENT_VOLUME_CLAIM = Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
SERVICE_ACCOUNT = Kind("", "v1", "serviceaccounts", "ServiceAccount")
ROLE = Kind("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDING = Kind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
INGRESS = Kind("networking.k8s.io", "v1", "ingresses", "Ingress")
NETWORK_POLICY = Kind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
POD_DISRUPTION_BUDGET = Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
