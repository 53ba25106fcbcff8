"""Events: the history of an object that `kubectl describe` shows.

The modules of `reporting` record Events, and a task of `manager` posts them. Recording never waits
and never fails. If the same Event occurs again within ten minutes, the first one's count is raised,
as by client-go's recorder. Each object has a budget of Events for each reason, so that routine does
not use up that of a failure; those beyond it are dropped and counted. Each namespace has a queue of
its own, and posts one Event at a time: a webhook that hangs delays only its own namespaces.
"""

import asyncio
import logging
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from kopf_runtime.cluster.client import MERGE_PATCH, Client
from kopf_runtime.cluster.fence import condition, only_while
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.errors import ApiError
from kopf_runtime.declaring.kinds import Kind
from kopf_runtime.declaring.objects import timestamp
from kopf_runtime.declaring.records import Owner
from kopf_runtime.declaring.settings import Settings
from kopf_runtime.reporting import logs

V = TypeVar("V")

logger = logging.getLogger(__name__)

PENDING = 1000  # Events that wait to be posted, of all namespaces
POSTING = 64  # Events that are posted at once, each of another namespace
REMEMBERED = 1024  # posted Events that a repetition can count up, and objects with a budget
SAME = 600.0  # seconds within which a repetition raises the count
#: Events of an object and a reason at once, and seconds for one more. client-go has 25 and 300 for
#: an object with all its reasons: a rolling change of a few members uses that up.
BURST, REFILL = 25, 60.0
REASONS = 20  # of an object that have a budget of their own; all others share one


class _Event(msgspec.Struct, frozen=True):
    about: dict[str, Any]
    type: str
    reason: str
    message: str
    #: Returns whether it may be posted: the condition of the task that recorded it.
    condition: Callable[[], bool] = msgspec.field(default_factory=condition)
    #: Whether the leader alone may post it.
    fenced: bool = True

    @property
    def identity(self) -> tuple[str, str, str, str]:
        return self.about["uid"], self.type, self.reason, self.message


class _Budget(msgspec.Struct):
    tokens: float
    at: float
    #: Whether it was empty after it was last full.
    told: bool = False


class _Posted(msgspec.Struct):
    path: str
    count: int
    at: float


