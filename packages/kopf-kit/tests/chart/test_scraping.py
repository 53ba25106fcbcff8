"""Alerts and dashboard on a Prometheus that scrapes the operator."""

import contextlib
import re
import sys
import time
from collections.abc import Iterator

import pytest

from chart import fake_cluster, prometheus_server
from chart.helm import FULLNAME, NAMESPACE
from chart.monitored import ALERTS, OURS, POD, rule_file
from kopf_kit.chart import dashboard
from kopf_kit.project.definition import PROJECT
from kopf_kit.testing.process import free_port


@pytest.fixture(scope="module")
def scraping(tmp_path_factory: pytest.TempPathFactory) -> Iterator[prometheus_server.Prometheus]:
    """A Prometheus with our rules that scrapes the operator's process, twice a second."""
    folder = tmp_path_factory.mktemp("prometheus")
    operator_port = free_port()
    target = {
        "targets": [f"127.0.0.1:{operator_port}"],
        # As the Prometheus Operator does with the chart's monitor.
        "labels": {"namespace": NAMESPACE, "pod": POD, "operator": FULLNAME},
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
                *(sys.executable, "-m", PROJECT.package, "--leader-elect", "--resync-period=1"),
                *(f"--metrics-bind-address=127.0.0.1:{operator_port}",),
                "--health-probe-bind-address=0",
                KUBECONFIG=str(folder / "kubeconfig"),
                PYTHONPATH=str(PROJECT.sources),
            )
        )
        found = stack.enter_context(prometheus_server.running(folder, config))
        # Until the operator has resynced again, and there is enough for a rate.
        found.wait_for("rate(widget_operator_resync_repairs_total[10s]) >= 0")
        found.wait_for('rest_client_requests_total{code="403"}')
        yield found


@pytest.mark.parametrize(
    "query", dashboard.queries(interval="10s", namespace=NAMESPACE, operator=FULLNAME)
)
def test_every_query_of_the_dashboard_shows_something(
    scraping: prometheus_server.Prometheus, query: str
) -> None:
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
