"""What docs/olm.md has its readers type to install and remove the operator."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kopf_kit.rig import cluster as hack_cluster
from kopf_kit.rig import olm, registry, tools
from kopf_kit.testing.requests import wait_until
from tests.docs.reader import Reader
from tests.e2e import release
from tests.e2e.kube import Kube
from tests.make.commands import CHECKOUT
from tests.support.console import commands, section

GUIDE = (CHECKOUT / "docs" / "olm.md").read_text()
#: The namespace of the guide, and that of its Message: the one that kubectl takes by default.
HOME, THEIRS = "message-operator", "default"


def follow(reader: Reader, heading: str) -> str:
    """Type the commands below a heading; return what they printed. All must succeed."""
    said = ""
    for command in commands(section(GUIDE, heading)):
        said += f"$ {command}\n{reader.type(command)}"
    return said


@pytest.fixture
def reader(kube: Kube, tmp_path: Path) -> Iterator[Reader]:
    """A reader with a cluster that has OLM, but neither an operator nor the CRD."""
    olm.up(hack_cluster.TEST_NAME)
    _clean(kube)
    (tmp_path / "kubectl").symlink_to(tools.path("kubectl"))
    with Reader.here(tmp_path, KUBECONFIG=str(kube.cluster.kubeconfig_path)) as reader:
        yield reader
    _clean(kube)


def _clean(kube: Kube) -> None:
    release.clean(kube, ours=True)
    for kind in ("subscriptions", "clusterserviceversions"):
        kube.kubectl("delete", f"{kind}.operators.coreos.com", "--all", "-n", HOME)
    named = ("catalogsource", "message-operator", "-n", olm.NAMESPACE)
    kube.kubectl("delete", *named, "--ignore-not-found")
    kube.kubectl("delete", "namespace", HOME, "--ignore-not-found")
    kinds = (release.CRD, "clusterextensions.olm.operatorframework.io")
    kube.kubectl("delete", "crd", *kinds, "--ignore-not-found")
    kube.kubectl("delete", "clustercatalog", "message-operator", "--ignore-not-found")


def test_the_operator_is_installed_from_the_registry_and_removed_in_the_words_of_the_guide(
    reader: Reader, kube: Kube
) -> None:
    said = follow(reader, "Install")

    assert f"{registry.ADDRESS}/message-operator-catalog@sha256:" in said
    assert "안녕하세요, 오퍼레이터!" in said
    message = kube.get("Pod", "msg-hello-msg", THEIRS)
    deployment = kube.get("Deployment", "message-operator", HOME)
    assert message is not None
    assert deployment is not None
    (operator,) = deployment["spec"]["template"]["spec"]["containers"]
    (printer,) = message["spec"]["containers"]
    assert operator["image"].startswith(f"{registry.ADDRESS}/message-operator@sha256:")
    assert printer["image"].startswith(f"{registry.ADDRESS}/busybox@sha256:")

    follow(reader, "Remove")

    assert kube.get("CustomResourceDefinition", release.CRD) is None
    assert kube.get("Namespace", HOME) is None
    assert kube.get("CatalogSource", "message-operator", olm.NAMESPACE) is None
    wait_until(
        "the message Pod to be gone",
        lambda: kube.get("Pod", "msg-hello-msg", THEIRS),
        lambda found: found is None,
    )

    kube.kubectl("apply", "--server-side", "-f", str(olm.extension_kind()))
    said = follow(reader, "OLM v1")

    assert f"{registry.ADDRESS}/message-operator-bundle@sha256:" in said
    assert 'clusterextension.olm.operatorframework.io "message-operator" deleted' in said
