"""Kinds of the Kubernetes API, and the paths at which the API server serves them.

Every module that talks to the API server names its objects by a `Kind`.
"""

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

#: Namespace and name; the namespace of a cluster-scoped object is empty.
Key = tuple[str, str]


class Kind(NamedTuple):
    """A kind of object, as the API server knows it; `kr.kinds` has Kubernetes' own.

    `group` is empty for the core API, `version` is for example `v1`, `plural` the name in a path,
    and `kind` that in a manifest. An object has a namespace unless `namespaced` is False.

    >>> kr.Kind("monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor").api_version
    'monitoring.coreos.com/v1'
    """

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
        """Return the path of all objects, of those in a namespace, or of one object.

        >>> kr.kinds.POD.path("default", "hello", "log")
        '/api/v1/namespaces/default/pods/hello/log'
        """
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


def manifest(
    kind: Kind,
    name: str,
    namespace: str = "",
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **content: Any,
) -> dict[str, Any]:
    """Return the manifest of an object; a child is by default in its owner's namespace.

    `content` is what stands beside the metadata, such as `data` or `spec`; `labels` and
    `annotations` go into the metadata.

    >>> kr.manifest(kr.kinds.CONFIG_MAP, "hello", data={"text": "Hi"})["data"]
    {'text': 'Hi'}
    """
    given = {"namespace": namespace, "labels": labels, "annotations": annotations}
    metadata = {"name": name, **{field: value for field, value in given.items() if value}}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **content}


_cluster = functools.partial(Kind, namespaced=False)
_RBAC, _ADMISSION = "rbac.authorization.k8s.io", "admissionregistration.k8s.io"
# The built-in kinds that operators make or look at, each in its stable version; a test compares
# them with those of an API server.
NAMESPACE = _cluster("", "v1", "namespaces", "Namespace")
NODE = _cluster("", "v1", "nodes", "Node")
PERSISTENT_VOLUME = _cluster("", "v1", "persistentvolumes", "PersistentVolume")
PERSISTENT_VOLUME_CLAIM = Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
POD = Kind("", "v1", "pods", "Pod")
CONFIG_MAP = Kind("", "v1", "configmaps", "ConfigMap")
SECRET = Kind("", "v1", "secrets", "Secret")
SERVICE = Kind("", "v1", "services", "Service")
SERVICE_ACCOUNT = Kind("", "v1", "serviceaccounts", "ServiceAccount")
ENDPOINTS = Kind("", "v1", "endpoints", "Endpoints")
LIMIT_RANGE = Kind("", "v1", "limitranges", "LimitRange")
RESOURCE_QUOTA = Kind("", "v1", "resourcequotas", "ResourceQuota")
DEPLOYMENT = Kind("apps", "v1", "deployments", "Deployment")
STATEFUL_SET = Kind("apps", "v1", "statefulsets", "StatefulSet")
DAEMON_SET = Kind("apps", "v1", "daemonsets", "DaemonSet")
REPLICA_SET = Kind("apps", "v1", "replicasets", "ReplicaSet")
JOB = Kind("batch", "v1", "jobs", "Job")
CRON_JOB = Kind("batch", "v1", "cronjobs", "CronJob")
HORIZONTAL_POD_AUTOSCALER = Kind(
    "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"
)
POD_DISRUPTION_BUDGET = Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
INGRESS = Kind("networking.k8s.io", "v1", "ingresses", "Ingress")
INGRESS_CLASS = _cluster("networking.k8s.io", "v1", "ingressclasses", "IngressClass")
NETWORK_POLICY = Kind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
ENDPOINT_SLICE = Kind("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
EVENT = Kind("events.k8s.io", "v1", "events", "Event")
LEASE = Kind("coordination.k8s.io", "v1", "leases", "Lease")
ROLE = Kind(_RBAC, "v1", "roles", "Role")
ROLE_BINDING = Kind(_RBAC, "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLE = _cluster(_RBAC, "v1", "clusterroles", "ClusterRole")
CLUSTER_ROLE_BINDING = _cluster(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding")
STORAGE_CLASS = _cluster("storage.k8s.io", "v1", "storageclasses", "StorageClass")
PRIORITY_CLASS = _cluster("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass")
MUTATING_WEBHOOK_CONFIGURATION = _cluster(
    _ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"
)
VALIDATING_WEBHOOK_CONFIGURATION = _cluster(
    _ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"
)
CUSTOM_RESOURCE_DEFINITION = _cluster(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition"
)

_GROUPS = {kind.group for kind in list(globals().values()) if isinstance(kind, Kind)} | {
    "apiregistration.k8s.io",
    "certificates.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "node.k8s.io",
    "resource.k8s.io",
}
_DATA = (
    PERSISTENT_VOLUME_CLAIM,
    PERSISTENT_VOLUME,
    SECRET,
    STATEFUL_SET,
    NAMESPACE,
    CUSTOM_RESOURCE_DEFINITION,
)


@functools.cache
def may_hold_data(kind: Kind) -> bool:
    """Return whether the deletion of an object may cost data: also of each that is not built in."""
    data = {(each.group, each.plural) for each in _DATA}
    return kind.group not in _GROUPS or (kind.group, kind.plural) in data
