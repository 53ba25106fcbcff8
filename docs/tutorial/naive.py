"""An operator as many tutorials write it. docs/tutorial.md shows what goes wrong with it."""

import os
import time

import kopf
from kubernetes import client, config

config.load_kube_config()
pods = client.CoreV1Api()
MESSAGES = ("myorg.dev", "v1", "messages")
PRINT = 'while true; do echo "$TEXT"; sleep 5; done'


@kopf.on.create(*MESSAGES)
def create(name, namespace, spec, **_):
    """Create the Pod."""
    env = [{"name": "TEXT", "value": spec["text"]}]
    printer = {"name": "print", "image": os.environ["IMAGE"], "command": ["sh", "-c", PRINT]}
    pod = {"metadata": {"name": name}, "spec": {"containers": [{**printer, "env": env}]}}
    pods.create_namespaced_pod(namespace, pod)


@kopf.on.update(*MESSAGES)
def update(name, namespace, spec, **_):
    """Delete the Pod, wait until it is gone, and create another one."""
    pods.delete_namespaced_pod(name, namespace)
    while pods.list_namespaced_pod(namespace, field_selector=f"metadata.name={name}").items:
        time.sleep(1)
    create(name, namespace, spec)


@kopf.on.delete(*MESSAGES)
def delete(name, namespace, **_):
    """Delete the Pod."""
    pods.delete_namespaced_pod(name, namespace)
