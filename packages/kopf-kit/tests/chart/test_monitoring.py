"""What monitors the operator: objects of the Prometheus Operator, and the alerts' words."""

import json
import re

import pytest

from chart.helm import (
    FULLNAME,
    HELM_4_IN_TIME,
    NAMESPACE,
    VERSION,
    Manifest,
    Values,
    endpoint,
    find,
    names,
    render,
)
from chart.monitored import ALERTS, RELEASES, Release, rules
from kopf_kit.chart import values as chart_values
from kopf_kit.project.definition import PROJECT

RUNBOOKS = (PROJECT.built / "docs" / "runbooks.md").read_text()


def test_nothing_of_the_prometheus_operator_is_made_unless_asked_for() -> None:
    kinds = {kind for kind, _, _ in names(render())}

    assert not {"ServiceMonitor", "PodMonitor", "PrometheusRule", "ConfigMap"} & kinds


@pytest.mark.parametrize(
    ("kind", "scraped"), [("ServiceMonitor", "Service"), ("PodMonitor", "Deployment")]
)
def test_a_monitor_finds_the_operator(kind: str, scraped: str) -> None:
    monitored = {"enabled": True, "kind": kind, "namespace": "monitoring", "interval": "30s"}
    values = {"metrics": {"monitor": {**monitored, "labels": {"release": "x"}}}}
    manifests = render(values)
    monitor = find(manifests, kind, f"{NAMESPACE}.{FULLNAME}")
    target = find(manifests, scraped, f"{FULLNAME}-metrics" if scraped == "Service" else FULLNAME)

    assert monitor["metadata"]["namespace"] == "monitoring"
    assert monitor["metadata"]["labels"]["release"] == "x"
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": [NAMESPACE]}
    labels = target["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    found = endpoint(values)
    assert (found["port"], found["path"], found["interval"]) == ("metrics", "/metrics", "30s")


@pytest.mark.parametrize("kind", ["ServiceMonitor", "PodMonitor"])
def test_every_sample_says_of_which_operator_it_is(kind: str) -> None:
    own = {"action": "labeldrop", "regex": "container"}
    values = {"enabled": True, "kind": kind, "relabelings": [own]}

    operator = {"action": "replace", "targetLabel": "operator", "replacement": FULLNAME}
    found = endpoint({"metrics": {"monitor": values}})
    assert found["relabelings"] == [operator, own]


#: What a monitoring stack's own namespace holds of a release.
SHARED = {
    name: {"enabled": True, "namespace": "monitoring"}
    for name in ("monitor", "prometheusRule", "dashboard")
}
POD_MONITOR = {"monitor": {"enabled": True, "kind": "PodMonitor", "namespace": "monitoring"}}


@pytest.mark.parametrize("metrics", [SHARED, POD_MONITOR], ids=["SHARED", "POD_MONITOR"])
def test_many_releases_share_the_namespace_of_one_monitoring_stack(metrics: Manifest) -> None:
    objects = [
        found
        for release in (*RELEASES, Release(namespace="monitoring"))
        for found in names(release.render(**metrics))
        if found[1] == "monitoring"
    ]

    assert objects
    assert len(set(objects)) == len(objects)


def pods_pattern(release: str, program: str) -> str:
    """Return what the alerts of a release select its Pods by."""
    values: Values = {"metrics": {"prometheusRule": {"enabled": True}}}
    rule = next(
        m for m in render(values, release=release, program=program) if m["kind"] == "PrometheusRule"
    )
    found = {
        json.loads(pattern)  # a string of PromQL, with its escapes
        for alert in rule["spec"]["groups"][0]["rules"]
        for pattern in re.findall(r'pod=~("[^"]+")', alert["expr"])
    }
    (pattern,) = found
    assert isinstance(pattern, str)
    return pattern


def pods_of(release: str) -> list[str]:
    """Return names that Kubernetes gives to Pods of a release, by hashes of each length.

    The ReplicaSet's hash is a number of up to 10 digits; a generated name is cut to 58 characters,
    and gets 5 random ones (apiserver/pkg/storage/names/generate.go).
    """
    (name,) = (name for kind, _, name in names(render(release=release)) if kind == "Deployment")
    return [f"{name}-{'6bc8f7d9c4'[:length]}-"[:58] + "x2x4z" for length in range(1, 11)]


#: Releases of one namespace that are easily mistaken for each other.
ALIKE = [
    ("demo", "demo-widget-operator-b"),
    ("a.b", "a-b"),
    (
        "platform-production-widget-operator-eu-central-1a",
        "platform-production-widget-operator-eu-central-1b",
    ),
    (
        "widget-operator-of-the-production-cluster-v1.2",
        "widget-operator-of-the-production-cluster-v1-2",
    ),
    ("r" * 53, "r" * 52),
    *((f"widget-operator-{'r' * n}", f"widget-operator-{'r' * n}-b") for n in range(24, 35)),
]


@pytest.mark.parametrize("program", HELM_4_IN_TIME)
@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_the_alerts_are_about_this_release_s_pods_only(one: str, other: str, program: str) -> None:
    for ours, theirs in ((one, other), (other, one)):
        pattern = pods_pattern(ours, program)

        assert [pod for pod in pods_of(ours) if not re.fullmatch(pattern, pod)] == []
        assert [pod for pod in pods_of(theirs) if re.fullmatch(pattern, pod)] == []


def test_every_alert_can_be_disabled_by_its_name() -> None:
    assert sorted(chart_values.KINDS["alerts"]["items"]["enum"]) == sorted(ALERTS)

    left = [rule["alert"] for rule in rules(disabledAlerts=["WidgetOperatorDown"])]

    assert left == [name for name in ALERTS if name != "WidgetOperatorDown"]


def test_every_alert_has_a_runbook_of_the_version_that_is_installed_and_no_other_has() -> None:
    for alert, rule in ALERTS.items():
        page = f"/blob/v{VERSION}/docs/runbooks.md#{alert.lower()}"
        assert rule["annotations"]["runbook_url"].endswith(page)
    assert re.findall(r"^## (.+)$", RUNBOOKS, re.MULTILINE) == list(ALERTS)


def test_labels_of_one_s_own_prevail() -> None:
    (first, *_) = rules(alertLabels={"severity": "info", "team": "a"})

    ours = {"namespace": NAMESPACE, "operator": FULLNAME}
    assert first["labels"] == {"severity": "info", "team": "a", **ours}


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_every_alert_says_which_operator_it_is_about(release: Release) -> None:
    for rule in release.rules():
        assert rule["labels"]["namespace"] == release.namespace
        assert rule["labels"]["operator"] == release.operator
        texts = rule["annotations"]
        assert f"({release.namespace}/{release.operator})" in texts["summary"]
        assert texts["description"].startswith(
            f"Operator {release.operator} in the namespace {release.namespace}: "
        )
