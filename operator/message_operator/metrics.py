"""Prometheus metrics, under the names and units that the field uses.

The modules that count import this one; ``web`` serves it. Knows nothing of what is reconciled:
what is particular to it is registered by ``controller``.
"""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from message_operator import __version__

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series a metric, which nobody asks for

REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)
GCCollector(registry=REGISTRY)

PREFIX = "message_operator"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

BUILD_INFO = Gauge(f"{PREFIX}_build_info", "Always 1.", ["version"], registry=REGISTRY)
BUILD_INFO.labels(__version__).set(1)
RECONCILES = Counter(
    f"{PREFIX}_reconciles", "Reconciles, by how they ended.", ["result"], registry=REGISTRY
)
RECONCILE_TIME = Histogram(
    f"{PREFIX}_reconcile_duration_seconds", "How long a reconcile took.",
    buckets=_SECONDS, registry=REGISTRY,
)  # fmt: skip
QUEUE_ADDS = Counter(f"{PREFIX}_queue_adds", "Keys put into the work queue.", registry=REGISTRY)
QUEUE_DEPTH = Gauge(f"{PREFIX}_queue_depth", "Keys that wait in the work queue.", registry=REGISTRY)
QUEUE_LATENCY = Histogram(
    f"{PREFIX}_queue_latency_seconds", "How long a key waited in the work queue.",
    buckets=_SECONDS, registry=REGISTRY,
)  # fmt: skip
API_REQUESTS = Counter(
    f"{PREFIX}_api_requests", "Requests to the API server; code 0: no answer.",
    ["verb", "code"], registry=REGISTRY,
)  # fmt: skip
API_TIME = Histogram(
    f"{PREFIX}_api_request_duration_seconds", "How long the API server took to answer.",
    ["verb"], buckets=_SECONDS, registry=REGISTRY,
)  # fmt: skip
SWEEP_REPAIRS = Counter(
    f"{PREFIX}_sweep_repairs", "Cached objects that a full list showed to be wrong.",
    ["resource"], registry=REGISTRY,
)  # fmt: skip
WATCH_RESTARTS = Counter(
    f"{PREFIX}_watch_restarts", "Watches that were opened again.", ["resource"], registry=REGISTRY
)
EVENTS_DROPPED = Counter(
    f"{PREFIX}_events_dropped", "Events not posted: too many at once, or refused.",
    registry=REGISTRY,
)  # fmt: skip
LAST_SWEEP = Gauge(
    f"{PREFIX}_last_sweep_timestamp_seconds",
    "When all was last compared with full lists, in Unix time; 0: not yet.", registry=REGISTRY,
)  # fmt: skip
LEASE_RENEWED = Gauge(
    f"{PREFIX}_lease_renewed_timestamp_seconds",
    "When this replica last got or renewed the Lease, in Unix time; 0: never.", registry=REGISTRY,
)  # fmt: skip
LEASE_FAILURES = Counter(
    f"{PREFIX}_lease_failures", "Tries for the Lease that had no answer, or were refused.",
    registry=REGISTRY,
)  # fmt: skip
LEADER = Gauge(f"{PREFIX}_leader", "1 while this replica leads.", registry=REGISTRY)
