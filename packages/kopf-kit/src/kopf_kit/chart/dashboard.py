"""The chart's Grafana dashboard: rows of panels and their queries."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kopf_kit.chart import values
from kopf_kit.project.definition import PROJECT

#: An operator with all its replicas, and its display name.
_OPERATOR = "cluster, namespace, operator"
_OPERATOR_LEGEND = "{{cluster}} {{namespace}}/{{operator}}"


@dataclass(frozen=True)
class Panel:
    """A panel; each query is (legend, expression).

    In an expression, OURS stands for the selector, and OWN_ for the prefix of the metrics' names.
    """

    title: str
    description: str
    queries: tuple[tuple[str, str], ...]
    kind: str = "timeseries"
    unit: str = "short"
    width: int = 8
    height: int = 7


def _rate(name: str, by: str) -> str:
    return f"sum by ({by}) (rate({name}{{OURS}}[$__rate_interval]))"


def _quantile(share: float, name: str, by: str = "") -> str:
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, {_rate(f'{name}_bucket', labels)})"


ROWS: dict[str, tuple[Panel, ...]] = {
    PROJECT.many: (
        Panel(
            "Replicas",
            "Operators that are scraped. One of a release leads, the others stand by.",
            ((_OPERATOR_LEGEND, f"count by ({_OPERATOR}) (OWN_build_info{{OURS}})"),),
            kind="stat",
            width=4,
        ),
        Panel(
            "Leaders",
            "Exactly one operator of a release works. None: nothing is reconciled.",
            ((_OPERATOR_LEGEND, f"sum by ({_OPERATOR}) (OWN_leader{{OURS}})"),),
            kind="stat",
            width=4,
        ),
        Panel(
            "Version",
            "What runs; two of them only while a rollout is under way.",
            (("{{version}}", "count by (version) (OWN_build_info{OURS})"),),
            kind="stat",
            width=4,
        ),
        *(
            Panel(own.title, own.description, ((own.legend, own.query),), unit=own.unit, width=12)
            for own in PROJECT.panels
        ),
    ),
    "Reconciles": (
        Panel(
            "Reconciles by result",
            "error: the operator failed; requeue: something refused, and it will be tried again.",
            (("{{result}}", _rate("controller_runtime_reconcile_total", "result")),),
            unit="ops",
        ),
        Panel(
            "Duration of a reconcile",
            "Mostly the API server's share: one that has nothing to do takes under a millisecond.",
            (
                ("p50", _quantile(0.5, "controller_runtime_reconcile_time_seconds")),
                ("p99", _quantile(0.99, "controller_runtime_reconcile_time_seconds")),
            ),
            unit="s",
        ),
        Panel(
            "Wait in the queue",
            "How long a change waits until a worker takes it up.",
            (
                ("p50", _quantile(0.5, "workqueue_queue_duration_seconds")),
                ("p99", _quantile(0.99, "workqueue_queue_duration_seconds")),
            ),
            unit="s",
        ),
        Panel(
            "Queue",
            f"{PROJECT.many} that wait. The leader's empties by itself; standbys keep theirs for "
            "the day.",
            (("{{pod}}", "sum by (pod) (workqueue_depth{OURS})"),),
        ),
        Panel(
            "Put into the queue",
            "Changes seen, retries and resyncs.",
            (("{{pod}}", _rate("workqueue_adds_total", "pod")),),
            unit="ops",
        ),
        Panel(
            "Found by a resync only",
            "What a watch has missed: mostly nothing.",
            (
                (
                    "{{resource}}",
                    "sum by (resource) (increase(OWN_resync_repairs_total{OURS}[1h]))",
                ),
            ),
        ),
        Panel(
            "Since the last resync",
            "Grows to controller.resyncPeriodSeconds, then falls to 0.",
            (
                (
                    "{{pod}}",
                    "time() - max by (pod) (OWN_last_resync_timestamp_seconds{OURS})",
                ),
            ),
            unit="s",
        ),
        Panel(
            "Since the Lease was renewed",
            "Some seconds: more than leaderElection.renewDeadlineSeconds, and nobody works.",
            (
                (
                    _OPERATOR_LEGEND,
                    f"time() - max by ({_OPERATOR}) "
                    "(OWN_lease_renewed_timestamp_seconds{OURS} > 0)",
                ),
            ),
            unit="s",
        ),
        Panel(
            "Tries for the Lease that failed",
            "No answer, or a refusal: the log tells which.",
            (("{{pod}}", _rate("OWN_lease_failures_total", "pod")),),
            unit="ops",
        ),
    ),
    "What is left out": (
        Panel(
            "Not served",
            "What cannot be listed and watched, by resource and namespace; 0 is well.",
            (
                (
                    "{{resource}} {{watched_namespace}}",
                    "max by (resource, watched_namespace) (OWN_unserved{OURS})",
                ),
            ),
            width=12,
        ),
        Panel(
            "Objects that cannot be read",
            "They are not what their kind says; the log names them.",
            (
                (
                    "{{resource}}",
                    f"sum by (resource) (max by ({_OPERATOR}, resource) "
                    "(OWN_unreadable_objects{OURS}))",
                ),
            ),
            width=12,
        ),
    ),
    "API server": (
        Panel(
            "Requests by answer",
            "code 0: no answer. 403: the roles are too narrow, or a quota is used up.",
            (("{{method}} {{code}}", _rate("rest_client_requests_total", "method, code")),),
            unit="reqps",
        ),
        Panel(
            "Time to answer, p99",
            "As the operator sees it, network included.",
            (
                (
                    "{{verb}}",
                    _quantile(0.99, "rest_client_request_duration_seconds", "verb"),
                ),
            ),
            unit="s",
        ),
        Panel(
            "Events not posted",
            f"Too many at once, or refused. The {PROJECT.many}' status tells the same.",
            (("{{pod}}", _rate("OWN_events_dropped_total", "pod")),),
            unit="ops",
        ),
    ),
    "Process": (
        Panel(
            "CPU",
            "Seconds of a processor a second.",
            (("{{pod}}", _rate("process_cpu_seconds_total", "pod")),),
        ),
        Panel(
            "Memory",
            "Resident; the container's limit is compared with a little more than that.",
            (("{{pod}}", "sum by (pod) (process_resident_memory_bytes{OURS})"),),
            unit="bytes",
        ),
        Panel(
            "Starts in an hour",
            "More than one: the operator ends by itself, or the kubelet ends it.",
            (("{{pod}}", "sum by (pod) (changes(process_start_time_seconds{OURS}[1h]))"),),
        ),
    ),
}


FILE = values.CHART / "dashboards" / f"{PROJECT.name}.json"

#: What a user selects by, in this order: Grafana's variables, each for the label of its name. The
#: chart's monitors bring `operator`; a Prometheus that serves several clusters brings `cluster`.
_SELECTORS = ("cluster", "namespace", "operator", "pod")
#: The placeholder of the variables' selector in the queries below.
_OURS = ",".join(f'{name}=~"${name}"' for name in _SELECTORS)
#: The pattern of a variable's "All", which also matches samples without the label.
_ALL = ".*"
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}

WIDTH = 24  # columns of Grafana's grid


def queries(*, interval: str, **selected: str) -> list[str]:
    """Return every expression as Grafana sends it, with these labels selected or with "All"."""
    variables = dict.fromkeys(_SELECTORS, _ALL) | selected | {"__rate_interval": interval}
    expressions = []
    for panel in (panel for panels in ROWS.values() for panel in panels):
        for _, expression in panel.queries:
            expression = complete(expression)
            for name, value in variables.items():
                expression = expression.replace(f"${name}", value)
            expressions.append(expression)
    return expressions


def complete(expression: str, selector: str = _OURS) -> str:
    """Return a panel's expression with the selector and the metrics' names filled in."""
    return expression.replace("OURS", selector).replace("OWN_", PROJECT.metrics)


def files() -> dict[Path, str]:
    """Return the dashboard by its path; plain kopf serves no metrics to show."""
    return {FILE: dashboard()} if PROJECT.base == "runtime" else {}


def dashboard() -> str:
    """Return the dashboard in the form that Grafana imports."""
    content = {
        "title": PROJECT.name,
        "description": "Generated by kopf_kit/chart/dashboard.py: do not edit, `kopf-kit generate`",
        "uid": PROJECT.name,
        "tags": [PROJECT.name, "kubernetes"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "",
        "templating": {"list": list(_variables())},
        "panels": list(_panels()),
    }
    # A line for each panel and query: a text of JSON has no bare quotation mark.
    return json.dumps(content, ensure_ascii=False).replace(', {"', ',\n{"') + "\n"


def _variables() -> Iterator[dict[str, Any]]:
    yield {
        "name": "datasource",
        "type": "datasource",
        "query": "prometheus",
        "label": "Data source",
    }
    chosen: list[str] = []
    for name in _SELECTORS:
        source = f"{PROJECT.metrics}build_info{{{','.join(chosen)}}}"
        yield {
            "name": name,
            "label": name.capitalize(),
            "type": "query",
            "datasource": _DATASOURCE,
            "query": {"query": f"label_values({source}, {name})", "refId": name},
            "refresh": 2,
            "multi": True,
            "includeAll": True,
            "allValue": _ALL,
            "current": {"text": ["All"], "value": ["$__all"]},
        }
        chosen.append(f'{name}=~"${name}"')


def _panels() -> Iterator[dict[str, Any]]:
    number, top = 0, 0
    for row, panels in ROWS.items():
        number += 1
        place = {"x": 0, "y": top, "w": WIDTH, "h": 1}
        yield {"id": number, "type": "row", "title": row, "gridPos": place, "panels": []}
        top, left = top + 1, 0
        for panel in panels:
            if left + panel.width > WIDTH:
                top, left = top + panel.height, 0
            number += 1
            place = {"x": left, "y": top, "w": panel.width, "h": panel.height}
            yield _panel(panel, number) | {"gridPos": place}
            left += panel.width
        top += panels[-1].height


def _panel(panel: Panel, number: int) -> dict[str, Any]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": _DATASOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + i),
                "datasource": _DATASOURCE,
                "expr": complete(expression),
                "legendFormat": legend,
                "instant": panel.kind == "stat",
            }
            for i, (legend, expression) in enumerate(panel.queries)
        ],
    }
