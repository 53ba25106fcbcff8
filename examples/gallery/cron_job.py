"""A Job every so many seconds, but never two at once."""

import dataclasses
from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta

import kopf_runtime as kr

KEPT = 3


class Spec(kr.Fields, frozen=True):
    """What runs, and how often."""

    image: str = "docker.io/library/busybox:1.37"
    """The image."""
    command: tuple[str, ...] = ("date",)
    """What it runs."""
    seconds: Annotated[int, Meta(ge=1)] = 60
    """The seconds between two Jobs."""


@kr.custom_resource("gallery.example.dev", "v1", "schedules")
class Schedule(kr.Resource):
    """A Schedule runs a Job again and again, and keeps the last three."""

    spec: Spec = Spec()


manager = kr.Manager("cron-job", kr.Settings)
schedules = manager.controller_for(Schedule)
schedules.owns(kr.kinds.JOB, kr.Job, update=kr.CREATE, transform=lambda job: job.run().ended)


@schedules.desired(stepwise=True)
def desired(plan: Schedule, context: kr.StepContext[kr.Settings]) -> Iterable[kr.Manifest]:
    """Return the last Jobs, and that of now unless one still runs."""
    now = int(context.now) // plan.spec.seconds * plan.spec.seconds
    ended = {job.name: job.view is not None for job in context.children_of(kr.kinds.JOB)}
    due = {f"{plan.metadata.name}-{now}"} if all(ended.values()) else set()
    main = {"name": "main", "image": plan.spec.image, "command": [*plan.spec.command]}
    pod = {"restartPolicy": "Never", "containers": [main]}
    for name in sorted(ended.keys() | due)[-KEPT:]:
        meta = {"name": name}
        spec = {"backoffLimit": 0, "template": {"spec": pod}}
        yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


@schedules.status
def status(plan: Schedule, seen: kr.Observed) -> kr.Status:
    """Return the usual status, and when the next Job is due."""
    pause = plan.spec.seconds - seen.now % plan.spec.seconds
    return dataclasses.replace(kr.default_status(seen), requeue_after=pause)


if __name__ == "__main__":
    raise SystemExit(manager.run())
