"""The Pod Security Standard "restricted", as far as a Pod template can break it.

https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
"""

from collections.abc import Iterator
from typing import Any

_HOST_FIELDS = ("hostNetwork", "hostPID", "hostIPC")
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_VOLUMES = {
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral"),
    *("persistentVolumeClaim", "projected", "secret"),
}
_SECCOMP = ("RuntimeDefault", "Localhost")


def violations(pod: dict[str, Any]) -> list[str]:
    """Return what the Pod Security admission would refuse in this Pod specification."""
    return list(_pod(pod)) + [
        f"{container['name']}: {broken}"
        for containers in _CONTAINERS
        for container in pod.get(containers, ())
        for broken in _container(container, pod.get("securityContext", {}))
    ]


def _pod(pod: dict[str, Any]) -> Iterator[str]:
    yield from (f"{field} is set" for field in _HOST_FIELDS if pod.get(field))
    for volume in pod.get("volumes", ()):
        if not _VOLUMES & volume.keys():
            yield f"volume {volume['name']} is of no type that is allowed"
    if pod.get("securityContext", {}).get("sysctls"):
        yield "sysctls are set"


def _container(container: dict[str, Any], of_pod: dict[str, Any]) -> Iterator[str]:
    context = container.get("securityContext", {})
    effective = of_pod | context
    capabilities = context.get("capabilities", {})
    if context.get("privileged"):
        yield "is privileged"
    if context.get("allowPrivilegeEscalation") is not False:
        yield "allowPrivilegeEscalation is not false"
    if effective.get("runAsNonRoot") is not True:
        yield "runAsNonRoot is not true"
    if effective.get("runAsUser") == 0:
        yield "runs as root"
    if effective.get("seccompProfile", {}).get("type") not in _SECCOMP:
        yield "has no seccomp profile"
    if "ALL" not in capabilities.get("drop", ()):
        yield "does not drop all capabilities"
    if set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}:
        yield "adds capabilities"
    if any("hostPort" in port for port in container.get("ports", ())):
        yield "has a host port"