class Recorder:
    """Queues Events and posts those of a namespace in order."""

    def __init__(self, client: Client, instance: str, metrics: Metrics) -> None:
        self._client = client
        self._metrics = metrics
        self._instance = instance
        #: The Events that wait, by namespace; it stays while one of them is being posted.
        self._waiting: dict[str, deque[_Event]] = {}
        self._pending = 0
        #: The namespaces whose first Event waits for a task that posts it and those that follow.
        self._begun: asyncio.Queue[str] = asyncio.Queue()
        self._turns = asyncio.Semaphore(POSTING)
        self._posted: OrderedDict[tuple[str, str, str, str], _Posted] = OrderedDict()
        self._budgets: OrderedDict[str, dict[str, _Budget]] = OrderedDict()
        self._refusals: set[int] = set()  # the HTTP statuses that were logged

    def normal(self, about: dict[str, Any], reason: str, message: str) -> None:
        """Record an Event about something that went as planned."""
        self._record(_Event(about, "Normal", reason, message[:1024]))

    def warning(self, about: dict[str, Any], reason: str, message: str) -> None:
        """Record an Event about something that may need somebody's attention."""
        self._record(_Event(about, "Warning", reason, message[:1024]))

    def of_replica(self, settings: Settings, reason: str, message: str) -> None:
        """Record a warning about this replica's Pod, which is posted even if it does not lead."""
        pod = {"apiVersion": "v1", "kind": "Pod", "namespace": settings.own_namespace}
        about = {**pod, "name": settings.identity, "uid": settings.pod_uid}
        if settings.pod_uid:
            self._record(_Event(about, "Warning", reason, message[:1024], fenced=False))

    def _record(self, event: _Event) -> None:
        if not self._affordable(event):
            self._metrics.events_dropped.inc()
            return
        namespace = event.about["namespace"]
        if namespace not in self._waiting:
            self._waiting[namespace] = deque()
            self._begun.put_nowait(namespace)
        self._waiting[namespace].append(event)
        self._pending += 1
        if self._pending > PENDING:  # the newest of the namespace with the most is dropped
            max(self._waiting.values(), key=len).pop()
            self._pending -= 1
            self._metrics.events_dropped.inc()

    def _affordable(self, event: _Event) -> bool:
        """Take one token from the budget of an object's reason; return False if it is empty."""
        now, uid = time.monotonic(), event.about["uid"]
        budgets = self._budgets.setdefault(uid, {})
        self._budgets.move_to_end(uid)
        reason = event.reason if event.reason in budgets or len(budgets) < REASONS else ""
        budget = budgets.setdefault(reason, _Budget(float(BURST), now))
        tokens, budget.at = min(BURST, budget.tokens + (now - budget.at) / REFILL), now
        budget.tokens = tokens - 1 if tokens >= 1 else tokens
        _expire(self._budgets, lambda each: all(now - b.at > REFILL * BURST for b in each.values()))
        if tokens < 1 and not budget.told:
            logger.warning("Too many Events of the reason %s: some are dropped", event.reason)
        budget.told = tokens < 1 or (budget.told and tokens < BURST)
        return tokens >= 1

    async def run(self) -> None:
        """Post Events until cancelled; drop those that are refused."""
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._post_all(await self._begun.get()))

    async def _post_all(self, namespace: str) -> None:
        """Post the Events of a namespace; the namespaces take turns if there are too many."""
        waiting = self._waiting[namespace]
        while waiting:
            async with self._turns:
                if waiting:  # else they were dropped meanwhile
                    self._pending -= 1
                    await self._try_to_post(waiting.popleft())
        del self._waiting[namespace]
        self._begun.task_done()

    async def _try_to_post(self, event: _Event) -> None:
        logs.about((event.about["namespace"], event.about["name"]))
        try:
            with only_while(event.condition):
                await self._post(event)
        except Exception as error:  # also of a text that is not valid Unicode
            self._metrics.events_dropped.inc()
            # A namespace that is being deleted takes no Events, and nobody needs to know.
            ending = isinstance(error, ApiError) and "being terminated" in error.message
            refusal = error.status if isinstance(error, ApiError) and not ending else 0
            news = refusal and refusal not in self._refusals
            self._refusals.add(refusal)
            logger.log(logging.WARNING if news else logging.DEBUG, "An Event is dropped: %s", error)

    async def flush(self) -> None:
        """Wait until all recorded Events are posted."""
        await self._begun.join()

    async def _post(self, event: _Event) -> None:
        now = timestamp()
        former = self._posted.pop(event.identity, None)
        if former is not None and time.monotonic() - former.at < SAME:
            former.count += 1
            patch = {"count": former.count, "lastTimestamp": now}
            try:
                await self._client.request(
                    "PATCH",
                    former.path,
                    patch,
                    content_type=MERGE_PATCH,
                    fenced=event.fenced,
                )
            except ApiError as error:
                if error.status != 404:
                    raise
            else:
                self._remember(event, former)
                return
        namespace = event.about["namespace"] or "default"  # as for a Node
        collection = f"/api/v1/namespaces/{namespace}/events"
        # An Event's name: the object's, shortened so that the result is valid, and a unique suffix.
        name = f"{event.about['name'][:230].rstrip('.-')}.{secrets.token_hex(8)}"
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": event.about,
            "type": event.type,
            "reason": event.reason,
            "message": event.message,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": self._client.manager},
            "reportingComponent": self._client.manager,
            "reportingInstance": self._instance,
        }
        await self._client.request("POST", collection, body, fenced=event.fenced)
        self._remember(event, _Posted(f"{collection}/{name}", 1, time.monotonic()))

    def _remember(self, event: _Event, posted: _Posted) -> None:
        self._posted[event.identity] = posted
        now = time.monotonic()
        _expire(self._posted, lambda former: now - former.at > SAME)


class Deps(msgspec.Struct):
    """What the parts of all controllers of a process share."""

    client: Client
    metrics: Metrics
    recorder: Recorder
    #: An author's own class; `manager` replaces them once, by what `adapt` returns.
    settings: Any


def about(kind: Kind, owner: Owner) -> dict[str, Any]:
    """Return the reference to an object for its Events."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "namespace": owner.key[0],
        "name": owner.key[1],
        "uid": owner.uid,
        "resourceVersion": str(owner.version),
    }


def _expire(entries: OrderedDict[Any, V], is_over: Callable[[V], bool]) -> None:
    """Remove expired entries, oldest first, and those beyond the limit."""
    while entries and (len(entries) > REMEMBERED or is_over(next(iter(entries.values())))):
        entries.popitem(last=False)
