"""The operator on a cluster, installed as it is: a Note's Pod prints its text, also a new one."""

from pathlib import Path

import pytest

from kopf_kit.testing import Cluster, Kubectl, stand_in
from kopf_kit.testing.requests import wait_until

OBJECT = f"--filename={Path(__file__).parents[2] / 'sample.yaml'}"
POD = "pod/note-hello"


@pytest.fixture(scope="session", autouse=True)
def busybox(e2e_cluster: Cluster) -> None:
    """Load the image of main.py where the cluster cannot pull it."""
    stand_in(e2e_cluster, "docker.io/library/busybox:1.37")


def test_a_pod_prints_the_text_of_its_note_and_goes_with_it(kubectl: Kubectl) -> None:
    kubectl("apply", OBJECT)
    kubectl("wait", "--for=create", POD, "--timeout=150s")
    kubectl("wait", "--for=condition=Ready", POD, "--timeout=150s")
    wait_until("the text", lambda: kubectl("logs", POD), lambda log: log == "Hello, world!\n")

    kubectl("patch", OBJECT, "--type=merge", "--patch", '{"spec": {"text": "Goodbye!"}}')
    kubectl("wait", "--for=jsonpath={.metadata.annotations.text}=Goodbye!", POD, "--timeout=150s")

    kubectl("delete", OBJECT, "--timeout=120s")
    kubectl("wait", "--for=delete", POD, "--timeout=150s")
