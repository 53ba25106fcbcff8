"""The contents of the Grafana dashboard: its rows of panels, and the queries of each.

`kopf_kit.pack.chart_dashboard` generates the dashboard from them.
"""

from dataclasses import dataclass

from kopf_kit.pack.project import PROJECT

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
