"""The other ways to install the chart, beside `helm install` of its version."""

import json
from pathlib import Path

import pytest

from kopf_kit.olm import manifests
from kopf_kit.project import documents
from kopf_kit.release.artifacts import Published
from kopf_kit.rig import registry
from kopf_kit.rig.cluster import Cluster
from kopf_kit.testing import Kubectl
from message_operator import __version__
from tests.e2e import release
from tests.e2e.chart.conftest import Releases
from tests.e2e.messages import Namespace
from tests.e2e.release import Operator


def image(operator: Operator) -> str:
    """Return the image that the operator runs."""
    (pod,) = operator.pods()
    (container,) = pod["spec"]["containers"]
    return str(container["image"])


@pytest.mark.long
def test_two_releases_each_serve_their_own_namespaces(
    releases: Releases, home: Namespace, other: Namespace, namespace: Namespace
) -> None:
    here = releases(home)
    there = releases(other, name="second-message-operator")
    here.install(f"--set=watchNamespaces={{{home.name}}}")
    there.install(f"--set=watchNamespaces={{{other.name}}}", "--set=crds.install=false")

    nobodys = namespace.create("hello", "hello")
    ours, theirs = (where.create("hello", "hello") for where in (home, other))

    for operator, message in ((here, ours), (there, theirs)):
        message.wait_until_ready()
        (pod,) = operator.pods()
        event = message.wait_for_event("Created")
        assert event["reportingInstance"] == pod["metadata"]["name"]
    assert nobodys.status() == {}


PARENT = """
apiVersion: v2
name: platform
version: 1.0.0
dependencies:
  - name: message-operator
    version: {version}
    repository: oci://{registry}/charts
    condition: message-operator.enabled
"""


@pytest.mark.long
def test_as_a_part_of_another_chart(
    releases: Releases,
    home: Namespace,
    namespace: Namespace,
    published: Published,
    tmp_path: Path,
) -> None:
    parent = PARENT.format(version=__version__, registry=registry.ADDRESS)
    (tmp_path / "Chart.yaml").write_text(parent)
    below = tuple(
        option.replace("--set-string=", "--set-string=message-operator.")
        for option in published.options
    )
    part_of_it = Published(str(tmp_path), below)
    operator = releases(home, name="platform-message-operator", published=part_of_it)
    operator.helm("dependency", "build", str(tmp_path), "--plain-http")
    shared = {"imageRegistry": registry.ADDRESS, "storageClass": "fast"}

    operator.install(f"--set-json=global={json.dumps(shared)}")

    namespace.create("hello", "hello").wait_until_ready()
    assert image(operator).startswith(f"{registry.ADDRESS}/message-operator")
    assert "Succeeded" in operator.test()


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
    cluster: Cluster, releases: Releases, namespace: Namespace, published: Published
) -> None:
    text = with_images(manifests.texts()["install.yaml"], published)
    name = manifests.NAME
    kubectl = Kubectl(cluster, name)

    kubectl("apply", "-f", "-", stdin=text)
    kubectl("rollout", "status", f"deployment/{name}", "--timeout=5m")

    message = namespace.create("hello", "hello")
    message.wait_until_ready()
    message.wait_for_log(b"hello\n")
    message.delete()
    message.wait_until_gone()

    kubectl("delete", "-f", "-", "--timeout=5m", stdin=text)
    assert kubectl.find("namespace", name) is None
    assert kubectl.find("crd", release.CRD) is None
    assert kubectl.get("clusterroles", "-l", f"app.kubernetes.io/name={name}")["items"] == []
