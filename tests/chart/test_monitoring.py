"""Dashboard and alerts: every query runs on a Prometheus that scrapes the operator."""

import contextlib
import dataclasses
import itertools
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import message_operator
from hack import chart_dashboard, chart_docs, prometheus
from tests.chart import fake_cluster, prometheus_server
from tests.chart.helm import (
    CHECKOUT,
    FULLNAME,
    NAMESPACE,
    RELEASE,
    Manifest,
    Values,
    find,
    names,
    render,
)

POD = f"{FULLNAME}-5d7c9b-x2x4z"
RUNBOOKS = CHECKOUT / "docs" / "runbooks"
OURS = f'namespace="{NAMESPACE}",pod="{POD}"'


@dataclasses.dataclass(frozen=True)
class Release:
    """A release of the chart, with alerts."""

    name: str = RELEASE
    namespace: str = NAMESPACE

    def render(self, **metrics: object) -> list[Manifest]:
        """Return its objects, with these values below `metrics`."""
        return render({"metrics": metrics}, release=self.name, namespace=self.namespace)

    def rules(self, **values: object) -> list[Manifest]:
        """Return the alerts, with these values below `metrics.prometheusRule`."""
        manifests = self.render(prometheusRule={"enabled": True, **values})
        (rule,) = (manifest for manifest in manifests if manifest["kind"] == "PrometheusRule")
        (group,) = rule["spec"]["groups"]
        found: list[Manifest] = group["rules"]
        return found

    def samples(self) -> str:
        """Return the labels that Prometheus gives to samples of a Pod of this release."""
        (name,) = (name for kind, _, name in names(self.render()) if kind == "Deployment")
        return f'namespace="{self.namespace}",pod="{name}-5d7c9b-x2x4z",release="{self.name}"'


#: Where many releases share a monitoring stack, those that one could take for each other.
RELEASES = (Release(), Release(namespace="elsewhere"), Release("other"))


def rules(**values: object) -> list[Manifest]:
    """Return the alerts of one release."""
    return Release().rules(**values)


ALERTS = {rule["alert"]: rule for rule in rules()}


def rule_file(folder: Path, *releases: Release) -> Path:
    """Write the rules of these releases, else of one, as Prometheus reads them."""
    groups = [
        {"name": f"{release.namespace}/{release.name}", "rules": release.rules()}
        for release in releases or (Release(),)
    ]
    file = folder / "rules.yaml"
    file.write_text(json.dumps({"groups": groups}))
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
    monitor = find(manifests, kind, f"{NAMESPACE}.{FULLNAME}")
    target = find(manifests, scraped, f"{FULLNAME}-metrics" if scraped == "Service" else FULLNAME)

    assert monitor["metadata"]["namespace"] == "monitoring"
    assert monitor["metadata"]["labels"]["release"] == "x"
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": [NAMESPACE]}
    labels = target["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (endpoint,) = monitor["spec"][endpoints]
    assert endpoint["port"] == "metrics"
    assert endpoint["path"] == "/metrics"
    assert endpoint["interval"] == "30s"


@pytest.mark.parametrize("name", ["serviceMonitor", "podMonitor"])
def test_every_sample_says_of_which_release_it_is(name: str) -> None:
    own = {"action": "labeldrop", "regex": "container"}
    (monitor,) = (
        manifest
        for manifest in render({"metrics": {name: {"enabled": True, "relabelings": [own]}}})
        if manifest["kind"].lower() == name.lower()
    )
    (endpoint,) = monitor["spec"].get("endpoints") or monitor["spec"]["podMetricsEndpoints"]

    release = {"action": "replace", "targetLabel": "release", "replacement": RELEASE}
    assert endpoint["relabelings"] == [release, own]


#: What a monitoring stack's own namespace holds of a release.
SHARED = {
    name: {"enabled": True, "namespace": "monitoring"}
    for name in ("serviceMonitor", "prometheusRule", "dashboard")
}
POD_MONITOR = {"podMonitor": {"enabled": True, "namespace": "monitoring"}}


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
    assert {file.stem for file in RUNBOOKS.glob("Message*.md")} == ALERTS.keys()


def test_the_runbooks_are_those_of_the_version_that_is_installed() -> None:
    (first, *_) = rules()

    tag = f"/blob/v{message_operator.__version__}/docs/runbooks/"
    assert tag in first["annotations"]["runbook_url"]


def test_labels_of_one_s_own_prevail() -> None:
    (first, *_) = rules(alertLabels={"severity": "info", "team": "a"})

    ours = {"namespace": NAMESPACE, "release": RELEASE}
    assert first["labels"] == {"severity": "info", "team": "a", **ours}


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_every_alert_says_which_operator_it_is_about(release: Release) -> None:
    for rule in release.rules():
        assert rule["labels"]["namespace"] == release.namespace
        assert rule["labels"]["release"] == release.name
        texts = rule["annotations"]
        assert f"({release.namespace}/{release.name})" in texts["summary"]
        assert texts["description"].startswith(
            f"Release {release.name} in the namespace {release.namespace}: "
        )


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
    'message_operator_unserved{resource="pods",watched_namespace="team"}': "0x240",
    'message_operator_unreadable_objects{resource="pods"}': "0x240",
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
    "MessageOperatorUnserved": {
        'message_operator_unserved{resource="pods",watched_namespace="team"}': "1x120 0x120"
    },
    "MessageOperatorUnreadableObjects": {
        'message_operator_unreadable_objects{resource="pods"}': "2x120 0x120"
    },
    "MessageOperatorMessagesFailed": {'message_operator_messages{phase="Failed"}': "1x120 0x120"},
    "MessageOperatorMessagesPending": {'message_operator_messages{phase="Pending"}': "1x120 0x120"},
}


