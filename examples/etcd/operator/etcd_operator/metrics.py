"""What the operator tells Prometheus about each object; the chart's alerts ask for it."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import kopf_runtime as kr

from etcd_operator import backups, clusters
from etcd_operator.cron import Schedule


def condition(owner: kr.Owner, type_: str) -> float | None:
    """Return 1 if a condition is True, 0 if it is False; None while nobody knows."""
    return {"True": 1.0, "False": 0.0}.get(kr.condition(owner.status, type_).get("status", ""))


def moment(fields: Mapping[str, str], name: str) -> float | None:
    """Return the time in a field of a status; None if the field is empty."""
    text = fields.get(name)
    return datetime.fromisoformat(text).timestamp() if text else None


def due(owner: kr.Owner) -> float | None:
    """Return for when the newest backup of a schedule was due, once one was begun."""
    spec: backups.Spec = owner.view
    if spec.schedule is None or spec.suspended or not owner.status.get("run"):
        return None
    if kr.condition(owner.status, "Ready").get("reason") == backups.HIBERNATED:
        return None
    try:
        last = Schedule(spec.schedule, spec.time_zone).before(datetime.now(UTC))
    except ValueError:
        return None
    return last.timestamp() if last is not None else None


Value = Callable[[kr.Owner], float | None]
CLUSTERS: dict[str, tuple[str, Value]] = {
    "members_healthy": ("Healthy voters.", lambda owner: owner.status.get("ready")),
    "members_wanted": ("Members that are wanted.", lambda owner: owner.view.spec.size),
    "available": ("1 while a quorum serves.", lambda owner: condition(owner, "Available")),
    "healthy": ("1 while no member has an alarm.", lambda owner: condition(owner, "Healthy")),
    "certificate_expiration_timestamp_seconds": (
        "When the first of its certificates expires.",
        lambda owner: moment(owner.status, "certificatesExpire"),
    ),
    "certificate_late_timestamp_seconds": (
        "When it is late to renew one of its certificates.",
        lambda owner: moment(owner.status, "certificatesLate"),
    ),
}
BACKUPS: dict[str, tuple[str, Value]] = {
    "backup_failures": (
        "Backups in a row that have failed.",
        lambda owner: owner.status.get("failures", 0),
    ),
    "backup_last_success_timestamp_seconds": (
        "When the newest backup was begun.",
        lambda owner: moment(owner.status.get("last", {}), "time"),
    ),
    "backup_due_timestamp_seconds": ("For when the newest backup was due.", due),
}
for controller, gauges in ((clusters.controller, CLUSTERS), (backups.controller, BACKUPS)):
    for name, (meaning, value) in gauges.items():
        controller.gauge(f"etcd_operator_{name}", meaning, value)
