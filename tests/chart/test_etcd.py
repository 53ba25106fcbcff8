"""What only the chart of examples/etcd has: alerts about clusters, and a monitor of the members."""

import json
from pathlib import Path
from typing import Any

import pytest

from chart import helm
from chart.helm import Manifest
from chart.monitored import promtool
from kopf_kit.project import nested
from kopf_kit.project.definition import load
from kopf_kit.rig import paths

PROJECT = nested.ensure(load(paths.CHECKOUT / "examples" / "etcd"))
POD = "demo-etcd-operator-5d7c9b-x2x4z"
#: What the labels of the operator's samples, and of the members', begin with.
OURS = f'namespace="{helm.NAMESPACE}",pod="{POD}",exported_namespace="team",name="c"'
VOLUME = 'namespace="team",persistentvolumeclaim="data-c-1-0a1b2"'
MEMBER = 'namespace="team",pod="c-1",etcd_namespace="team",etcd_cluster="c"'
_ALERT = '{{alertname="EtcdOperator{}"}}'

#: For each alert the series that drive it, a sample a minute: two hours of trouble, then two well.
WELL = {
    f"etcd_operator_available{{{OURS}}}": "1x240",
    f"etcd_operator_healthy{{{OURS}}}": "1x240",
    f"etcd_operator_members_healthy{{{OURS}}}": "3x240",
    f"etcd_operator_members_wanted{{{OURS}}}": "3x240",
    f"etcd_operator_certificate_expiration_timestamp_seconds{{{OURS}}}": "700000x240",
    f"etcd_operator_certificate_late_timestamp_seconds{{{OURS}}}": "95200x240",
    f"etcd_operator_backup_failures{{{OURS}}}": "0x240",
    f"etcd_operator_backup_due_timestamp_seconds{{{OURS}}}": "1000x240",
    f"etcd_operator_backup_last_success_timestamp_seconds{{{OURS}}}": "1001x240",
    f"etcd_server_has_leader{{{MEMBER}}}": "1x240",
    f"etcd_mvcc_db_total_size_in_bytes{{{MEMBER}}}": "10x240",
    f"etcd_server_quota_backend_bytes{{{MEMBER}}}": "100x240",
    f"kubelet_volume_stats_available_bytes{{{VOLUME}}}": "50x240",
    f"kubelet_volume_stats_capacity_bytes{{{VOLUME}}}": "100x240",
}
TROUBLE = {
    "ClusterUnavailable": {"etcd_operator_available": "0x120 1x120"},
    "MembersUnhealthy": {"etcd_operator_members_healthy": "2x120 3x120"},
    "Alarm": {"etcd_operator_healthy": "0x120 1x120"},
    "CertificateExpires": {
        "etcd_operator_certificate_late_timestamp_seconds": "0x120 95200x120",
    },
    "BackupFailed": {"etcd_operator_backup_failures": "1x120 0x120"},
    "BackupOverdue": {
        "etcd_operator_backup_last_success_timestamp_seconds": "900x120 1001x120",
    },
    "MemberWithoutLeader": {"etcd_server_has_leader": "0x120 1x120"},
    "VolumeNearlyFull": {"kubelet_volume_stats_available_bytes": "10x120 50x120"},
    "QuotaNear": {"etcd_mvcc_db_total_size_in_bytes": "90x120 10x120"},
}


def rendered(**values: Any) -> list[Manifest]:
    return helm.render(values, chart=PROJECT.chart, release="demo")


def the(kind: str, manifests: list[Manifest]) -> Manifest:
    (found,) = [manifest for manifest in manifests if manifest["kind"] == kind]
    return found


@pytest.fixture(scope="module")
def rules() -> list[Manifest]:
    rule = the("PrometheusRule", rendered(metrics={"prometheusRule": {"enabled": True}}))
    found: list[Manifest] = rule["spec"]["groups"][0]["rules"]
    return found


def test_each_alert_fires_in_its_trouble_and_ends_after_it(
    rules: list[Manifest], tmp_path: Path
) -> None:
    own = [
        rule["alert"]
        for rule in rules
        if "exported_namespace" in rule["expr"] or "etcd_cluster" in rule["expr"]
    ]
    given = {
        alert: {name: change.get(name.partition("{")[0], well) for name, well in WELL.items()}
        for alert, change in TROUBLE.items()
    }
    due = {name: values for name, values in WELL.items() if "backup_due" in name}
    tests = [
        *(_test(series, own, {115: alert, 235: ""}) for alert, series in given.items()),
        _test(due, own, {115: "BackupOverdue"}),  # there never was a complete one
    ]
    (tmp_path / "rules.yaml").write_text(json.dumps({"groups": [{"name": "etcd", "rules": rules}]}))
    (tmp_path / "tests.yaml").write_text(
        json.dumps({"rule_files": ["rules.yaml"], "evaluation_interval": "5m", "tests": tests})
    )

    assert {f"EtcdOperator{name}" for name in TROUBLE} == set(own)
    promtool("check", "rules", tmp_path / "rules.yaml")
    promtool("test", "rules", tmp_path / "tests.yaml")


def _test(series: dict[str, str], own: list[str], fires: dict[int, str]) -> Manifest:
    """Return a test of promtool: at these minutes just one alert of our own fires, or none."""
    names = "|".join(own)
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": "count by (alertname) "
                f'(ALERTS{{alertname=~"{names}",alertstate="firing"}})',
                "eval_time": f"{minute}m",
                "exp_samples": [{"labels": _ALERT.format(alert), "value": 1}] if alert else [],
            }
            for minute, alert in fires.items()
        ],
    }


def test_members_are_scraped_if_the_operator_is() -> None:
    labels = {"release": "prometheus"}
    metrics = {"monitor": {"enabled": True, "labels": labels}}
    manifests = rendered(metrics=metrics, watchNamespaces=["team"])
    (members,) = [
        manifest
        for manifest in manifests
        if manifest["metadata"]["name"] == "demo-etcd-operator-members"
    ]

    spec = members["spec"]
    (wanted,), (endpoint,) = spec["selector"]["matchExpressions"], spec["podMetricsEndpoints"]
    assert wanted["key"] in PROJECT.module("etcd_operator.manifests").labels("c")
    assert endpoint["port"] == "metrics"
    assert spec["namespaceSelector"] == {"matchNames": ["team"]}
    assert labels.items() <= members["metadata"]["labels"].items()


def test_without_monitors_there_is_none_for_the_members() -> None:
    assert "PodMonitor" not in {manifest["kind"] for manifest in rendered()}