def series(release: Release, name: str, values: str) -> Manifest:
    """Return a series as promtool reads it, from a Pod of a release."""
    base, _, labels = name.partition("{")
    more = f",{labels}" if labels else "}"
    return {"series": f"{base}{{{release.samples()}{more}", "values": values}


def firing(alert: str, minute: int, *releases: Release) -> Manifest:
    """Return the expectation that an alert fires for just these releases at some minute."""
    labels = [f'{{namespace="{one.namespace}",release="{one.name}"}}' for one in releases]
    return {
        "expr": "count by (namespace, release) "
        f'(ALERTS{{alertname="{alert}",alertstate="firing"}})',
        "eval_time": f"{minute}m",
        "exp_samples": [{"labels": one, "value": 1} for one in labels],
    }


def expect(folder: Path, tests: list[Manifest], *releases: Release) -> None:
    """Have promtool run tests with the rules of these releases."""
    rule_file(folder, *releases)
    every = [{"interval": "1m", **test} for test in tests]
    file = folder / "tests.yaml"
    file.write_text(
        json.dumps({"rule_files": ["rules.yaml"], "evaluation_interval": "5m", "tests": every})
    )
    promtool("test", "rules", file)


def test_every_alert_fires_in_trouble_and_ends_after_it(tmp_path: Path) -> None:
    assert TROUBLE.keys() == ALERTS.keys()
    one = Release()
    tests = [
        {
            "name": alert,
            "input_series": [series(one, *item) for item in {**WELL, **trouble}.items()],
            # Only that alert, and no other; at the end none.
            "promql_expr_test": [
                *(firing(name, 115, *([one] if name == alert else [])) for name in ALERTS),
                *(firing(name, 235) for name in ALERTS),
            ],
        }
        for alert, trouble in TROUBLE.items()
    ]

    expect(tmp_path, tests, one)


def test_an_alert_fires_for_the_release_in_trouble_and_for_no_other(tmp_path: Path) -> None:
    tests = [
        {
            "name": f"{alert}: {troubled}",
            "input_series": [
                series(release, *item)
                for release in RELEASES
                for item in {**WELL, **(trouble if release == troubled else {})}.items()
            ],
            "promql_expr_test": [firing(alert, 115, troubled), firing(alert, 235)],
        }
        for (alert, trouble), troubled in itertools.product(TROUBLE.items(), RELEASES)
    ]

    expect(tmp_path, tests, *RELEASES)


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ('watched_namespace="team",', "pods in the namespace team cannot be listed"),
        ("", "pods cannot be listed"),  # the operator serves all namespaces
    ],
)
def test_what_is_not_served_is_told_in_words(tmp_path: Path, labels: str, text: str) -> None:
    (rule,) = (rule for rule in rules() if rule["alert"] == "MessageOperatorUnserved")
    description = rule["annotations"]["description"]
    shown = re.sub(r"{{ \$labels.resource }}{{ with .*?{{ end }}", text.partition(" cannot")[0],
                   description)  # fmt: skip
    annotations = {**rule["annotations"], "description": shown}
    exposed = f'message_operator_unserved{{{labels}resource="pods"}}'
    alert = {
        "exp_labels": {
            **rule["labels"],
            "resource": "pods",
            **({"watched_namespace": "team"} if labels else {}),
        },
        "exp_annotations": annotations,
    }
    test = {
        "input_series": [series(Release(), exposed, "1x60")],
        "alert_rule_test": [
            {"alertname": "MessageOperatorUnserved", "eval_time": "30m", "exp_alerts": [alert]}
        ],
    }

    expect(tmp_path, [test], Release())


