"""Keeps a cache in step with the API server: lists page by page, watches, and lists again.

There is one reflector per kind and namespace, and each is its own failure domain: if its namespace
was deleted or its rights are missing, it retries with backoff and holds up no other reflector.
`source` stores what it receives; `process.runtime` runs it.
"""

import asyncio
import contextlib
import gc
import logging
import random
import time
from collections.abc import Callable
from urllib.parse import urlencode

import msgspec

from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.errors import ApiError, Backoff
from kopf_runtime.declaring.kinds import Key
from kopf_runtime.declaring.objects import Bookmark, Event, Failure, number, parse
from kopf_runtime.watching.availability import Availability, Failures, State
from kopf_runtime.watching.listing import LOST, Lister, Sink

logger = logging.getLogger(__name__)

#: Range of a watch's duration in seconds; then the server ends it, and the next one follows.
WATCH = (240.0, 300.0)
#: After a watch that lasted no more than these seconds, the next one follows only after a pause.
SHORT = 1.0
#: Seconds after which a failure is independent of the one before, so the backoff starts again.
LONG = 30.0
#: Periods between two resyncs of a standby: it writes nothing, and once it leads, it resyncs within
#: one and deletes nothing before it has asked the API server.
RARELY = 12
#: Objects of a list that are stored before other tasks have their turn.
TURN = 100


class HistoryError(Exception):
    """The API server's version is lower than before: etcd was restored, or the answer is stale."""


class Scope(msgspec.Struct, frozen=True):
    """What a reflector lists and watches."""

    path: str
    #: The name of the kind in metrics.
    resource: str
    #: None: all namespaces.
    namespace: str | None = None
    #: A label selector.
    selector: str = ""
    #: Whether the API server need not know the kind.
    optional: bool = False


