"""The measurement of examples/memcached, beside the operator that ends operator-sdk's tutorial.

It returns a flat dict of numbers, as those of `measures` do. Used by `run`.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any

from bench import environment, peers, stage
from bench.api import NAMESPACE, OPERATOR, Api
from bench.environment import Audit
from bench.peers import Peer
from bench.stage import Numbers
from bench.watched import Watched
from kopf_kit.project import documents, nested
from kopf_kit.project.definition import load
from kopf_kit.rig import paths
from kopf_kit.rig.control_plane import GARBAGE, ControlPlane

_EXAMPLES = paths.CHECKOUT / "examples"
MEMCACHEDS = f"/apis/cache.example.com/v1beta1/namespaces/{NAMESPACE}/memcacheds"
_DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
#: Kubernetes' own controllers that it runs with: those that make Pods of Deployments, too.
_CONTROLLERS = (GARBAGE, "deployment-controller", "replicaset-controller")
#: The conditions that say that all is well: the runtime's, and the tutorial's.
_WELL = ("Ready", "Available")


class Progress(Watched):
    """Which objects still lack a Deployment, and which do not say yet that they are well."""

    def __init__(self, names: Iterable[str], path: str) -> None:
        super().__init__({path: self.take, _DEPLOYMENTS: self.take_deployment})
        self.unwell, self.childless = set(names), set(names)
        #: When the last one got its Deployment, and when the last one said that it is well.
        self.last_child = self.last_status = 0.0

    def take(self, _: str, raw: dict[str, Any], now: float) -> None:
        """Apply an event of an object."""
        name, conditions = raw["metadata"]["name"], raw.get("status", {}).get("conditions", ())
        if name in self.unwell and any(
            condition["type"] in _WELL and condition["status"] == "True" for condition in conditions
        ):
            self.unwell.discard(name)
            self.last_status = now

    def take_deployment(self, _: str, raw: dict[str, Any], now: float) -> None:
        """Apply an event of a Deployment."""
        name = raw["metadata"]["name"]
        if name in self.childless and raw["spec"]["replicas"] == 1:
            self.childless.discard(name)
            self.last_child = now


def _crd(example: str) -> Path:
    project = nested.ensure(load(_EXAMPLES / example))
    return project.deploy / "crds.yaml"


async def memcached(peer: Peer, count: int) -> Numbers:
    """Measure a backlog of Memcacheds of one node: time, CPU, memory and writes."""
    names = [f"m{i:05}" for i in range(count)]
    spec = {"replicas": 1}
    async with _progressing("memcached", names, MEMCACHEDS, spec) as (plane, progress):
        audit = Audit(environment.audit_log(plane), OPERATOR)
        async with peers.running(plane, peer, name="memcached") as process:
            done = await progress.until(
                lambda: not progress.unwell and not progress.childless, stage.PATIENCE
            )
            child = None if progress.childless else progress.last_child - process.started
            await stage.quiet(process)
            return {
                "memcached_deployment": child,
                "memcached_status": progress.last_status - process.started if done else None,
                "memcached_cpu": process.cpu(),
                "memcached_rss": process.rss(),
                "memcached_writes": sum(audit.writes().values()) / count,
            }


@contextlib.asynccontextmanager
async def _progressing(
    example: str, names: list[str], path: str, spec: dict[str, Any]
) -> AsyncIterator[tuple[ControlPlane, Progress]]:
    """Run a control plane that has a backlog of an example's objects, which are watched."""
    async with observed(example, names, path, spec) as (plane, api):
        progress = Progress(names, path)
        async with progress.watched(api):
            yield plane, progress


@contextlib.asynccontextmanager
async def observed(
    example: str,
    names: list[str],
    path: str,
    spec: dict[str, Any],
    controllers: Sequence[str] = _CONTROLLERS,
) -> AsyncIterator[tuple[ControlPlane, Api]]:
    """Run a control plane that has an example's kind, and some of its objects."""
    definition = documents.load(await asyncio.to_thread(_crd(example).read_text))
    # Only the version that the operators read: the API server asks nobody to convert.
    served = definition["spec"]["versions"][0] | {"storage": True}
    definition["spec"] |= {"versions": [served], "conversion": None}
    version, kind = f"{definition['spec']['group']}/{served['name']}", definition["spec"]["names"]
    async with (
        environment.running(audited=True, crd=definition, controllers=controllers) as plane,
        Api(plane.server) as api,
    ):
        head = {"apiVersion": version, "kind": kind["kind"], "spec": spec}
        await api.each(
            names, lambda name: api.request("POST", path, {**head, "metadata": {"name": name}})
        )
        yield plane, api