# --- a Prometheus that scrapes the operator -----------------------------------------------------


@pytest.fixture(scope="module")
def scraping(tmp_path_factory: pytest.TempPathFactory) -> Iterator[prometheus_server.Prometheus]:
    """A Prometheus with our rules that scrapes the operator's process, twice a second."""
    folder = tmp_path_factory.mktemp("prometheus")
    operator_port = prometheus_server.free_port()
    target = {
        "targets": [f"127.0.0.1:{operator_port}"],
        # As the Prometheus Operator does with the chart's monitor.
        "labels": {"namespace": NAMESPACE, "pod": POD, "release": RELEASE},
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


@pytest.mark.parametrize(
    "query", chart_dashboard.queries(interval="10s", namespace=NAMESPACE, release=RELEASE)
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


# --- the dashboard ------------------------------------------------------------------------------


def dashboards(**metrics: Manifest) -> list[tuple[str, Manifest]]:
    """Return the dashboard of each release, with the name of its file."""
    found = []
    for release in RELEASES:
        manifests = release.render(dashboard={"enabled": True}, **metrics)
        (config_map,) = (m for m in manifests if m["kind"] == "ConfigMap")
        ((file, content),) = config_map["data"].items()
        found.append((file, json.loads(content)))
    return found


def test_the_dashboard_is_a_config_map_that_grafana_finds() -> None:
    manifests = render({"metrics": {"dashboard": {"enabled": True}}})
    config_map = find(manifests, "ConfigMap", f"{FULLNAME}-dashboard")

    assert config_map["metadata"]["labels"]["grafana_dashboard"] == "1"
    (content,) = config_map["data"].values()
    written, generated = json.loads(content), json.loads(chart_dashboard.dashboard())
    assert written["panels"] == generated["panels"]
    assert written.keys() == generated.keys()


def test_every_release_has_a_dashboard_of_its_own() -> None:
    """Grafana keeps them apart by uid and, in a folder, by title; its sidecar by file."""
    found = dashboards()

    for own in (
        [file for file, _ in found],
        *([d[key] for _, d in found] for key in ("uid", "title")),
    ):
        assert len(set(own)) == len(RELEASES)
    for file, dashboard in found:
        assert re.fullmatch("[a-zA-Z0-9-]{1,40}", dashboard["uid"])
        assert file.endswith(".json")


def test_a_dashboard_opens_with_its_release_and_can_show_all() -> None:
    for release, (_, dashboard) in zip(
        RELEASES, dashboards(serviceMonitor={"enabled": True}), strict=True
    ):
        variables = {v["name"]: v for v in dashboard["templating"]["list"]}

        assert [*variables] == ["datasource", "cluster", "namespace", "release", "pod"]
        assert variables["namespace"]["current"]["value"] == [release.namespace]
        assert variables["release"]["current"]["value"] == [release.name]
        assert variables["cluster"]["current"]["value"] == ["$__all"]
        for name in ("cluster", "namespace", "release", "pod"):
            assert variables[name]["includeAll"]


def test_without_a_monitor_of_the_chart_the_dashboard_does_not_ask_for_its_label() -> None:
    _, dashboard = dashboards()[0]

    (release,) = (v for v in dashboard["templating"]["list"] if v["name"] == "release")
    assert release["current"]["value"] == ["$__all"]


def test_messages_of_all_releases_are_added_up_and_replicas_count_them_once(tmp_path: Path) -> None:
    panels = [panel for row in chart_dashboard.ROWS.values() for panel in row]
    (panel,) = (panel for panel in panels if panel.title == "Messages by phase")
    ((_, query),) = panel.queries
    count = 'message_operator_messages{phase="Failed"}'
    one, two, _ = (series(release, count, "3x5") for release in RELEASES)
    standby = {**one, "series": one["series"].replace("x2x4z", "aaaaa")}
    test = {
        "input_series": [one, standby, two],
        "promql_expr_test": [
            {
                "expr": query.replace("{OURS}", ""),
                "eval_time": "5m",
                "exp_samples": [{"labels": '{phase="Failed"}', "value": 6}],
            }
        ],
    }

    expect(tmp_path, [test], Release())


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
