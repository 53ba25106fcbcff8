"""The measurements of the operators in examples/: Memcacheds and FlightTickets.

Each returns a flat dict of numbers, as those of `measures` do. The Memcached's operator has a peer:
the one in Go that the tutorial of operator-sdk ends with. The FlightTicket's has none; it calls the
booking service of its example. Used by `run`.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from bench import environment, peers, stage
from bench.api import NAMESPACE, OPERATOR, Api
from bench.environment import Audit
from bench.peers import FLIGHTTICKET, Peer
from bench.stage import Numbers
from bench.watched import Watched
from kopf_kit.project import documents, nested
from kopf_kit.project.definition import load
from kopf_kit.rig import paths
from kopf_kit.rig.control_plane import GARBAGE, ControlPlane, end_with_parent
from kopf_kit.rig.run import KitError

_EXAMPLES = paths.CHECKOUT / "examples"
MEMCACHEDS = f"/apis/cache.example.com/v1beta1/namespaces/{NAMESPACE}/memcacheds"
_TICKETS = f"/apis/flights.com/v1/namespaces/{NAMESPACE}/flighttickets"
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


async def flightticket(count: int, rate: float) -> Numbers:
    """Measure a backlog of FlightTickets, at so many calls to the booking service in a second."""
    names = [f"t{i:05}" for i in range(count)]
    spec = {"from": "Seoul", "to": "Busan", "number": 1}
    async with (
        _progressing("flightticket", names, _TICKETS, spec) as (plane, progress),
        _booking_service(plane) as (url, counter, tokens),
    ):
        audit = Audit(environment.audit_log(plane), OPERATOR)
        flags = (
            f"--booking-url={url}",
            f"--booking-token-path={tokens}",
            f"--booking-rate={rate:g}",
        )
        async with peers.running(plane, FLIGHTTICKET, *flags, name="flightticket") as process:
            patience = stage.PATIENCE + 10 * count / rate
            done = await progress.until(lambda: not progress.unwell, patience)
            taken = progress.last_status - process.started
            async with aiohttp.ClientSession() as session:
                calls = await _ask(session, f"{counter}/calls")
                events = await _ask(session, f"{counter}/events")
            booked = [event for event in events if event["event"] == "booked"]
            await stage.quiet(process)
            return {
                "flightticket_status": taken if done else None,
                "flightticket_calls": len(calls) / count,
                "flightticket_rate": len(calls) / taken if done else None,
                "flightticket_bookings": len(booked) / count,
                "flightticket_cpu": process.cpu(),
                "flightticket_rss": process.rss(),
                "flightticket_writes": sum(audit.writes().values()) / count,
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


@contextlib.asynccontextmanager
async def _booking_service(plane: ControlPlane) -> AsyncIterator[tuple[str, str, Path]]:
    """Run the booking service during the block; yield its addresses, and the file of its token.

    The first address is for clients, the second one tells what happened.
    """
    tokens = plane.folder / "tokens"
    tokens.write_text("a-token")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, _EXAMPLES / "flightticket" / "booking" / "server.py"),
        *("--host=127.0.0.1", "--port=0", "--counter-port=0", f"--tokens={tokens}"),
        stdout=asyncio.subprocess.PIPE,
        preexec_fn=end_with_parent,
    )
    assert process.stdout is not None
    try:
        addresses = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().split()
        if not addresses:
            raise KitError("the booking service has ended before it listened")
        url, counter = addresses
        yield url, counter, tokens
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _ask(session: aiohttp.ClientSession, url: str) -> list[dict[str, str]]:
    """Return a list from the booking service, whose answers lack the content type of JSON."""
    async with session.get(url) as answer:
        answer.raise_for_status()
        found: list[dict[str, str]] = await answer.json(content_type=None)
        return found
