"""The chart works as a part of another one."""

import json
import shutil
from pathlib import Path

import pytest

from chart.helm import CHART, NAMESPACE, PROGRAMS, Manifest, Values, find, render

PARENT = """
apiVersion: v2
name: platform
version: 1.0.0
dependencies:
  - name: widget-operator
    version: "*"
    alias: widgets
    condition: widgets.enabled
"""


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    """A chart that has ours as a dependency, under another name."""
    shutil.copytree(CHART, tmp_path / "charts" / "widget-operator")
    (tmp_path / "Chart.yaml").write_text(PARENT)
    return tmp_path


def rendered(parent: Path, values: Values, program: str = "helm3") -> list[Manifest]:
    """Render the parent chart."""
    return render(values, chart=parent, release="platform", program=program)


def test_its_values_are_set_below_its_name(parent: Path) -> None:
    manifests = rendered(parent, {"widgets": {"replicaCount": 2}})

    deployment = find(manifests, "Deployment", "platform-widgets")
    assert deployment["metadata"]["namespace"] == NAMESPACE
    assert deployment["spec"]["replicas"] == 2


def test_whatever_the_parent_shares_is_accepted_and_its_registry_used(parent: Path) -> None:
    shared = {"imageRegistry": "mirror.example", "storageClass": "fast", "deep": {"er": [1]}}

    deployment = find(rendered(parent, {"global": shared}), "Deployment", "platform-widgets")

    (operator,) = deployment["spec"]["template"]["spec"]["containers"]
    assert operator["image"].startswith("mirror.example/")


def test_it_can_be_switched_on_and_off_by_its_parent(parent: Path) -> None:
    # The schema, which knows every key, must know this one, too.
    assert rendered(parent, {"widgets": {"enabled": True}}) == rendered(parent, {})
    assert rendered(parent, {"widgets": {"enabled": False}}) == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_null_takes_away_can_be_taken_away_without_it(parent: Path, program: str) -> None:
    # Helm 4 loses a null in the values of a parent chart (Helm's pull request 32538).
    ours = {"startupProbe": {"enabled": False}, "livenessProbe": {"tcpSocket": {"port": "health"}}}
    (parent / "values.yaml").write_text(json.dumps({"widgets": ours}))

    deployment = find(rendered(parent, {}, program), "Deployment", "platform-widgets")

    (operator,) = deployment["spec"]["template"]["spec"]["containers"]
    assert "startupProbe" not in operator
    assert "httpGet" not in operator["livenessProbe"]
    assert operator["readinessProbe"]["httpGet"]["path"] == "/readyz"


@pytest.mark.parametrize("program", PROGRAMS)
def test_operators_of_one_parent_are_told_apart_where_they_are_monitored(
    tmp_path: Path, program: str
) -> None:
    shutil.copytree(CHART, tmp_path / "charts" / "widget-operator")
    other = "  - {name: widget-operator, version: '*', alias: more}\n"
    (tmp_path / "Chart.yaml").write_text(PARENT + other)
    on = {"enabled": True}
    metrics = {"metrics": {"monitor": on, "prometheusRule": on, "dashboard": on}}
    values = {"widgets": metrics, "more": {**metrics, "crds": {"install": False}}}

    manifests = rendered(tmp_path, values, program)

    for operator in ("platform-widgets", "platform-more"):
        (endpoint,) = find(manifests, "ServiceMonitor", operator)["spec"]["endpoints"]
        assert endpoint["relabelings"][0]["replacement"] == operator
        (group,) = find(manifests, "PrometheusRule", operator)["spec"]["groups"]
        assert {rule["labels"]["operator"] for rule in group["rules"]} == {operator}
        config_map = find(manifests, "ConfigMap", f"{operator}-dashboard")
        (dashboard,) = (json.loads(content) for content in config_map["data"].values())
        assert dashboard["title"] == f"widget-operator ({NAMESPACE}/{operator})"
