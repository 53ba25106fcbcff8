"""A plain kopf operator: each Note has a Pod that prints its text."""

import kopf
from kubernetes import client

COMMAND = ["sh", "-c", "trap exit TERM; while cat /note/text && echo; do sleep 60 & wait; done"]
TEXT = {"path": "text", "fieldRef": {"fieldPath": "metadata.annotations['text']"}}


@kopf.on.create("notes", backoff=1)
def create_pod(name, namespace, spec, **_):
    """Create the Pod, which the Note owns."""
    volume = {"name": "note", "downwardAPI": {"items": [TEXT]}}
    mount = {"name": "note", "mountPath": "/note"}
    main = {"name": "main", "image": "busybox:1.37", "command": COMMAND, "volumeMounts": [mount]}
    pod = {
        "metadata": {"name": f"note-{name}", "annotations": {"text": spec["text"]}},
        "spec": {"containers": [main], "volumes": [volume]},
    }
    kopf.adopt(pod)
    client.CoreV1Api().create_namespaced_pod(namespace, pod)


@kopf.on.update("notes", backoff=1)
def update_pod(name, namespace, spec, **_):
    """Give the Pod the new text."""
    patch = {"metadata": {"annotations": {"text": spec["text"]}}}
    client.CoreV1Api().patch_namespaced_pod(f"note-{name}", namespace, patch)
