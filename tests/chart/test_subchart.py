"""The chart works as a part of another one."""

import shutil
from pathlib import Path

import pytest

from tests.chart.helm import CHART, NAMESPACE, Manifest, Values, find, render

PARENT = """
apiVersion: v2
name: platform
version: 1.0.0
dependencies:
  - name: message-operator
    version: "*"
    alias: messages
    condition: messages.enabled
"""


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    """A chart that has ours as a dependency, under another name."""
    shutil.copytree(CHART, tmp_path / "charts" / "message-operator")
    (tmp_path / "Chart.yaml").write_text(PARENT)
    return tmp_path


def rendered(parent: Path, values: Values) -> list[Manifest]:
    """Render the parent chart."""
    return render(values, chart=parent, release="platform")


def test_its_values_are_set_below_its_name(parent: Path) -> None:
    manifests = rendered(parent, {"messages": {"replicaCount": 2}})

    deployment = find(manifests, "Deployment", "platform-messages")
    assert deployment["metadata"]["namespace"] == NAMESPACE
    assert deployment["spec"]["replicas"] == 2


def test_whatever_the_parent_shares_is_accepted_and_its_registry_used(parent: Path) -> None:
    shared = {"imageRegistry": "mirror.example", "storageClass": "fast", "deep": {"er": [1]}}

    deployment = find(rendered(parent, {"global": shared}), "Deployment", "platform-messages")

    (operator,) = deployment["spec"]["template"]["spec"]["containers"]
    assert operator["image"].startswith("mirror.example/")


def test_it_can_be_switched_on_and_off_by_its_parent(parent: Path) -> None:
    # The schema, which knows every key, must know this one, too.
    assert rendered(parent, {"messages": {"enabled": True}}) == rendered(parent, {})
    assert rendered(parent, {"messages": {"enabled": False}}) == []
