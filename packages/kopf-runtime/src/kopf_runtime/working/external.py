"""Calls external APIs: an author's `sync` before the plan, `finalize` before an object is deleted.

`reconcile` uses `External` for each object. The calls share a session of their own, which has no
credentials of the cluster. Each call has a timeout, and a failed one is retried with backoff, no
matter what queues the object meanwhile. Nothing external may be left behind, so if there is a
`finalize`, an object gets a finalizer before anything else is done for it.
"""

import asyncio
import logging
import random
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kopf_runtime.cluster import tracing
from kopf_runtime.cluster.failures import describe_error
from kopf_runtime.declaring.calls import Call
from kopf_runtime.declaring.conditions import difference, merged, stated
from kopf_runtime.declaring.context import CallContext, Unread
from kopf_runtime.declaring.controller_declaration import Declaration
from kopf_runtime.declaring.errors import UNSEEN, ApiError, Backoff, RetryError, Wait
from kopf_runtime.declaring.kinds import Key, Kind
from kopf_runtime.declaring.objects import Resource
from kopf_runtime.declaring.records import Owner, Result
from kopf_runtime.reporting.events import Deps, about
from kopf_runtime.reporting.troubles import (
    Outcome,
    StepError,
    author_waits,
    changed,
    finalizer_refused,
    of,
    outside_failed,
)
from kopf_runtime.watching.caches import Caches
from kopf_runtime.watching.observer import Observer
from kopf_runtime.working.ending import ending
from kopf_runtime.working.fields import RECORD
from kopf_runtime.working.queue import WorkQueue
from kopf_runtime.working.templates import Marks

logger = logging.getLogger(__name__)

#: Seconds of the first and of the longest pause after a failed call.
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 300.0
#: Attempts to change the finalizers of an object, or to record something, while others write to it.
#: With one, each of their writes would have `finalize` called again.
ATTEMPTS = 5
_REASON = re.compile("[A-Z][A-Za-z0-9]{0,127}")
#: Seconds between two calls because of a child's change.
SOONEST = 1.0
#: The names of the calls' spans, by the field of an owner that has their results.
_SPANS = {"sync_result": "sync", "check_result": "check", "": "finalize"}


class _Failed(Struct, frozen=True):
    """A failed call for an object, which waits for its retry."""

    uid: str
    #: The generation that has to wait; None if every generation has to.
    generation: int | None
    #: The backoff of its retries; None if nothing failed, and the author waits.
    backoff: Backoff | None
    at: float
    until: float
    #: Returns the outcome to report, given the seconds that remain.
    stop: Callable[[float], Outcome]


class _StaleError(RetryError):
    """Somebody else changed the object, so nothing was recorded."""


