"""A Pod for each index below a count, with a limit of Pods at a time; each gets its index."""

import dataclasses
from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta

import kopf_runtime as kr


class Spec(kr.Fields, frozen=True):
    """How many Pods have to succeed, and how many run at a time; the image finds INDEX."""

    image: str = "docker.io/library/busybox:1.37"
    completions: Annotated[int, Meta(ge=1, le=1000)] = 1
    parallelism: Annotated[int, Meta(ge=1, le=100)] = 1


class Status(kr.Fields, frozen=True):
    """Whether all have succeeded; their Pods may go then."""

    done: bool = False


@kr.custom_resource("gallery.example.dev", "v1", "indexedjobs", status=Status)
class IndexedJob(kr.Resource):
    """An IndexedJob runs a Pod for each number."""

    spec: Spec = Spec()


manager = kr.Manager("indexed-job", kr.Settings)
jobs = manager.controller_for(IndexedJob)
jobs.owns(kr.kinds.POD, kr.Pod, transform=lambda pod: pod.status.phase == "Succeeded")


@jobs.desired(stepwise=True)
def desired(job: IndexedJob, context: kr.StepContext[kr.Settings]) -> Iterable[kr.Manifest]:
    """Return the Pods that there are, and as many more as may run."""
    over = {pod.name: pod.view for pod in context.children}
    room = 0 if context.last(Status).done else job.spec.parallelism - [*over.values()].count(False)
    for index in range(job.spec.completions):
        name = f"{job.metadata.name}-{index}"
        if name in over or (room := room - 1) >= 0:
            env = [{"name": "INDEX", "value": str(index)}]
            main = {"name": "main", "image": job.spec.image, "env": env}
            pod = {"restartPolicy": "OnFailure", "containers": [main]}
            yield {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod}


@jobs.status
def status(job: IndexedJob, seen: kr.Observed) -> kr.Status:
    """Return the usual status, and whether the work is done."""
    done = seen.last(Status).done or sum(pod.view for pod in seen.children) >= job.spec.completions
    return dataclasses.replace(kr.default_status(seen), fields=Status(done=done))


if __name__ == "__main__":
    raise SystemExit(manager.run())
