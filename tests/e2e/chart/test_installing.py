"""The other ways to install the chart, beside `helm install` of its version."""

import json
from pathlib import Path

import pytest

from kopf_kit.release.artifacts import Published
from kopf_kit.rig import registry
from message_operator import __version__
from tests.e2e.chart.conftest import Releases
from tests.e2e.kube import Kube
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
    there = releases(other, "second-message-operator")
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
    kube: Kube,
    tmp_path: Path,
) -> None:
    parent = PARENT.format(version=__version__, registry=registry.ADDRESS)
    (tmp_path / "Chart.yaml").write_text(parent)
    kube.helm("dependency", "build", str(tmp_path), "--plain-http")
    below = tuple(
        option.replace("--set-string=", "--set-string=message-operator.")
        for option in published.options
    )
    operator = releases(
        home, "platform-message-operator", published=Published(str(tmp_path), below)
    )
    shared = {"imageRegistry": registry.ADDRESS, "storageClass": "fast"}

    operator.install(f"--set-json=global={json.dumps(shared)}")

    namespace.create("hello", "hello").wait_until_ready()
    assert image(operator).startswith(f"{registry.ADDRESS}/message-operator")
    assert "Succeeded" in operator.test()
