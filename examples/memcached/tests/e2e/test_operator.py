"""A Memcached on a cluster: its nodes run and serve, it is scaled, and it leaves nothing behind."""

import re
import socket
import subprocess
from pathlib import Path

import pytest
from kopf_kit.testing.installed import Kubectl
from kopf_kit.testing.requests import wait_until

OBJECT = f"--filename={Path(__file__).parents[2] / 'examples' / 'sample.yaml'}"
READY = ("wait", "--for=condition=Ready", OBJECT, "--timeout=150s")


@pytest.fixture(scope="module", autouse=True)
def declared(kubectl: Kubectl) -> None:
    kubectl("apply", OBJECT)
    kubectl(*READY)


def pods(kubectl: Kubectl) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in kubectl.get("pods")["items"])


def test_a_deployment_keeps_its_nodes_and_the_status_names_them(kubectl: Kubectl) -> None:
    deployment, status = kubectl.get("deployment", "sample"), kubectl.get(OBJECT)["status"]

    assert deployment["spec"]["replicas"] == deployment["status"]["readyReplicas"] == 2
    assert deployment["metadata"]["ownerReferences"][0]["kind"] == "Memcached"
    assert status["nodes"] == pods(kubectl)
    assert (status["replicas"], status["observedGeneration"]) == (2, 1)


def test_a_node_keeps_what_it_is_given(kubectl: Kubectl) -> None:
    forward = kubectl.command("port-forward", "deployment/sample", ":11211")
    with subprocess.Popen(forward, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            assert process.stdout is not None
            port = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
            assert port is not None
            with socket.create_connection(("127.0.0.1", int(port[1])), timeout=30) as node:
                node.sendall(b"set greeting 0 0 5\r\nhello\r\nget greeting\r\nquit\r\n")
                answer = b"".join(iter(lambda: node.recv(4096), b""))
        finally:
            process.terminate()

    assert answer == b"STORED\r\nVALUE greeting 0 5\r\nhello\r\nEND\r\n"


def test_it_is_scaled_by_kubectl_scale(kubectl: Kubectl) -> None:
    kubectl("scale", OBJECT, "--replicas=3")

    def nodes() -> list[str]:
        status = kubectl.get(OBJECT)["status"]
        return status["nodes"] if status["observedGeneration"] == 2 else []

    wait_until("three nodes in the status", nodes, lambda found: len(found) == 3)
    kubectl(*READY)
    assert kubectl.get(OBJECT)["status"]["nodes"] == pods(kubectl)


def test_its_deletion_leaves_nothing(kubectl: Kubectl) -> None:
    kubectl("delete", OBJECT, "--timeout=120s")

    wait_until(
        "Deployment and Pods to go",
        lambda: kubectl.get("deployments,replicasets,pods")["items"],
        lambda left: not left,
    )
