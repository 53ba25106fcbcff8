"""The operator under faults: the Message as the fault suite sees it."""

import asyncio
import copy
import functools
import tempfile
from pathlib import Path
from typing import Any, ClassVar

from chart import helm
from kopf_kit.rig import tools
from kopf_kit.rig.control_plane import ADMIN
from kopf_kit.testing import api_server
from kopf_kit.testing.requests import Cluster, Raw
from kopf_kit.testing.under_test import Parent, lose
from kopf_kit.testing.world import World
from message_operator import operator
from tests.support.plugin import Plugin, Said

#: What the chart installs, and a control plane that knows it beside the kit's own.
OPERATOR = f"system:serviceaccount:{helm.NAMESPACE}:{helm.FULLNAME}"
running = functools.partial(api_server.running, users=(OPERATOR, api_server.OPERATOR))
#: What Pod Security asks of a container in the tests' namespaces.
STRICT = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


async def evict(cluster: Cluster, pod: str) -> None:
    """End the Pod as a kubelet does that runs out of memory."""
    status = {"phase": "Failed", "reason": "Evicted"}
    await cluster.patch(f"{pod}/status", {"status": status})


async def alter(cluster: Cluster, pod: str) -> None:
    """Change the Pod's image."""
    found = await cluster.ask("GET", pod)
    found["spec"]["containers"][0]["image"] = "somebody.else/busybox:0"
    await cluster.ask("PUT", pod, found)


def foreign_pod(name: str, owner: Raw | None = None) -> Raw:
    """Return somebody else's Pod with the name that a Message's would have."""
    return {
        "metadata": {
            "name": f"msg-{name}",
            "labels": {"whose": "somebody"},
            "ownerReferences": [owner] if owner else [],
        },
        "spec": {"containers": [{"name": "c", "image": "i", "securityContext": STRICT}]},
    }


class Messages(Parent):
    """The operator of this repository, with the rights that its chart gives it."""

    program = ("-m", "message_operator")
    manager = operator.manager
    ready_reason = "PodRunning"
    user = OPERATOR
    lease = helm.FULLNAME
    wrong_status: ClassVar = {"phase": "Failed", "podName": "other", "observedGeneration": 0}
    breaks: ClassVar = {"heal": lose, "evict": evict, "alter": alter}
    writes: ClassVar = {
        "create": 3,
        "edit": 4,
        "burst": 4,
        "delete": 0,
        "recreate": 3,
        "heal": 2,
        "evict": 3,
        "alter": 3,
        "status": 1,
        "conflict": 5,
    }
    quick = ("create", "edit", "recreate", "heal", "status")  # most writes of the others are these

    def install(self) -> list[Raw]:
        return [
            manifest for manifest in _chart(()) if manifest["kind"] == "CustomResourceDefinition"
        ]

    def rights(self, namespace: str | None) -> list[Raw]:
        if namespace is None:
            return [m for m in _chart(()) if m["kind"] in ("ClusterRole", "ClusterRoleBinding")]
        roles = [m for m in _chart(("somewhere",)) if m["kind"] in ("Role", "RoleBinding")]
        for manifest in roles:
            manifest["metadata"]["namespace"] = namespace
        return roles

    def spec(self, text: str) -> Raw:
        return {"text": text}

    def child_of(self, name: str) -> str:
        return f"msg-{name}"

    def foreign(self, name: str) -> Raw:
        return foreign_pod(name)

    def facts(self, found: Raw, child: Raw, text: str) -> dict[str, tuple[Any, Any]]:
        meta, status = found["metadata"], found.get("status") or {}
        container = child["spec"]["containers"][0]
        environment = {v["name"]: v.get("value", "") for v in container["env"]}
        return {
            "text": (environment.get("MESSAGE_TEXT"), text.replace("$", "$$")),
            "image": (container["image"], "docker.io/library/busybox:1.37"),
            "Pod's phase": (child["status"].get("phase"), "Running"),
            "phase": (status.get("phase"), "Processed"),
            "generation": (status.get("observedGeneration"), meta["generation"]),
            "podName": (status.get("podName"), child["metadata"]["name"]),
            "nodeName": (status.get("nodeName"), child["spec"].get("nodeName")),
        }

    def essence(self, child: Raw) -> Raw:
        labels = {k: v for k, v in child["metadata"]["labels"].items() if "kubernetes.io" in k}
        labels.pop("app.kubernetes.io/instance")
        return {"spec": child["spec"], "labels": labels, "phase": child["status"]["phase"]}


def _chart(namespaces: tuple[str, ...]) -> list[Raw]:
    return copy.deepcopy(_rendered(namespaces))


@functools.cache
def _rendered(namespaces: tuple[str, ...]) -> list[Raw]:
    return helm.render({"watchNamespaces": list(namespaces)})


async def why(here: World, name: str = "hello", **environment: str) -> Said:
    """Ask about a Message in the namespace of a world."""

    def ask() -> Said:
        with tempfile.TemporaryDirectory() as folder:
            access = here.cluster.plane.kubeconfig(ADMIN)
            plugin = Plugin(Path(folder), tools.path("kubectl"), access)
            return plugin("why", name, "--namespace", here.namespace, **environment)

    return await asyncio.to_thread(ask)


MESSAGE = Messages()
SUBJECTS: tuple[Parent, ...] = (MESSAGE,)
