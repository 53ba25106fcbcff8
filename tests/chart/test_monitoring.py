"""Dashboard and alerts: every query runs on a Prometheus that scrapes the operator."""

import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack import chart_dashboard, chart_docs, prometheus
from tests.chart import fake_cluster, prometheus_server
from tests.chart.helm import CHECKOUT, FULLNAME, NAMESPACE, Manifest, Values, find, names, render

POD = f"{FULLNAME}-5d7c9b-x2x4z"
RUNBOOKS = CHECKOUT / "docs" / "runbooks"
OURS = f'namespace="{NAMESPACE}",pod="{POD}"'


def rules(**values: object) -> list[Manifest]:
    """Return the alerts, with these values below `metrics.prometheusRule`."""
    manifests = render({"metrics": {"prometheusRule": {"enabled": True, **values}}})
    (group,) = find(manifests, "PrometheusRule")["spec"]["groups"]
    found: list[Manifest] = group["rules"]
    return found


ALERTS = {rule["alert"]: rule for rule in rules()}


def rule_file(folder: Path) -> Path:
    """Write the rules as Prometheus reads them."""
    file = folder / "rules.yaml"
    file.write_text(json.dumps({"groups": [{"name": "ours", "rules": rules()}]}))
    return file


# --- the objects --------------------------------------------------------------------------------


def test_nothing_of_the_prometheus_operator_is_made_unless_asked_for() -> None:
    kinds = {kind for kind, _, _ in names(render())}

    assert not {"ServiceMonitor", "PodMonitor", "PrometheusRule", "ConfigMap"} & kinds


@pytest.mark.parametrize(
    ("name", "kind", "endpoints", "scraped"),
    [
        ("serviceMonitor", "ServiceMonitor", "endpoints", "Service"),
        ("podMonitor", "PodMonitor", "podMetricsEndpoints", "Deployment"),
    ],
)
def test_a_monitor_finds_the_operator(name: str, kind: str, endpoints: str, scraped: str) -> None:
    values = {"enabled": True, "namespace": "monitoring", "labels": {"release": "x"}}
    manifests = render({"metrics": {name: {**values, "interval": "30s"}}})
    monitor = find(manifests, kind)
    target = find(manifests, scraped, f"{FULLNAME}-metrics" if scraped == "Service" else FULLNAME)

    assert monitor["metadata"]["namespace"] == "monitoring"
    assert monitor["metadata"]["labels"]["release"] == "x"
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": [NAMESPACE]}
    labels = target["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert monitor["spec"][endpoints] == [
        {"port": "metrics", "path": "/metrics", "interval": "30s"}
    ]


@pytest.mark.parametrize("release", ["demo", "r" * 53])
def test_the_alerts_are_about_this_release_s_pods_only(release: str) -> None:
    values: Values = {"metrics": {"prometheusRule": {"enabled": True}}}
    manifests = render(values, release=release)
    (name,) = (name for kind, _, name in names(manifests) if kind == "Deployment")
    pattern = re.search(r'pod=~"([^"]+)"', json.dumps(find(manifests, "PrometheusRule", name)["spec"]["groups"]).replace('\\"', '"'))  # fmt: skip # noqa: E501
    assert pattern

    # A ReplicaSet's hash behind the name; then cut to 58 characters, and 5 random ones.
    assert re.fullmatch(pattern[1], f"{name}-6bc8f7d9c4-"[:58] + "x2x4z")
    assert not re.fullmatch(pattern[1], "another-6bc8f7d9c4-x2x4z")


# --- the alerts ---------------------------------------------------------------------------------


def test_every_alert_can_be_disabled_by_its_name() -> None:
    assert sorted(chart_docs.KINDS["alerts"]["items"]["enum"]) == sorted(ALERTS)

    left = [rule["alert"] for rule in rules(disabledAlerts=["MessageOperatorDown"])]

    assert left == [name for name in ALERTS if name != "MessageOperatorDown"]


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_has_a_runbook(alert: str) -> None:
    url = ALERTS[alert]["annotations"]["runbook_url"]
    runbook = RUNBOOKS / url.rpartition("/")[2]

    assert url.endswith(f"/docs/runbooks/{alert}.md")
    text = runbook.read_text()
    assert text.startswith(f"# {alert}: ")
    assert f"Severity: {ALERTS[alert]['labels']['severity']}\n" in text
    for heading in ("What it means", "What to look at", "What to do"):
        assert f"## {heading}\n" in text


