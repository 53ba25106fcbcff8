"""A peer for the benchmark: the Message operator as tutorials write it, on kopf's handlers.

It has edge-triggered handlers, the synchronous client, and no record of the Pod except its name.
"""

import kopf
import kubernetes
from kubernetes.client.rest import ApiException

SCRIPT = """\
trap 'exit 0' TERM INT
while :; do
  printf '%s\\n' "$MESSAGE_TEXT"
  sleep "$MESSAGE_INTERVAL" & wait $!
done
"""


@kopf.on.startup()
def configure(**_):
    """Find the cluster."""
    kubernetes.config.load_kube_config()


def build(name, spec):
    """Return the Message's Pod, the same as this project's operator creates."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"msg-{name}", "labels": {"app": "message"}},
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 5,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "message",
                    "image": "docker.io/library/busybox:1.37",
                    "command": ["/bin/sh", "-c", SCRIPT],
                    "env": [
                        {"name": "MESSAGE_TEXT", "value": spec["text"].replace("$", "$$")},
                        {"name": "MESSAGE_INTERVAL", "value": str(spec["intervalSeconds"])},
                    ],
                    "resources": {
                        "requests": {"cpu": "1m", "memory": "4Mi"},
                        "limits": {"cpu": "100m", "memory": "16Mi"},
                    },
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                        "readOnlyRootFilesystem": True,
                    },
                }
            ],
        },
    }


def create_pod(body, name, namespace, spec):
    """Create the Pod unless one of its name exists."""
    pod = build(name, spec)
    kopf.adopt(pod, owner=body)
    try:
        kubernetes.client.CoreV1Api().create_namespaced_pod(namespace, pod)
    except ApiException as error:
        if error.status != 409:
            raise


@kopf.on.create("myorg.dev", "v1", "messages")
@kopf.on.resume("myorg.dev", "v1", "messages")
def create(body, spec, name, namespace, patch, **_):
    """Create the Pod."""
    create_pod(body, name, namespace, spec)
    patch.status["phase"] = "Processed"


@kopf.on.update("myorg.dev", "v1", "messages", field="spec")
def update(body, spec, name, namespace, patch, **_):
    """Replace the Pod; without a grace period its name is free at once."""
    try:
        kubernetes.client.CoreV1Api().delete_namespaced_pod(
            f"msg-{name}", namespace, grace_period_seconds=0
        )
    except ApiException as error:
        if error.status != 404:
            raise
    create_pod(body, name, namespace, spec)
    patch.status["phase"] = "Processed"
