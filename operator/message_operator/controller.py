"""Holds the parts together: caches, queue, sweep, election, endpoints; starts and stops them.

``handlers`` starts one ``Controller`` and feeds it what kopf watches.
"""

import asyncio
import contextlib
import logging
import signal
from collections import Counter
from collections.abc import Iterator
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from message_operator import messages, metrics, pods
from message_operator.cache import Cache, Key, R
from message_operator.events import Recorder
from message_operator.kube import Api, ApiError
from message_operator.lease import Election
from message_operator.messages import Message
from message_operator.pods import Pod
from message_operator.queue import WorkQueue
from message_operator.reconcile import Reconciler
from message_operator.settings import Settings
from message_operator.web import Server

logger = logging.getLogger(__name__)

STUCK = 120.0  # seconds; a reconcile makes at most a few requests, each bounded in time
RETRY = 5.0  # seconds between two tries of a failed sweep


class Controller:
    """The operator but for the watching."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.api = Api(settings.request_timeout)
        self._messages: Cache[Message] = Cache(messages.record)
        self._pods: Cache[Pod] = Cache(pods.record)
        self._recorder = Recorder(self.api, settings.identity)
        reconciler = Reconciler(self.api, settings, self._messages, self._pods, self._recorder)
        self._queue = WorkQueue(reconciler.reconcile, settings.workers)
        self._server = Server()
        self._filled = False
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Serve the endpoints, and begin to work once kopf has logged in."""
        settings = self.settings
        metrics.QUEUE_DEPTH.set_function(lambda: len(self._queue))
        metrics.REGISTRY.register(_Phases(self._messages))
        await self._server.start(
            settings.metrics_bind_address,
            settings.health_probe_bind_address,
            self._healthy,
            self._ready,
        )
        self._task = asyncio.create_task(self._run(), name="controller")
        self._task.add_done_callback(_end_with)

    async def stop(self) -> None:
        """Stop working, release the Lease, post the last Events."""
        if self._task is not None:
            self._task.remove_done_callback(_end_with)
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._task
        await self._server.stop()

    def message_seen(self, raw: dict[str, Any], *, gone: bool) -> None:
        """Take in a Message from the watch."""
        if gone:
            key = self._messages.forget(raw)
        else:
            record = self._messages.observe(raw)
            key = record.key if record else None
        if key is not None:
            self._queue.add(key)

    def pod_seen(self, raw: dict[str, Any], *, gone: bool) -> None:
        """Take in a Pod from the watch: its Message is looked at."""
        if gone:
            key = self._pods.forget(raw)
        else:
            record = self._pods.observe(raw)
            key = record.key if record else None
        message = pods.message_key(key) if key else None
        if message is not None:
            self._queue.add(message)

    def _healthy(self) -> str:
        if self._task is None or self._task.done():
            return "the controller has ended"
        age = self._queue.longest_running()
        return f"a reconcile has been under way for {age:.0f} s" if age > STUCK else ""

    def _ready(self) -> str:
        return self._healthy() or ("" if self._filled else "the caches are not filled yet")

    async def _run(self) -> None:
        await self.api.connected.wait()
        while not self._filled:
            watched = await self._watched()
            self._filled = await self._sweep() and watched
            if watched and not self._filled:
                await asyncio.sleep(RETRY)
        logger.info(
            "Ready: %d Messages and %d Pods are there", len(self._messages), len(self._pods)
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(self._sweep_for_ever(), name="sweep")
            group.create_task(self._recorder.run(), name="events")
            if self.settings.leader_elect:
                election = Election(self.api, self.settings)
                group.create_task(election.lead(self._queue.run), name="election")
            else:
                metrics.LEADER.set(1)
                group.create_task(self._queue.run(), name="workers")

    async def _watched(self) -> bool:
        """Wait, but not for ever, until kopf watches everything; tells whether it does.

        kopf lists by itself before it watches. What was deleted between our list and a later one
        of kopf's, nobody would tell us of.
        """
        namespaces = self.settings.namespaces or (None,)
        paths = {kind.path(namespace) for kind in (messages, pods) for namespace in namespaces}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RETRY):
                while not paths <= self.api.watched:
                    self.api.watch_begun.clear()
                    await self.api.watch_begun.wait()
        return paths <= self.api.watched

    async def _sweep_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self.settings.sweep_period)
            await self._sweep()

    async def _sweep(self) -> bool:
        """Compare the caches with full lists, repair them, and have every Message reconciled.

        This is what finds all that a watch may miss. False if a list could not be had.
        """
        try:
            for namespace in self.settings.namespaces or (None,):
                await self._compare(self._messages, messages.path(namespace), namespace, {})
                selector = {"labelSelector": pods.SELECTOR}
                await self._compare(self._pods, pods.path(namespace), namespace, selector)
        except ApiError as error:
            if error.status == 404:
                logger.warning(
                    "The API server knows no %s.%s: install the CRD (it comes with the chart)",
                    messages.PLURAL, messages.GROUP,
                )  # fmt: skip
            else:
                logger.warning("The sweep failed and will be tried again: %s", error)
            return False
        for message in self._messages:
            self._queue.add(message.key)
        return True

    async def _compare(
        self, cache: Cache[R], path: str, namespace: str | None, query: dict[str, str]
    ) -> None:
        seen: set[Key] = set()
        version = repairs = 0
        async for objects, at in self.api.pages(path, query):
            version = at
            for raw in objects:
                repairs += cache.observe(raw) is not None
                seen.add((raw["metadata"]["namespace"], raw["metadata"]["name"]))
        ghosts = cache.prune(seen, version, namespace)
        if self._filled:
            metrics.SWEEP_REPAIRS.labels(path.rsplit("/", 1)[1]).inc(repairs + len(ghosts))
            for key in ghosts:
                message = pods.message_key(key)
                if cache is self._pods and message:
                    self._queue.add(message)


class _Phases(Collector):
    """Counts the Messages by phase when somebody asks."""

    def __init__(self, known: Cache[Message]) -> None:
        self._messages = known

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            f"{metrics.PREFIX}_messages", "Messages, by phase.", labels=["phase"]
        )
        phases = Counter(message.status.get("phase") or "Pending" for message in self._messages)
        for phase in ("Pending", "Processed", "Failed"):
            family.add_metric([phase], phases[phase])
        yield family


def _end_with(task: asyncio.Task[None]) -> None:
    """End the process if the controller ends by itself: its supervisor starts it afresh."""
    if not task.cancelled() and task.exception() is not None:
        logger.critical("The controller failed", exc_info=task.exception())
    signal.raise_signal(signal.SIGTERM)
