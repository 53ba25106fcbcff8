"""A Memcached on a cluster: its nodes run and serve, it is scaled, and it leaves nothing behind."""

import json
import re
import socket
import subprocess
from pathlib import Path

import pytest

from examples.memcached.tests.e2e.conftest import HOME
from tests.e2e.kube import Kube, Object
from tests.e2e.waiting import wait_until

SAMPLE = Path(__file__).parents[2] / "sample.yaml"
READY = ("--for=condition=Ready", "memcached/sample", "--timeout=150s")


def kubectl(kube: Kube, *arguments: str) -> str:
    return kube.kubectl("-n", HOME, *arguments)


def get(kube: Kube, what: str) -> Object:
    found: Object = json.loads(kubectl(kube, "get", *what.split(), "-o", "json"))
    return found


def pods(kube: Kube) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in get(kube, "pods")["items"])


@pytest.fixture(scope="module", autouse=True)
def declared(kube: Kube) -> None:
    kubectl(kube, "apply", "-f", str(SAMPLE))
    kubectl(kube, "wait", *READY)


def test_a_deployment_keeps_its_nodes_and_the_status_names_them(kube: Kube) -> None:
    deployment, status = get(kube, "deployment sample"), get(kube, "memcached sample")["status"]

    assert deployment["spec"]["replicas"] == deployment["status"]["readyReplicas"] == 2
    assert deployment["metadata"]["ownerReferences"][0]["kind"] == "Memcached"
    assert status["nodes"] == pods(kube)
    assert (status["replicas"], status["observedGeneration"]) == (2, 1)


def test_a_node_keeps_what_it_is_given(kube: Kube) -> None:
    command = [str(kube.cluster.kubectl_path), "--kubeconfig", str(kube.cluster.kubeconfig_path)]
    forward = [*command, "-n", HOME, "port-forward", "deployment/sample", ":11211"]
    with subprocess.Popen(forward, stdout=subprocess.PIPE, text=True) as process:
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


def test_it_is_scaled_by_kubectl_scale(kube: Kube) -> None:
    kubectl(kube, "scale", "memcached/sample", "--replicas=3")

    def nodes() -> list[str]:
        status = get(kube, "memcached sample")["status"]
        return status["nodes"] if status["observedGeneration"] == 2 else []

    wait_until("three nodes in the status", nodes, lambda found: len(found) == 3)
    kubectl(kube, "wait", *READY)
    assert get(kube, "memcached sample")["status"]["nodes"] == pods(kube)


def test_its_deletion_leaves_nothing(kube: Kube) -> None:
    kubectl(kube, "delete", "memcached", "sample", "--timeout=120s")

    wait_until(
        "Deployment and Pods to go",
        lambda: get(kube, "deployments,replicasets,pods")["items"],
        lambda left: not left,
    )
