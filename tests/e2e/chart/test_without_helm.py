"""The plain manifests of a release, applied and deleted by kubectl."""

import pytest

from kopf_kit.olm import manifests
from kopf_kit.project import documents
from kopf_kit.release.artifacts import Published
from tests.e2e import release
from tests.e2e.chart.conftest import Releases
from tests.e2e.kube import Kube
from tests.e2e.messages import Namespace


def with_images(text: str, published: Published) -> str:
    """Return install.yaml with the images that this cluster can pull, as a mirror's user has it."""
    (deployment,) = (m for m in documents.load_all(text) if m["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    prefix = "--message-image="
    (message,) = (a.removeprefix(prefix) for a in container["args"] if a.startswith(prefix))
    assert published.image
    return text.replace(container["image"], published.image).replace(
        message, published.pod_images["message"]
    )


@pytest.mark.usefixtures("without_kind")
def test_install_yaml_is_applied_serves_and_is_deleted(
    kube: Kube, releases: Releases, namespace: Namespace, published: Published
) -> None:
    text = with_images(manifests.texts()["install.yaml"], published)
    name = manifests.NAME

    kube.kubectl("apply", "-f", "-", stdin=text)
    rollout = ("rollout", "status", f"deployment/{name}", "--timeout=5m")
    kube.kubectl("-n", name, *rollout)

    message = namespace.create("hello", "hello")
    message.wait_until_ready()
    message.wait_for_log(b"hello\n")
    message.delete()
    message.wait_until_gone()

    kube.kubectl("delete", "-f", "-", "--timeout=5m", stdin=text)
    assert kube.get("Namespace", name) is None
    assert kube.get("CustomResourceDefinition", release.CRD) is None
    roles, _ = kube.objects("ClusterRole", labels="app.kubernetes.io/name=message-operator")
    assert roles == []