class Reflector:
    """Lists and watches one path of the API server."""

    def __init__(
        self,
        client: Client,
        metrics: Metrics,
        sink: Sink,
        scope: Scope,
        resync_period: float,
        changed: Callable[[bool], object],
        stands_by: Callable[[], bool],
    ) -> None:
        self._client, self._metrics, self._sink = client, metrics, sink
        self.path, self._resource, self._namespace = scope.path, scope.resource, scope.namespace
        self._lister = Lister(client, scope.path, scope.selector)
        self._resync_period, self._changed, self._stands_by = resync_period, changed, stands_by
        self._position = 0  # the resource version up to which the cache is complete
        self._latest = 0  # that of the last list, which a resync leaves ahead of the watch
        self._listed = False  # whether the next watch follows a full list
        self._deleted: dict[Key, int] | None = None  # what events delete while a list lasts
        self._unconfirmed: set[Key] = set()  # deleted objects for which no event has arrived yet
        #: What is known of its objects. `changed` is called with False once that is another, and
        #: with True after each further full list.
        self.availability = Availability()
        self._failures = Failures()
        self._optional = scope.optional
        self._known = False  # whether it has ever been there
        self.listed_at = 0.0  # when the last full list was complete, in Unix time
        self._resync_at = 0.0  # when the next resync is due, by `time.monotonic`
        self._again = asyncio.Event()  # set when it is to be listed again
        #: Set once the first attempt has ended.
        self.tried = asyncio.Event()

    async def run(self, begin: asyncio.Event | None = None) -> None:
        """List and watch until cancelled; begin when the event is set."""
        if begin is not None:
            await begin.wait()
        backoff, stale = Backoff(), False
        while True:
            began, after = time.monotonic(), 0.0
            try:
                if not self.synced:
                    await self._list()
                    stale = False
                elif time.monotonic() > self._resync_at:  # interrupted each time, as watches fail
                    self._put_off_resync()
                    await self._list(resync=True)
                await self._follow()
            except HistoryError as error:
                logger.warning("%s; listing again", error)
                if stale:  # twice in a row, so this is the new history
                    self._sink.reset(self._namespace)
                    self._position = self._latest = 0
                stale = not stale
                self._lose_track()
                backoff.reset()
            except ApiError as error:
                after = error.after
                self._failed(error)
            if time.monotonic() - began > LONG:
                backoff.reset()
            pause = min(backoff.next(), self._failures.left(time.monotonic()) + 0.01)
            await asyncio.sleep(max(after, pause))

    def list_again(self) -> None:
        """List the path again, and do not count as synced until then."""
        self._lose_track()
        self._again.set()

    @property
    def synced(self) -> bool:
        """Whether a full list has filled the cache since the path was last lost."""
        return self.availability.state is State.SYNCED

    def _lose_track(self) -> None:
        if self.synced:
            self.availability = Availability(State.RELISTING)

    def _become(self, new: Availability, *, listed: bool = False) -> None:
        """Take the new availability, and tell if that matters, or a full list has ended."""
        former, self.availability = self.availability, new
        waited = new.is_waited_for
        self._metrics.set_unserved(self._resource, self._namespace or "", self, waited=waited)
        turned = (former.state, former.status) != (new.state, new.status)
        if turned or listed:
            self._changed(not turned)

    def _well(self) -> None:
        """Note that a request has succeeded."""
        self.tried.set()
        self._known, self._failures = True, Failures()

    def _failed(self, error: ApiError) -> None:
        self.tried.set()
        if error.status == 410 and self.synced:  # the version is too old to watch from
            self._lose_track()
            return
        now, former = time.monotonic(), self.availability
        self._failures = self._failures.then(error.status, now)
        state = self._failures.state(
            now, synced=self.synced, optional=self._optional, known=self._known
        )
        if state is State.SYNCED:
            if error.status in LOST:
                self._resync_at = 0.0  # rights or a kind may have been away, and watches with them
            logger.info("The watch of %s is opened again: %s", self.path, error)
            return
        why = {
            404: "the API server does not know it; install its CRD",
            403: f"the operator has no right to it: {error.message}",
        }.get(error.status, str(error))
        if (former.why, former.state is State.ABSENT) != (why, state is State.ABSENT):
            level = logging.INFO if state is State.ABSENT else logging.WARNING
            logger.log(level, "%s cannot be served: %s", self.path, why)
        if state in (State.UNKNOWN, State.ABSENT) and state is not former.state:
            self._sink.reset(self._namespace)
        self._become(Availability(state, why, error.status))

    # --- lists --------------------------------------------------------------------------------

    async def _list(self, *, resync: bool = False) -> None:
        """Store all objects, page by page."""
        before, version = self._position, 0  # what was seen before, and the list's own
        newest = self._newest
        listed: dict[Key, int] = {}
        asked = time.monotonic()
        repairs = 0
        deleted: dict[Key, int] = {}
        self._deleted = deleted
        if not resync:
            self._again.clear()
        try:
            async with contextlib.aclosing(self._lister.pages()) as pages:
                async for page, at in pages:
                    self._check_history(at, newest)
                    version = version or at
                    for index, raw in enumerate(page.items or ()):
                        if not index % TURN:
                            await asyncio.sleep(0)  # leaves time for other tasks
                        if (taken := self._sink.take(raw, version, asked)) is not None:
                            key, at, news = taken
                            listed[key] = at
                            repairs += news and at <= before
                    if not before:
                        # What the first list brings is no garbage: to look for it there took longer
                        # with each page, and seconds in total with 100,000 objects.
                        gc.freeze()
        finally:
            self._deleted = None
        for key, at in deleted.items():  # a page may have brought back what was gone by then
            if version < at and listed.get(key, at + 1) <= at:
                del listed[key]
        ghosts = set(self._sink.replace(listed, version, self._namespace)) - deleted.keys()
        if resync:
            # The event of a recent deletion may still be on its way: a deletion was missed only if
            # no event has arrived by the next resync.
            missed = repairs + len(self._unconfirmed)
            self._metrics.resync_repairs.labels(self._resource).inc(missed)
            self._unconfirmed = ghosts
        else:
            self._position, self._listed = version, True
        self._latest = version
        self._complete()

    def _complete(self) -> None:
        """Note that a full list has ended."""
        self.listed_at = time.time()
        self._put_off_resync()
        if self.availability.why:
            logger.info("%s is served again", self.path)
        self._well()
        again = self._again.is_set()
        self._become(Availability(State.RELISTING if again else State.SYNCED), listed=True)

    @property
    def _newest(self) -> int:
        return max(self._position, self._latest)

    def _check_history(self, version: int, before: int) -> None:
        """Raise `HistoryError` if etcd was restored: a watch from a future version stays silent."""
        if version < before:
            raise HistoryError(f"{self.path} is at {version}, and was at {before} before")

    def _put_off_resync(self, at_least: float = 0.0) -> None:
        period = self._resync_period * random.uniform(0.9, 1.0)  # noqa: S311
        self._resync_at = time.monotonic() + max(period, at_least)

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(self._resync_at - time.monotonic())
            if self._stands_by() and time.time() - self.listed_at < RARELY * self._resync_period:
                self._resync_at = time.monotonic() + self._resync_period / 2  # it may lead by then
                continue
            try:
                await self._list(resync=True)
            except ApiError as error:
                if error.status in LOST:
                    raise
                self._put_off_resync(error.after)
                logger.warning("The resync of %s failed: %s", self.path, error)

    # --- watches ------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Watch until an error occurs or it is to be listed again; regularly compare the cache."""
        # No TaskGroup: before Python 3.13 it loses its cancellation if a task fails at the same
        # moment, and the reflector would continue forever while the operator waits for its end.
        coroutines = self._resync(), self._watch_on(), self._again.wait()
        tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch_on(self) -> None:
        backoff = Backoff()
        while True:
            if not self._listed:
                before = self._newest
                self._check_history(await self._lister.version(), before)
                self._metrics.watch_restarts.labels(self._resource).inc()
            self._listed = False
            began = time.monotonic()
            await self._watch()
            if time.monotonic() - began > SHORT:
                backoff.reset()
            else:
                await asyncio.sleep(backoff.next())

    async def _watch(self) -> None:
        if self._position < self._latest:  # older events would bring back what was gone by then
            self._position = self._latest
            self._unconfirmed.clear()
        query = {
            **self._lister.query,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": str(self._position),
            "timeoutSeconds": str(int(random.uniform(*WATCH))),  # noqa: S311
        }
        async with contextlib.aclosing(self._client.lines(self.path, urlencode(query))) as lines:
            async for line in lines:
                self._event(line)
                self._well()

    def _event(self, line: bytes) -> None:
        try:
            event = parse(_EVENT, line)
            if event.type == "BOOKMARK":
                self._position = number(_BOOKMARK.decode(event.object).metadata.resource_version)
                return
            if event.type == "ERROR":
                failure = _FAILURE.decode(event.object)
                raise ApiError("GET", self.path, failure.code, failure.reason, failure.message)
        except (msgspec.MsgspecError, ValueError) as error:
            raise ApiError("GET", self.path, 0, "BadAnswer", str(error)) from error
        if event.type == "DELETED":
            gone = self._sink.gone(event.object)
            if gone is not None:
                self._unconfirmed.discard(gone[0])
                if self._deleted is not None:
                    self._deleted[gone[0]] = gone[1]
                self._position = max(self._position, gone[1])
        elif (taken := self._sink.take(event.object)) is not None:
            self._position = max(self._position, taken[1])


_EVENT = msgspec.json.Decoder(Event)
_BOOKMARK = msgspec.json.Decoder(Bookmark)
_FAILURE = msgspec.json.Decoder(Failure)
