"""Alerts and dashboard on a Prometheus that scrapes the operator."""

import contextlib
import json
import re
import sys
import time
from collections.abc import Iterator

import pytest

from chart import prometheus_server
from chart.helm import FULLNAME, NAMESPACE, find, render
from chart.monitored import ALERTS, OURS, POD, rule_file
from kopf_kit.chart import dashboard
from kopf_kit.project import documents
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig.control_plane import ControlPlane
from kopf_kit.testing.api_server import OPERATOR, declared_rules, granted, kubectl, running
from kopf_kit.testing.process import free_port


def prepare(plane: ControlPlane) -> None:
    """Create two Widgets, of which the operator may write to one alone: it has what to count."""
    rules = declared_rules(PROJECT.module(PROJECT.manager).manager)
    look = [{**rule, "verbs": ["get", "list", "watch"]} for rule in rules]
    crd = find(render(), "CustomResourceDefinition", PROJECT.kinds[0].crd)
    rights = [*granted("a", look, OPERATOR, None), *granted("a", rules, OPERATOR, "default")]
    kubectl(plane, "create", "--filename=-", stdin=[crd, *rights])
    kubectl(plane, "wait", "--for=condition=Established", f"crd/{PROJECT.kinds[0].crd}")
    (sample,) = PROJECT.samples["Widget"]
    widget = documents.load(sample.read_text())
    for namespace in ("default", "kube-public"):
        kubectl(plane, "create", f"--namespace={namespace}", "--filename=-", stdin=[widget])


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
        plane = stack.enter_context(running())
        prepare(plane)
        stack.enter_context(
            prometheus_server.process(
                folder / "operator.log",
                *(sys.executable, "-m", PROJECT.package, "--resync-period=1"),
                *("--leader-elect", "--lease-namespace=default", "--health-probe-bind-address=0"),
                f"--metrics-bind-address=127.0.0.1:{operator_port}",
                KUBECONFIG=str(plane.kubeconfig(OPERATOR)),
                PYTHONPATH=str(PROJECT.sources),
            )
        )
        found = stack.enter_context(prometheus_server.running(folder, config))
        # Until the operator has resynced again, and there is enough for a rate.
        found.wait_for("rate(widget_operator_resync_repairs_total[10s]) >= 0")
        found.wait_for('rest_client_requests_total{code="403"}')
        yield found


def queries() -> list[str]:
    """Return every expression as Grafana sends it, with our release selected and all its Pods."""
    chosen = {"namespace": NAMESPACE, "operator": FULLNAME, "__rate_interval": "10s"}
    panels = json.loads(dashboard.dashboard())["panels"]
    expressions = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    return [re.sub(r"\$(\w+)", lambda m: chosen.get(m[1], ".*"), each) for each in expressions]


@pytest.mark.parametrize("query", queries())
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
