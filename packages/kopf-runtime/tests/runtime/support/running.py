"""Runs controllers against `api_server`, as a manager does, without kopf's process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any
from weakref import WeakKeyDictionary

import kopf

from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.credentials import Credentials
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.settings import Settings
from kopf_runtime.process.runtime import Runtime, built
from kopf_runtime.reporting.events import Deps, Recorder
from kopf_runtime.watching.caches import Caches
from runtime.support.api_server import ApiServer
from runtime.support.waiting import beside

#: The operator's name in these tests, which is its field manager and the prefix of its metrics.
NAME = "message-operator"


_RUNTIMES: WeakKeyDictionary[Controller, Runtime] = WeakKeyDictionary()


def at_work(controller: Controller) -> Runtime:
    """Return what was built last from a controller."""
    return _RUNTIMES[controller]


def caches(controller: Controller) -> Caches:
    """Return its caches."""
    return at_work(controller).caches


def build(client: Client, metrics: Metrics, settings: Settings, *controllers: Controller) -> Deps:
    """Build the runtimes of controllers; return what they share."""
    deps = Deps(client, metrics, Recorder(client, "replica-1", metrics), settings)
    _RUNTIMES.update(zip(controllers, built(controllers, deps), strict=True))
    return deps


class Operator:
    """A running operator."""

    def __init__(self, client: Client, metrics: Metrics, runtimes: list[Runtime]):
        self.client, self.metrics, self.runtimes = client, metrics, runtimes

    def metric(self, name: str, **labels: str) -> float:
        """Return a metric's value, or 0 if it has none."""
        return self.metrics.registry.get_sample_value(self.metrics.full(name), labels) or 0.0

    def reconciles(self, *results: str, of: str = "widgets") -> float:
        """Return how many reconciles of a controller have ended, or have ended with these."""
        results = results or ("success", "error", "requeue", "requeue_after")
        name = "controller_runtime_reconcile_total"
        return sum(self.metric(name, controller=of, result=result) for result in results)

    @property
    def synced(self) -> bool:
        """Whether all watched kinds have been listed."""
        return all(
            reflector.synced
            for runtime in self.runtimes
            for source in runtime.caches.sources
            for reflector in source.reflectors.values()
        )


@asynccontextmanager
async def connected(server: ApiServer, metrics: Metrics | None = None) -> AsyncIterator[Client]:
    """Return a client of the server for the block."""
    client = Client(NAME, "1", 5.0, metrics or Metrics(NAME))
    client.may_write = lambda: True
    client.open(Credentials(kopf.ConnectionInfo(server=server.url)))
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def operating(
    server: ApiServer | Client,
    *controllers: Controller,
    settings: Settings | None = None,
    working: bool = True,
) -> AsyncIterator[Operator]:
    """Run controllers during the block; fail if one of their tasks ends by itself.

    Instead of a server, pass a client that is open. Without `working` the operator is a standby: it
    watches, but reconciles nothing.
    """
    settings = settings or Settings()
    metrics = Metrics(NAME)
    connecting = nullcontext(server) if isinstance(server, Client) else connected(server, metrics)
    async with connecting as client:
        deps = build(client, metrics, settings, *controllers)
        runtimes = [*map(at_work, controllers)]
        tasks: list[Any] = [deps.recorder.run()]
        for runtime in runtimes:
            for namespace in settings.namespaces or (None,):
                tasks += runtime.reflect(namespace)
            if working:
                tasks.append(runtime.work())
        try:
            async with beside(_together(tasks)):
                yield Operator(client, metrics, runtimes)
        finally:
            for runtime in runtimes:
                await runtime.close()


def leading(one: Controller) -> AbstractAsyncContextManager[object]:
    """Let a standby lead for the block."""
    return beside(at_work(one).work())


async def _together(tasks: list[Any]) -> None:
    async with asyncio.TaskGroup() as group:
        for task in tasks:
            group.create_task(task)
