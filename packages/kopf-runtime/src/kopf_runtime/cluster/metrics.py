"""Prometheus metrics, with the names and units that controller-runtime and client-go use.

`Manager` creates one `Metrics` for the process and passes it to the other parts; `web` serves it.
"""

import asyncio
import functools
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from kopf_runtime.declaring.kinds import Key, Kind

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second, unused series a metric

#: How names begin that all operators share, as in controller-runtime and client-go.
_SHARED = ("controller_runtime_", "workqueue_", "rest_client_")
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
#: Objects of a gauge that are shown before other tasks have their turn.
_TURN = 500
#: Seconds for which another installation counts that was seen, and the most that count.
RECENT, MOST_OTHERS = 600.0, 10


class _Only(Collector):
    """A single metric."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterator[Metric]:
        yield self._family


class _OfObjects(Collector):
    """A gauge with a value for each object, computed at each scrape.

    It comes in parts, each like a metric of its own: there may be 100,000 objects.
    """

    def __init__(
        self, name: str, meaning: str, values: Callable[[], Iterable[tuple[Key, float]]]
    ) -> None:
        self._family = functools.partial(
            GaugeMetricFamily, name, meaning, labels=("namespace", "name")
        )
        self._values = values

    def describe(self) -> Iterator[GaugeMetricFamily]:
        yield self._family()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        values = iter(self._values())
        while part := list(islice(values, _TURN)):
            family = self._family()
            for key, value in part:
                family.add_metric(key, value)
            yield family


class Metrics:
    """The metrics of an operator; its name precedes those that the field has no name for."""

    def __init__(self, name: str, version: str = "") -> None:
        self.prefix = name.replace("-", "_")
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self._gauge("build_info", "Always 1.", "version").labels(version).set(1)
        self._unserved: dict[tuple[str, str], set[int]] = {}
        self._groups: dict[str, str] = {}
        self._others: dict[str, float] = {}
        self._unreadable: dict[str, list[Callable[[], int]]] = {}
        self._add_those_of_work()
        self._add_those_of_watches()
        self._add_those_of_writes()
        self._add_those_of_the_lease()

    def _add_those_of_work(self) -> None:
        self.reconciles = self._counter(
            "controller_runtime_reconcile",
            "Reconciles, by kind and by how they ended.",
            "controller",
            "result",
        )
        self.reconcile_errors = self._counter(
            "controller_runtime_reconcile_errors",
            "Reconciles that ended in an unexpected error.",
            "controller",
        )
        self.reconcile_time = self.histogram(
            "controller_runtime_reconcile_time_seconds", "How long a reconcile took.", "controller"
        )
        self.queue_adds = self._counter("workqueue_adds", "Keys put into the work queue.", "name")
        self.queue_depth = self._gauge(
            "workqueue_depth", "Keys that wait in the work queue.", "name"
        )
        self.queue_time = self.histogram(
            "workqueue_queue_duration_seconds", "How long a key waited in the work queue.", "name"
        )
        self.work_time = self.histogram(
            "workqueue_work_duration_seconds",
            "How long a key from the work queue was worked on.",
            "name",
        )
        self.retries = self._counter(
            "workqueue_retries", "Keys put into the work queue again after a failure.", "name"
        )
        self.api_requests = self._counter(
            "rest_client_requests",
            "Requests to the API server; code 0: no answer.",
            "method",
            "code",
        )
        self.api_time = self.histogram(
            "rest_client_request_duration_seconds",
            "How long the API server took to answer.",
            "verb",
        )

    def _add_those_of_watches(self) -> None:
        self.resync_repairs = self._counter(
            "resync_repairs", "Cached objects that a full list showed to be wrong.", "resource"
        )
        self.watch_restarts = self._counter(
            "watch_restarts", "Watches that were opened again.", "resource"
        )
        self.unserved = self._gauge(
            "unserved",
            "1 while a resource cannot be listed and watched; an empty namespace: everywhere.",
            "resource",
            "watched_namespace",  # Prometheus itself sets `namespace` to the operator's own
        )
        self.unreadable = self._gauge(
            "unreadable_objects", "Objects left out because they cannot be read.", "resource"
        )

    def _add_those_of_writes(self) -> None:
        self.migrated = self._counter(
            "storage_migrator_migrated_objects",
            "Objects that were rewritten in the version that is stored now.",
            "resource",
        )
        self.remaining = self._gauge(
            "storage_migrator_remaining_objects",
            "Objects that this replica, which leads, still has to rewrite.",
            "resource",
        )
        self.events_dropped = self._counter(
            "events_dropped", "Events not posted: too many at once, or refused."
        )
        self.statuses_refused = self._counter(
            "status_writes_refused", "Writes of a status that the API server refused.", "resource"
        )
        self.unready = self._gauge(
            "unready_objects", "Objects of a kind of others that are not ready.", "resource"
        )
        self.last_resync = self._gauge(
            "last_resync_timestamp_seconds",
            "Since when all that is served was compared with full lists, in Unix time; 0: not yet.",
        )

    def _add_those_of_the_lease(self) -> None:
        self.lease_renewed = self._gauge(
            "lease_renewed_timestamp_seconds",
            "When this replica last got or renewed the Lease, in Unix time; 0: never.",
        )
        self.lease_failures = self._counter(
            "lease_failures", "Attempts at the Lease that failed or were refused."
        )
        self.lease_refused = self._gauge(
            "lease_refused", "1 while the API server refuses the Lease to this replica."
        )
        self.leader = self._gauge("leader", "1 while this replica leads.")
        others = "Other installations that changed the same objects in the last ten minutes."
        self._gauge("other_installations", others).set_function(self._count_others)

    def saw_other(self, installation: str, now: float) -> bool:
        """Note that another installation is at work; return whether that is news."""
        recent = {name for name, at in self._others.items() if now - at < RECENT}
        if len(recent) < MOST_OTHERS or installation in recent:  # anybody may write such a name
            self._others = {name: self._others[name] for name in recent} | {installation: now}
        return installation not in recent and len(recent) < MOST_OTHERS

    def _count_others(self) -> int:
        return sum(time.monotonic() - at < RECENT for at in self._others.values())

    def set_unserved(self, resource: str, namespace: str, who: object, *, waited: bool) -> None:
        """Set whether one of those that list a resource cannot; several may list the same."""
        those = self._unserved.setdefault((resource, namespace), set())
        (those.add if waited else those.discard)(id(who))
        self.unserved.labels(resource, namespace).set(bool(those))

    def name_of(self, kind: Kind) -> str:
        """Return the label value of a kind: its plural, as long as no other kind has that.

        The plural stays that of the kind that was declared first; another group's is written out.
        """
        first = self._groups.setdefault(kind.plural, kind.group)
        return kind.plural if first == kind.group else str(kind)

    def count_unreadable(self, resource: str, count: Callable[[], int]) -> None:
        """Add a count of unreadable objects: several controllers may own one kind."""
        counts = self._unreadable.setdefault(resource, [])
        counts.append(count)
        self.unreadable.labels(resource).set_function(lambda: sum(count() for count in counts))

    def counter(self, name: str, text: str, *labels: str) -> Counter:
        """Return a new counter of an author's, which has this very name, and `_total`.

        `text` is its help line, `labels` the names of its labels. Raise `ValueError` if the name is
        taken or is no name of Prometheus'.

        >>> metrics = kr.Manager("greeter", kr.Settings).metrics
        >>> greeted = metrics.counter("greeted", "Greetings sent.")
        >>> greeted.inc()
        """
        return Counter(name, text, labels, registry=self.registry)

    def gauge(self, name: str, text: str, *labels: str) -> Gauge:
        """Return a new gauge, as `counter` returns a counter."""
        return Gauge(name, text, labels, registry=self.registry)

    def histogram(self, name: str, text: str, *labels: str) -> Histogram:
        """Return a new histogram of durations in seconds; its buckets go from 1 ms to 10 s."""
        return Histogram(name, text, labels, buckets=_SECONDS, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return self.counter(self.full(name), text, *labels)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return self.gauge(self.full(name), text, *labels)

    def of_objects(
        self, name: str, meaning: str, values: Callable[[], Iterable[tuple[Key, float]]]
    ) -> None:
        """Add a gauge by objects; raise `ValueError` if another metric has its name."""
        self.registry.register(_OfObjects(name, meaning, values))

    async def text(self) -> bytes:
        """Return all metrics as text, and leave time for other tasks."""
        parts, former = list[bytes](), ""
        for family in self.registry.collect():
            text = generate_latest(_Only(family))
            # The lines that begin a metric, HELP and TYPE, come once.
            parts.append(text.split(b"\n", 2)[2] if family.name == former else text)
            former = family.name
            await asyncio.sleep(0)
        return b"".join(parts)

    def full(self, name: str) -> str:
        """Return the full name of a metric that every operator has."""
        return name if name.startswith(_SHARED) else f"{self.prefix}_{name}"