def test_no_runbook_is_about_an_alert_that_is_gone() -> None:
    assert {file.stem for file in RUNBOOKS.glob("*.md")} == ALERTS.keys()


def test_labels_of_one_s_own_prevail_over_the_severity() -> None:
    (first, *_) = rules(alertLabels={"severity": "info", "team": "a"})

    assert first["labels"] == {"severity": "info", "team": "a"}


def test_promtool_finds_nothing_in_the_rules(tmp_path: Path) -> None:
    promtool("check", "rules", rule_file(tmp_path))


def promtool(*arguments: str | Path) -> None:
    """Run promtool; fail with what it says."""
    done = subprocess.run(
        [prometheus.path("promtool"), *arguments],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


#: For each alert the series that drive it, a sample a minute: two hours of trouble, then two well.
WELL = {
    "up": "1x240",
    "message_operator_leader": "1x240",
    'message_operator_reconciles_total{result="success"}': "0+60x240",
    "message_operator_queue_depth": "0x240",
    'message_operator_api_requests_total{code="200"}': "0+60x240",
    "process_start_time_seconds": "1000x240",
    "message_operator_last_sweep_timestamp_seconds": "0+60x240",
    'message_operator_messages{phase="Failed"}': "0x240",
    'message_operator_messages{phase="Pending"}': "0x240",
}
TROUBLE: dict[str, dict[str, str]] = {
    "MessageOperatorDown": {"up": "0x120 1x120"},
    "MessageOperatorRestarting": {"process_start_time_seconds": "0+60x120 7200x120"},
    "MessageOperatorNoLeader": {"message_operator_leader": "0x120 1x120"},
    "MessageOperatorReconcileErrors": {
        'message_operator_reconciles_total{result="error"}': "0+1x120 120x120"
    },
    "MessageOperatorQueueStuck": {
        "message_operator_queue_depth": "5x120 0x120",
        'message_operator_reconciles_total{result="success"}': "7x120 7+60x120",
    },
    "MessageOperatorApiErrors": {
        'message_operator_api_requests_total{code="503"}': "0+60x120 7200x120"
    },
    "MessageOperatorForbidden": {
        'message_operator_api_requests_total{code="403"}': "0+1x120 120x120"
    },
    "MessageOperatorWatchMisses": {
        'message_operator_sweep_repairs_total{resource="pods"}': "0+1x120 120x120"
    },
    "MessageOperatorSweepsFail": {
        "message_operator_last_sweep_timestamp_seconds": "0x120 7260+60x119"
    },
    "MessageOperatorMessagesFailed": {'message_operator_messages{phase="Failed"}': "1x120 0x120"},
    "MessageOperatorMessagesPending": {'message_operator_messages{phase="Pending"}': "1x120 0x120"},
}


def series(name: str, values: str) -> Manifest:
    """Return a series as promtool reads it, from a Pod of ours."""
    base, _, labels = name.partition("{")
    more = f",{labels}" if labels else "}"
    return {"series": f"{base}{{{OURS}{more}", "values": values}


def firing(alert: str, minute: int, expected: int) -> Manifest:
    """Return the expectation that an alert fires, or does not, at some minute."""
    return {
        "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)',
        "eval_time": f"{minute}m",
        "exp_samples": [{"labels": "{}", "value": expected}],
    }


def test_every_alert_fires_in_trouble_and_ends_after_it(tmp_path: Path) -> None:
    assert TROUBLE.keys() == ALERTS.keys()
    tests = [
        {
            "interval": "1m",
            "name": alert,
            "input_series": [series(*item) for item in {**WELL, **trouble}.items()],
            # Only that alert, and no other; at the end none.
            "promql_expr_test": [
                *(firing(name, 115, int(name == alert)) for name in ALERTS),
                *(firing(name, 235, 0) for name in ALERTS),
            ],
        }
        for alert, trouble in TROUBLE.items()
    ]
    file = tmp_path / "tests.yaml"
    rule_file(tmp_path)
    file.write_text(
        json.dumps({"rule_files": ["rules.yaml"], "evaluation_interval": "5m", "tests": tests})
    )

    promtool("test", "rules", file)


# --- a Prometheus that scrapes the operator -----------------------------------------------------


@pytest.fixture(scope="module")
def scraping(tmp_path_factory: pytest.TempPathFactory) -> Iterator[prometheus_server.Prometheus]:
    """A Prometheus with our rules that scrapes the operator's process, twice a second."""
    folder = tmp_path_factory.mktemp("prometheus")
    operator_port = prometheus_server.free_port()
    target = {
        "targets": [f"127.0.0.1:{operator_port}"],
        "labels": {"namespace": NAMESPACE, "pod": POD},  # as the Prometheus Operator does
    }
    config = {
        "global": {"scrape_interval": "500ms", "evaluation_interval": "500ms"},
        "rule_files": [str(rule_file(folder))],
        "scrape_configs": [{"job_name": "ours", "static_configs": [target]}],
    }
    with contextlib.ExitStack() as stack:
        stack.enter_context(fake_cluster.running(folder / "kubeconfig"))
        stack.enter_context(
            prometheus_server.process(
                folder / "operator.log",
                *(sys.executable, "-m", "message_operator", "--leader-elect", "--sweep-period=1"),
                *(f"--metrics-bind-address=127.0.0.1:{operator_port}",),
                "--health-probe-bind-address=0",
                KUBECONFIG=str(folder / "kubeconfig"),
                PYTHONPATH=str(CHECKOUT / "operator"),
            )
        )
        found = stack.enter_context(prometheus_server.running(folder, config))
        # Until the operator has swept again, and there is enough for a rate.
        found.wait_for("rate(message_operator_sweep_repairs_total[10s]) >= 0")
        found.wait_for('message_operator_api_requests_total{code="403"}')
        yield found


@pytest.mark.parametrize("query", chart_dashboard.queries())
def test_every_query_of_the_dashboard_shows_something(
    scraping: prometheus_server.Prometheus, query: str
) -> None:
    for variable, value in {
        "$namespace": NAMESPACE,
        "$pod": ".*",
        "$__rate_interval": "10s",
    }.items():
        query = query.replace(variable, value)

    assert scraping.query(query), query


def test_every_rule_is_evaluated_without_an_error(scraping: prometheus_server.Prometheus) -> None:
    scraping.wait_for("count(ALERTS) or vector(0)")
    deadline = time.monotonic() + 30
    while True:
        (group,) = scraping.get("rules")["groups"]
        if all(rule["health"] != "unknown" for rule in group["rules"]):
            break
        assert time.monotonic() < deadline
        time.sleep(0.2)

    assert {rule["name"]: rule["health"] for rule in group["rules"]} == dict.fromkeys(ALERTS, "ok")


@pytest.mark.parametrize("alert", ALERTS)
def test_every_metric_of_an_alert_is_one_that_the_operator_has(
    scraping: prometheus_server.Prometheus, alert: str
) -> None:
    selectors = re.findall(r"(\w+)\{[^}]*\}", ALERTS[alert]["expr"])

    assert selectors
    for metric in selectors:
        assert scraping.query(f"{metric}{{{OURS}}}"), f"{alert} asks for {metric}"


def test_a_well_operator_raises_no_alarm_that_wakes_somebody(
    scraping: prometheus_server.Prometheus,
) -> None:
    for alert, rule in ALERTS.items():
        if rule["labels"]["severity"] == "critical":
            assert scraping.query(f'ALERTS{{alertname="{alert}"}}') == []


# --- the dashboard ------------------------------------------------------------------------------


def test_the_dashboard_is_a_config_map_that_grafana_finds() -> None:
    manifests = render({"metrics": {"dashboard": {"enabled": True}}})
    config_map = find(manifests, "ConfigMap", f"{FULLNAME}-dashboard")

    assert config_map["metadata"]["labels"]["grafana_dashboard"] == "1"
    (content,) = config_map["data"].values()
    assert json.loads(content) == json.loads(chart_dashboard.dashboard())


def test_the_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(chart_dashboard.dashboard())["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= chart_dashboard.WIDTH
        taken |= cells
