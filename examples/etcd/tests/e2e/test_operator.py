"""The operator on a cluster: three members serve, and leave nothing behind."""

from pathlib import Path

import pytest
from kopf_kit.testing.installed import Kubectl

OBJECT = f"--filename={Path(__file__).parents[2] / 'examples' / 'sample.yaml'}"


@pytest.fixture(scope="module", autouse=True)
def declared(kubectl: Kubectl) -> None:
    kubectl("apply", OBJECT)
    kubectl("wait", "--for=condition=Ready", OBJECT, "--timeout=300s")


def test_three_members_serve(kubectl: Kubectl) -> None:
    found = kubectl("get", OBJECT, "--output=jsonpath={.status.ready}")

    assert found.strip() == "3"


def test_the_deletion_of_a_cluster_leaves_nothing(kubectl: Kubectl) -> None:
    kubectl("delete", OBJECT, "--timeout=120s")

    kubectl("wait", "--for=delete", "pods,pvc", "--selector=app.kubernetes.io/name=etcd",
            "--timeout=150s")  # fmt: skip
