"""The operator on a cluster: a ConfigMap holds the text, comes back, and leaves nothing behind."""

from pathlib import Path

import pytest
from kopf_kit.testing.installed import Kubectl

OBJECT = f"--filename={Path(__file__).parents[2] / 'examples' / 'sample.yaml'}"
CONFIG_MAP = "configmap/sample"


@pytest.fixture(scope="module", autouse=True)
def declared(kubectl: Kubectl) -> None:
    kubectl("apply", OBJECT)
    kubectl("wait", "--for=condition=Ready", OBJECT, "--timeout=150s")


def held(kubectl: Kubectl, text: str) -> str:
    return kubectl("wait", f"--for=jsonpath={{.data.text}}={text}", CONFIG_MAP, "--timeout=150s")


def test_a_config_map_holds_the_text(kubectl: Kubectl) -> None:
    held(kubectl, "Hello!")


def test_an_edit_reaches_it(kubectl: Kubectl) -> None:
    kubectl("patch", OBJECT, "--type=merge", "--patch", '{"spec": {"text": "Goodbye!"}}')

    held(kubectl, "Goodbye!")


def test_it_comes_back(kubectl: Kubectl) -> None:
    kubectl("delete", CONFIG_MAP, "--timeout=120s")

    kubectl("wait", "--for=create", CONFIG_MAP, "--timeout=150s")


def test_the_deletion_of_its_owner_leaves_nothing(kubectl: Kubectl) -> None:
    kubectl("delete", OBJECT, "--timeout=120s")

    kubectl("wait", "--for=delete", CONFIG_MAP, "--timeout=150s")