class External:
    """Calls external APIs for the objects of one kind."""

    def __init__(
        self,
        deps: Deps,
        declaration: Declaration,
        caches: Caches,
        observer: Observer,
        queue: WorkQueue,
        marks: Marks,
    ) -> None:
        self._deps, self._client, self._events = deps, deps.client, deps.recorder
        self._declaration, self.finalize = declaration, declaration.finalize
        self._owners, self._observer, self._queue = caches.owners, observer, queue
        self._finalizer, self._served = marks.finalizer, marks.served
        # The calls by the field of an owner that has their results.
        calls = {"sync_result": declaration.sync, "check_result": declaration.check}
        self.calls = {field: call for field, call in calls.items() if call is not None}
        self._failed: dict[tuple[Key, str], _Failed] = {}
        self._news: set[tuple[Key, str]] = set()
        self._stale: Counter[tuple[Key, str]] = Counter()  # calls in a row that recorded nothing
        self._session: Any = None  # aiohttp's, once it is used
        self._refused = ""  # why no session can be made

    async def close(self) -> None:
        """Close the session."""
        if self._session is not None:
            await self._session.close()

    def forget(self, key: Key) -> None:
        """Forget an object that is gone."""
        for call in filter(None, (*self.calls.values(), self.finalize)):
            self._failed.pop((key, call.reason), None)
            self._news.discard((key, call.reason))
            self._stale.pop((key, call.reason), None)

    def invalidate(self, namespace: str | None = None) -> None:
        """Forget the results of a namespace, or all if it is None: others may have changed them."""
        for owner in list(self._owners.cache.within(namespace)):
            self.forget(owner.key)
            if owner.sync_result is not None or owner.check_result is not None:
                fresh = replace(owner, sync_result=None, check_result=None, wanted=(), problem="")
                self._owners.cache.put(fresh)

    def outdate(self, key: Key, kind: Kind | None) -> None:
        """Call the functions again that depend on a kind, because an object of it has changed.

        `kind` is None for an object that they read, on which all of them depend.
        """
        for call in self.calls.values():
            # Anybody may make an object that names an owner which does not exist.
            if kind not in (None, *call.on) or self._owners.cache.get(key) is None:
                continue
            self._news.add(at := (key, call.reason))
            failed = self._failed.get(at)
            # What was read may have been what failed, unless an external API said when to retry.
            read = kind is None and failed is not None and failed.generation is not None
            if failed is not None and (failed.backoff is None or read):
                until = min(failed.until, failed.at + SOONEST)
                self._failed[at] = replace(failed, until=until)

    def may_plan(self, owner: Owner) -> bool:
        """Return whether what the plan needs is known."""
        return "sync_result" not in self.calls or owner.sync_result is not None

    def unchecked(self, owner: Owner) -> bool:
        """Return whether there is a `check` whose result for an object is not known."""
        return "check_result" in self.calls and owner.check_result is None

    def not_checked_yet(self, owner: Owner) -> None:
        """Record that `check` cannot have returned anything so far; it is still to be called."""
        self._owners.cache.put(replace(owner, check_result=Result(None, 0.0, 0.0)))

    def recheck(self, key: Key) -> None:
        """Call `check` again, because a child has been made that it may not have seen."""
        if call := self.calls.get("check_result"):
            self._news.add((key, call.reason))

    def due(self, key: Key, since: float = 0.0) -> float | None:
        """Return the seconds until the next call for an object, or None if none is scheduled.

        A call that was overdue by then does not count: it has failed, or something holds it up.
        """
        waits = (self._due(key, field, since) for field in self.calls)
        return min((seconds for seconds in waits if seconds is not None), default=None)

    def _due(self, key: Key, field: str, since: float = 0.0) -> float | None:
        owner = self._owners.cache.get(key)
        result: Result | None = getattr(owner, field, None)
        if result is None:
            return None
        news = (key, self.calls[field].reason) in self._news
        due = min(result.due, result.at + SOONEST) if news else result.due
        return max(0.0, due - _now()) if due >= since else None

    def pending(self, owner: Owner, *, dry: bool = False) -> list[str]:
        """Return what would be done next for an object outside of its children.

        In a dry run, return what would change in the cluster because of that.
        """
        if owner.deleting:
            return ["finalize"] if self.needs_cleanup(owner) else []
        lacks = self.finalize is not None and self._finalizer not in owner.finalizers
        syncs = not dry and "sync_result" in self.calls and not self._due(owner.key, "sync_result")
        return ["put the finalizer on"] * lacks + ["sync"] * syncs

    # --- steps --------------------------------------------------------------------------------

    async def ensure_finalizer(self, owner: Owner) -> None:
        """Add the finalizer to an object if there is a `finalize`."""
        if self.finalize is not None and self._finalizer not in owner.finalizers:
            await self._set_finalizers(owner, lambda former: [*former, self._finalizer])

    async def sync(self, owner: Owner) -> None:
        """Call `sync` if the object changed or its time has come; raise `StepError`."""
        await self._look(owner, "sync_result")

    async def check(self, owner: Owner) -> bool:
        """Call `check` as `sync` is called; return whether its result has changed."""
        return await self._look(owner, "check_result")

    async def _look(self, owner: Owner, field: str) -> bool:
        call = self.calls.get(field)
        if call is None or self._due(owner.key, field):  # called before, and not due yet
            return False
        thing = await self._get(owner)
        if thing is None or thing.metadata.generation != owner.generation:
            raise changed("it changed meanwhile")
        cached = self._owners.cache.get(owner.key)
        if cached is None or cached.state != owner.state:
            raise changed("it changed meanwhile")
        owner = cached  # with what `sync` has just returned
        if news := (at := (owner.key, call.reason)) in self._news:
            self._news.discard(at)  # what changes during the call is news again
        try:
            value, every = await self._call(call, owner, thing, field)
        except BaseException:
            if news:  # it is still to be looked at
                self._news.add(at)
            raise
        cached = self._owners.cache.get(owner.key)
        if cached is None or cached.state != owner.state:
            raise changed("it changed meanwhile")
        # Objects that a start has called together do not stay together.
        early, now = random.uniform(0.0, 0.1) * min(every, 3600.0), _now()  # noqa: S311
        former, result = getattr(cached, field), Result(value, now, now + every - early)
        self._owners.cache.put(replace(cached, **{field: result}))
        return former is None or bool(former.value != value)

    def needs_cleanup(self, owner: Owner) -> bool:
        """Return whether an object that is being deleted waits for `finalize`."""
        return self.finalize is not None and self._finalizer in owner.finalizers

    async def clean_up(self, owner: Owner, unread: Wait | None) -> None:
        """Call `finalize`, then remove the finalizer.

        `unread` is why what the object names cannot be read: a `finalize` that asks for it waits.
        """
        thing = await self._get(owner)
        if thing is not None and self.finalize is not None:
            hint = f" To give up, remove its finalizer {self._finalizer}."
            await self._call(self.finalize, owner, thing, hint=hint, unread=unread)
            await self._set_finalizers(
                owner, lambda former: [name for name in former if name != self._finalizer]
            )

    # --- calls --------------------------------------------------------------------------------

    async def _call(
        self,
        call: Call,
        owner: Owner,
        thing: Resource,
        field: str = "",
        hint: str = "",
        unread: Wait | None = None,
    ) -> tuple[Any, float]:
        """Return what a function returns, and the seconds until its next call."""
        failed = self._former(call, owner)
        waiting = (None, owner.generation)
        if failed is not None and failed.generation in waiting and failed.until > _now():
            raise StepError(failed.stop(failed.until - _now()))
        given = self._observer.given(owner, self._observer.children(owner)) | {
            "stored": owner.status if self._declaration.foreign else thing.status,
            "client": self._client,
            "leads": self._client.may_write,
            **({} if self._declaration.foreign else {"record": self._recorder(owner, thing)}),
            "unseen": self._observer.unseen(owner),
            "event": partial(self._event, owner),
        }
        if unread is not None:
            given["reads"] = Unread(given["reads"], unread)
        try:
            given["session"] = await self.session()
            span = tracing.span(_SPANS[field], {"code.function.name": str(call)})
            with self._queue.outside(owner.key), span:
                value = await ending(call.function(thing, CallContext(**given)), call.timeout)
            every = call.period(thing, CallContext(**given | ({field: value} if field else {})))
        except _StaleError as error:
            self._stale[owner.key, call.reason] += 1
            if self._stale[owner.key, call.reason] < ATTEMPTS:
                raise changed(str(error)) from error
            raise self._failure(error, call, owner, hint) from error
        except Wait as wait:
            if wait is unread:  # it is called again as soon as that can be read
                text = _hinted(wait.message, hint)
                raise StepError(author_waits(wait.reason, text, UNSEEN)) from wait
            raise self._waits(wait, call, owner, hint) from wait
        except asyncio.CancelledError as error:
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise
            stray = RuntimeError("it awaited a task that was cancelled")
            raise self._failure(stray, call, owner, hint) from error
        except Exception as error:
            raise self._failure(error, call, owner, hint) from error
        self._failed.pop((owner.key, call.reason), None)
        self._stale.pop((owner.key, call.reason), None)
        return value, every

    def _event(self, owner: Owner, reason: str, message: str, *, warning: bool = False) -> None:
        """Record an Event of the author's."""
        if not _REASON.fullmatch(reason):
            raise ValueError(f"{reason!r:.80} is not a reason of an Event; use one CamelCase word")
        record = self._events.warning if warning else self._events.normal
        record(about(self._owners.kind, owner), reason, message)

    def _recorder(
        self, owner: Owner, thing: Resource
    ) -> Callable[[Struct | dict[str, Any]], Awaitable[None]]:
        """Return the function that stores fields of the status of an object as it was read."""
        version, status = thing.metadata.resource_version, thing.status

        async def record(fields: Struct | dict[str, Any]) -> None:
            nonlocal version, status
            # A class may have more fields than are to be recorded now.
            changes = stated(fields) if isinstance(fields, Struct) else fields
            wanted = merged(status, changes)
            patch = {"status": difference(status, wanted)}
            try:
                stored = await self._owners.patch(owner.key, version, patch, "status", role=RECORD)
            except ApiError as error:
                if error.status != 409:
                    raise
                raise _StaleError("it changed before anything was recorded") from error
            version, status = str(stored.version), stored.status
            if lost := sorted(k for k in wanted if status.get(k) != wanted[k]):
                raise TypeError(f"the API server does not keep these fields of the status: {lost}")

        return record

    def _waits(self, wait: Wait, call: Call, owner: Owner, hint: str) -> StepError:
        """Remember that a function waits: nothing but a change or the time has it called again."""
        every = MAX_PAUSE_SECONDS if callable(call.every) else min(call.every, MAX_PAUSE_SECONDS)
        again = max(SOONEST, every if wait.after is None else wait.after)
        stop = partial(author_waits, wait.reason, _hinted(wait.message, hint))
        failed = _Failed(owner.uid, owner.generation, None, now := _now(), now + again, stop)
        self._failed[owner.key, call.reason] = failed
        return StepError(stop(again))

    def _failure(self, error: Exception, call: Call, owner: Owner, hint: str) -> StepError:
        """Remember a failed call, and double the pause before the next one."""
        import aiohttp

        if isinstance(error, ApiError) and error.reason == "Fenced":
            raise error  # it is not the call that failed
        message = f"{type(error).__name__}: {describe_error(error)}"
        after = 0.0
        if isinstance(error, RetryError):
            message, after = str(error), error.after
        elif isinstance(error, ApiError):  # from a request to the cluster
            after = error.after
        elif isinstance(error, TimeoutError):
            message = f"There was no answer within {call.timeout:g} s."
        elif not isinstance(error, aiohttp.ClientError):
            logger.exception("%s", call.reason)
        former = self._former(call, owner)
        backoff = former.backoff if former is not None else None
        pauses = self._declaration.backoff or (MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS)
        backoff = backoff or Backoff(*pauses)
        wait = max(after, backoff.next())
        stop = partial(outside_failed, call.reason, _hinted(message, hint))
        if isinstance(error, ApiError):
            stop = partial(_refused, error, hint)
        generation = None if after else owner.generation
        failed = _Failed(owner.uid, generation, backoff, now := _now(), now + wait, stop)
        self._failed[owner.key, call.reason] = failed
        return StepError(stop(wait))

    def _former(self, call: Call, owner: Owner) -> _Failed | None:
        """Return the last failure of this call for this object, or None."""
        failed = self._failed.get((owner.key, call.reason))
        return failed if failed is not None and failed.uid == owner.uid else None

    async def session(self) -> Any:
        """Return the session for external APIs; raise `TypeError`."""
        import aiohttp

        if self._refused:
            raise TypeError(self._refused)
        if self._session is None:
            arguments: dict[str, Any] = {
                "connector": aiohttp.TCPConnector(limit=0),
                "trust_env": True,
                "headers": {"User-Agent": self._client.agent},
                "cookie_jar": aiohttp.DummyCookieJar(),
                **self._declaration.session(self._deps.settings),
            }
            try:
                self._session = self._client.fenced(**arguments)
            except Exception as error:  # it would be refused each time
                self._refused = (
                    f"what the function of controller.session returns is refused: {error}; "
                    "return arguments of aiohttp.ClientSession, and restart the operator"
                )
                if isinstance(connector := arguments["connector"], aiohttp.BaseConnector):
                    await connector.close()
                raise TypeError(self._refused) from error
        return self._session

    # --- the object itself --------------------------------------------------------------------

    async def _get(self, owner: Owner) -> Resource | None:
        """Return the object as it is now, or None if it is gone."""
        fetched = await self._owners.fetch(owner.key)
        return fetched[1] if fetched is not None and fetched[0].uid == owner.uid else None

    async def _set_finalizers(self, owner: Owner, change: Callable[[list[str]], list[str]]) -> None:
        """Change the object's finalizers; retry if somebody else writes to it meanwhile."""
        for attempt in range(ATTEMPTS):
            thing = await self._get(owner)
            if thing is None:
                return
            former = thing.metadata.finalizers or []
            if thing.metadata.deletion_timestamp and self._finalizer not in former:
                return  # the API server no longer accepts a new finalizer
            metadata: dict[str, Any] = {"finalizers": (wanted := change(former))}
            if self._declaration.foreign is not None:  # by it, what is not selected is found
                ours = self._client.manager if self._finalizer in wanted else None
                metadata["labels"] = {self._served: ours}
            patch = {"metadata": metadata}
            version = thing.metadata.resource_version
            try:
                held = (await self._owners.patch(owner.key, version, patch)).finalizers
            except ApiError as error:
                if error.status != 409 or attempt == ATTEMPTS - 1:
                    raise
            else:
                if self._finalizer in wanted and self._finalizer not in held:
                    refused = finalizer_refused(self._owners.kind.kind, self._finalizer)
                    raise StepError(refused)
                return


def _refused(error: ApiError, hint: str, again: float) -> Outcome:
    """Return the outcome of a call whose request to the cluster was refused."""
    outcome = of(error)
    if (trouble := outcome.trouble) is not None:
        trouble = replace(trouble, message=_hinted(trouble.message, hint))
    after = min(outcome.not_before, again)
    return replace(outcome, trouble=trouble, again=again, not_before=after)


def _hinted(message: str, hint: str) -> str:
    """Return a message with a hint after it: a condition has room for 1,024 characters."""
    return message[:800] + hint


def _now() -> float:
    return asyncio.get_running_loop().time()
