"""Holds the parts together: caches, queue, sweep, election, endpoints; starts and stops them.

``handlers`` starts one ``Controller`` and feeds it what kopf watches.
"""

import asyncio
import contextlib
import logging
import signal
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import kopf
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
from message_operator.watches import UnwatchedError, Watches
from message_operator.web import Server

logger = logging.getLogger(__name__)

STUCK = 120.0  # seconds; a reconcile makes at most a few requests, each bounded in time
DEAF = 120.0  # seconds; kopf opens a watch again within a few, or ends the process
RETRY = 5.0  # seconds between two tries of a failed sweep
APART = 1.0  # seconds at least between two sweeps


class HistoryError(Exception):
    """The API server has forgotten what it knew: etcd was restored from a backup.

    If it says so twice, the process ends: all that is cached, here and in kopf, is void.
    """


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
        self._watches = Watches(
            path(namespace)
            for namespace in settings.namespaces or (None,)
            for path in (messages.path, pods.path)
        )
        self._filled = False
        self._contradicted = False  # whether the last list was older than the one before
        self._task: asyncio.Task[None] | None = None
        self._stopped: asyncio.Task[None] | None = None

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

    @property
    def failed(self) -> bool:
        """Whether it has ended by itself."""
        task = self._task
        return task is not None and task.done() and not task.cancelled() and bool(task.exception())

    def login(self, info: kopf.ConnectionInfo) -> kopf.AiohttpSession:
        """Open the session with the API server that kopf is to share."""
        self._watches.prefix = urlsplit(info.server).path.rstrip("/")
        return self.api.login(info, self._watches)

    async def stop(self) -> None:
        """Stop working and release the Lease; may be called again."""
        if self._stopped is None:
            self._stopped = asyncio.create_task(self._stop(), name="stop")
        await asyncio.shield(self._stopped)

    async def _stop(self) -> None:
        if self._task is not None:
            self._task.remove_done_callback(_end_with)
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._task
        await self._server.stop()

    def message_seen(self, raw: dict[str, Any], *, gone: bool) -> None:
        """Take in a Message from the watch."""
        key = self._messages.forget(raw) if gone else self._messages.observe(raw)
        if key is not None:
            self._queue.add(key)

    def pod_seen(self, raw: dict[str, Any], *, gone: bool) -> None:
        """Take in a Pod from the watch: its Message is looked at."""
        key = self._pods.forget(raw) if gone else self._pods.observe(raw)
        message = pods.message_key(key) if key else None
        if message is not None:
            self._queue.add(message)

    def _healthy(self) -> str:
        if self._task is None or self._task.done():
            return "the controller has ended"
        age = self._queue.longest_running()
        if age > STUCK:
            return f"a reconcile has been under way for {age:.0f} s"
        age, path = self._watches.longest_silence()
        # An API server that is away makes no operator ill: a restart would not bring it back.
        if age > DEAF and time.monotonic() - self.api.answered < age - DEAF / 2:
            return f"the watch of {path} has been down for {age:.0f} s"
        return ""

    def _ready(self) -> str:
        if not self._filled:
            return "the caches are not filled yet"
        if not self._watches.complete:
            return "not all is watched: is the CRD installed?"
        return self._healthy()

    async def _run(self) -> None:
        await self._fill()
        logger.info(
            "Ready: %d Messages and %d Pods are there", len(self._messages), len(self._pods)
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(self._sweep_for_ever(), name="sweep")
            group.create_task(self._recorder.run(), name="events")
            if self.settings.leader_elect:
                election = Election(self.api, self.settings)
                self.api.may_write = election.leads
                group.create_task(election.lead(self._queue.run), name="election")
            else:
                metrics.LEADER.set(1)
                group.create_task(self._queue.run(), name="workers")

    async def _fill(self) -> None:
        """Fill the caches once all watches are open: what goes later, an event tells."""
        while not self._filled:
            anew = await self._watches.begun(RETRY)
            if self._watches.complete or not anew:
                self._filled = await self._sweep(anew=True) and self._watches.complete

    async def _sweep_for_ever(self) -> None:
        """Sweep once a period, and after each watch that began anew."""
        wait = self.settings.sweep_period
        while True:
            anew = await self._watches.begun(wait)
            done = await self._sweep(anew=anew)
            wait = self.settings.sweep_period if done and self._watches.complete else RETRY
            await asyncio.sleep(APART)

    async def _sweep(self, *, anew: bool) -> bool:
        """Compare the caches with full lists, repair them, and have every Message reconciled.

        After a watch began anew this tells what is there; else it finds what a watch has missed.
        False if a list could not be had.
        """
        try:
            for namespace in self.settings.namespaces or (None,):
                await self._compare_messages(namespace, anew=anew)
                await self._compare(self._pods, pods.path(namespace), namespace, anew=anew)
        except HistoryError as error:
            if self._contradicted:
                raise
            self._contradicted = True
            logger.warning("The sweep will be tried again: %s", error)
            return False
        except ApiError as error:
            logger.warning("The sweep failed and will be tried again: %s", error)
            return False
        self._contradicted = False
        metrics.LAST_SWEEP.set_to_current_time()
        for message in self._messages:
            self._queue.add(message.key)
        return True

    async def _compare_messages(self, namespace: str | None, *, anew: bool) -> None:
        path = messages.path(namespace)
        try:
            await self._compare(self._messages, path, namespace, anew=anew)
        except ApiError as error:
            if error.status != 404:
                raise
            # No kind, no Messages. Should they be back in a moment, nothing was lost with them:
            # no Pod is ever deleted because its Message is gone.
            self._messages.clear(namespace)
            self._watches.forget(path)
            logger.warning(
                "The API server knows no %s.%s: install the CRD (it comes with the chart)",
                messages.PLURAL, messages.GROUP,
            )  # fmt: skip

    async def _compare(
        self, cache: Cache[R], path: str, namespace: str | None, *, anew: bool
    ) -> None:
        query = {"labelSelector": pods.SELECTOR} if cache is self._pods else {}
        seen: dict[Key, int] = {}
        newest = cache.newest()
        version = repairs = 0
        async for objects, at in self.api.pages(path, query):
            version = at
            for raw in objects:
                repairs += cache.observe(raw) is not None
                meta = raw["metadata"]
                seen[meta["namespace"], meta["name"]] = int(meta["resourceVersion"])
        self._watches.expect(path)
        if version < newest or cache.contradicts(seen, version):
            raise HistoryError(f"the list of {path} is older than what it said before")
        ghosts = cache.prune(seen, version, namespace)
        if not anew:
            metrics.SWEEP_REPAIRS.labels(path.rsplit("/", 1)[1]).inc(repairs + len(ghosts))


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
    if not task.cancelled() and (error := task.exception()) is not None:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, HistoryError | UnwatchedError):
            logger.critical("Ends, to be started afresh: %s", error)
        else:
            logger.critical("The controller failed", exc_info=error)
    signal.raise_signal(signal.SIGTERM)
