"""What docs/olm.md has its readers type to install and remove the operator."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kopf_kit.rig import olm, registry
from kopf_kit.testing import Kubectl
from tests.docs.reader import Reader
from tests.docs.readings import FILES
from tests.e2e import release
from tests.make.commands import CHECKOUT
from tests.olm import subscription
from tests.support.console import commands, section

GUIDE = (CHECKOUT / "docs" / "olm.md").read_text()
#: The namespace of the guide, and that of its Message: the one that kubectl takes by default.
HOME, THEIRS = "message-operator", "default"


def follow(reader: Reader, heading: str) -> str:
    """Type the commands below a heading; return what they printed. All must succeed."""
    said = reader.type("make generate")  # which writes the files of a release
    for command in commands(section(GUIDE, heading)):
        for address, folder in FILES.items():
            command = command.replace(address, folder)
        said += f"$ {command}\n{reader.type(command)}"
    return said


@pytest.fixture
def reader(kubectl: Kubectl, tmp_path: Path) -> Iterator[Reader]:
    """A reader with a cluster that has OLM, but neither an operator nor the CRD."""
    cluster = olm.up(kubectl.cluster.name)
    _clean(kubectl)
    (tmp_path / "kubectl").symlink_to(cluster.kubectl)
    with Reader.here(tmp_path, KUBECONFIG=str(cluster.kubeconfig)) as reader:
        yield reader
    _clean(kubectl)


def _clean(kubectl: Kubectl) -> None:
    release.clean(kubectl.cluster)
    subscription.remove(kubectl)
    kubectl("delete", "namespace", HOME, "--ignore-not-found")
    kubectl("delete", "crd", "clusterextensions.olm.operatorframework.io", "--ignore-not-found")


def test_the_operator_is_installed_from_the_registry_and_removed_in_the_words_of_the_guide(
    reader: Reader, kubectl: Kubectl
) -> None:
    said = follow(reader, "Install")

    assert f"{registry.ADDRESS}/message-operator-catalog@sha256:" in said
    assert "안녕하세요, 오퍼레이터!" in said
    theirs = ("pod/msg-hello-msg", "-n", THEIRS)
    message, deployment = kubectl.get(*theirs), kubectl.get("deployment/message-operator")
    (operator,) = deployment["spec"]["template"]["spec"]["containers"]
    (printer,) = message["spec"]["containers"]
    assert operator["image"].startswith(f"{registry.ADDRESS}/message-operator@sha256:")
    assert printer["image"].startswith(f"{registry.ADDRESS}/busybox@sha256:")

    follow(reader, "Remove")

    assert kubectl.find("crd", release.CRD) is None
    assert kubectl.find("namespace", HOME) is None
    assert kubectl.find("catalogsource/message-operator", "-n", olm.NAMESPACE) is None
    kubectl("wait", "--for=delete", *theirs, "--timeout=300s")

    kubectl("apply", "--server-side", "-f", str(olm.extension_kind()))
    said = follow(reader, "OLM v1")

    assert f"{registry.ADDRESS}/message-operator-bundle@sha256:" in said
    assert 'clusterextension.olm.operatorframework.io "message-operator" deleted' in said
