"""Calls external APIs: an author's `sync` before the plan, `finalize` before an object is deleted.

`reconcile` uses `External` for each object. The calls share a session of their own, which has no
credentials of the cluster. Each call has a timeout, and a failed one is retried with backoff, no
matter what queues the object meanwhile. Nothing external may be left behind, so if there is a
`finalize`, an object gets a finalizer before anything else is done for it.
"""

import asyncio
import inspect
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
from msgspec.structs import replace

from kopf_runtime.cluster.client import MERGE_PATCH, Client
from kopf_runtime.cluster.fence import Request
from kopf_runtime.declaring.context import Context
from kopf_runtime.declaring.errors import ApiError, Backoff, RetryError, describe_error
from kopf_runtime.declaring.kinds import Key
from kopf_runtime.declaring.objects import Resource
from kopf_runtime.declaring.records import Outcome, Owner
from kopf_runtime.reporting.troubles import StopError, finalizer_refused, outside_failed
from kopf_runtime.watching.observer import Observer
from kopf_runtime.watching.source import Source
from kopf_runtime.working.templates import Templates

logger = logging.getLogger(__name__)

#: Seconds of the first and of the longest pause after a failed call.
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 300.0
#: The longest timeout of a call in seconds: a reconcile of five minutes is stuck (see `manager`).
PATIENCE = 240.0
#: Attempts to change the finalizers of an object while others write to it.
ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Call:
    """An author's coroutine function; it gets the object and a `Context`."""

    function: Callable[[Any, Context[Any]], Awaitable[Any]]
    #: Its timeout in seconds.
    timeout: float
    #: Seconds after which it is called again even if nothing has changed.
    every: float = float("inf")

    def __post_init__(self) -> None:
        """Refuse a function or a time that cannot work, as soon as it is declared."""
        name = getattr(self.function, "__name__", str(self.function))
        if not inspect.iscoroutinefunction(self.function):
            raise TypeError(f"{name} must be a coroutine function: write `async def {name}`")
        if not 0 < self.timeout <= PATIENCE:
            raise ValueError(f"the timeout of {name} must be at most {PATIENCE:g} seconds")
        if not self.every > 0:  # nor NaN
            raise ValueError(f"the time between two calls of {name} must be above 0 seconds")


@dataclass(frozen=True, slots=True)
class _Failed:
    """A failed call for an object, which waits for its retry."""

    uid: str
    call: Call
    #: The generation that has to wait; None if every generation has to.
    generation: int | None
    backoff: Backoff
    until: float
    message: str


class External:
    """Calls external APIs for the objects of one kind."""

    def __init__(
        self, client: Client, owners: Source[Owner], templates: Templates, observer: Observer,
        finalizer: str, sync: Call | None, finalize: Call | None,
    ) -> None:  # fmt: skip
        self._client, self._owners, self._templates = client, owners, templates
        self._observer, self._finalizer = observer, finalizer
        self._sync, self._finalize = sync, finalize
        self._failed: dict[Key, _Failed] = {}
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the session."""
        if self._session is not None:
            await self._session.close()

    def forget(self, key: Key) -> None:
        """Forget an object that is gone."""
        self._failed.pop(key, None)

    def invalidate(self, namespace: str | None = None) -> None:
        """Forget the results of a namespace, or all if it is None: others may have changed them."""
        if namespace is None:
            self._failed.clear()
        for owner in list(self._owners.cache.within(namespace)):
            self.forget(owner.key)
            if owner.outcome is not None:
                self._owners.cache.put(replace(owner, outcome=None, wanted=(), problem=""))

    def is_planned(self, owner: Owner) -> bool:
        """Return whether the children of an object have been planned."""
        return self._sync is None or owner.outcome is not None

    def due(self, key: Key) -> float | None:
        """Return the seconds until the next `sync` of an object, or None if none is scheduled."""
        owner = self._owners.cache.get(key)
        if self._sync is None or owner is None or owner.outcome is None:
            return None
        if owner.outcome.outdated:
            return 0.0
        return max(0.0, owner.outcome.at + self._sync.every - _now())

    # --- steps --------------------------------------------------------------------------------

    async def ensure_finalizer(self, owner: Owner) -> None:
        """Add the finalizer to an object if there is a `finalize`."""
        if self._finalize is not None and self._finalizer not in owner.finalizers:
            await self._set_finalizers(owner, lambda former: [*former, self._finalizer])

    async def sync(self, owner: Owner) -> None:
        """Call `sync` if the object changed or the interval is over, and plan with its result."""
        if self._sync is None or self.due(owner.key):  # called before, and not due yet
            return
        thing = await self._get(owner)
        if thing is None or thing.metadata.generation != owner.generation:
            raise RetryError("it changed meanwhile")
        value = await self._call(self._sync, owner, thing, "SyncFailed")
        wanted, problem = self._templates.plan(thing, value)
        known = self._owners.cache.get(owner.key)
        if known is None or known.state != owner.state:
            raise RetryError("it changed meanwhile")
        # Objects that a start has called together do not stay together.
        early = random.uniform(0.0, 0.1) * min(self._sync.every, 3600.0)  # noqa: S311
        outcome = Outcome(value, _now() - early)
        self._owners.cache.put(replace(known, outcome=outcome, wanted=wanted, problem=problem))

    def needs_cleanup(self, owner: Owner) -> bool:
        """Return whether an object that is being deleted waits for `finalize`."""
        return self._finalize is not None and self._finalizer in owner.finalizers

    async def clean_up(self, owner: Owner) -> None:
        """Call `finalize`, then remove the finalizer."""
        thing = await self._get(owner)
        if thing is not None and self._finalize is not None:
            hint = f" To give up, remove its finalizer {self._finalizer}."
            await self._call(self._finalize, owner, thing, "CleanupFailed", hint)
            await self._set_finalizers(
                owner, lambda former: [one for one in former if one != self._finalizer]
            )

    # --- calls --------------------------------------------------------------------------------

    async def _call(
        self, call: Call, owner: Owner, thing: Resource, reason: str, hint: str = ""
    ) -> Any:
        failed = self._former(call, owner)
        waiting = (None, owner.generation)
        if failed is not None and failed.generation in waiting and failed.until > _now():
            raise outside_failed(reason, failed.message, failed.until - _now())
        given = self._observer.given(owner, self._observer.children(owner))
        context = Context(session=self._open(), **given)
        try:
            async with asyncio.timeout(call.timeout):
                value = await call.function(thing, context)
        except ApiError:  # from a request to the cluster, or from the fence
            raise
        except asyncio.CancelledError as error:
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise
            stray = RuntimeError("it awaited a task that was cancelled")
            raise self._failure(stray, call, owner, reason, hint) from error
        except Exception as error:
            raise self._failure(error, call, owner, reason, hint) from error
        self._failed.pop(owner.key, None)
        return value

    def _failure(
        self, error: Exception, call: Call, owner: Owner, reason: str, hint: str
    ) -> StopError:
        """Remember a failed call, and double the pause before the next one."""
        message = f"{type(error).__name__}: {describe_error(error)}"
        after = 0.0
        if isinstance(error, RetryError):
            message, after = str(error), max(error.after, error.pause)
        elif isinstance(error, TimeoutError):
            message = f"There was no answer within {call.timeout:g} s."
        elif not isinstance(error, aiohttp.ClientError):
            logger.exception("%s", reason)
        former = self._former(call, owner)
        backoff = (
            Backoff(MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS) if former is None else former.backoff
        )
        wait = max(after, backoff.next())
        message = message[:800] + hint  # a condition has room for 1,024 characters
        generation = None if after else owner.generation
        until = _now() + wait
        self._failed[owner.key] = _Failed(owner.uid, call, generation, backoff, until, message)
        return outside_failed(reason, message, wait)

    def _former(self, call: Call, owner: Owner) -> _Failed | None:
        """Return the last failure of this call for this object, or None."""
        failed = self._failed.get(owner.key)
        same = failed is not None and (failed.uid, failed.call) == (owner.uid, call)
        return failed if same else None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                headers={"User-Agent": self._client.agent}, cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=True, middlewares=(self._client.fence,), request_class=Request,
            )  # fmt: skip
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
            now = {"resourceVersion": thing.metadata.resource_version, "finalizers": change(former)}
            body, path = {"metadata": now}, self._owners.kind.at(owner.key)
            try:
                raw = await self._client.request("PATCH", path, body, content_type=MERGE_PATCH)
            except ApiError as error:
                if error.status != 409 or attempt == ATTEMPTS - 1:
                    raise
            else:
                held = self._owners.learn(raw).finalizers
                if self._finalizer in change(former) and self._finalizer not in held:
                    raise finalizer_refused(self._owners.kind.kind, self._finalizer)
                return


def _now() -> float:
    return asyncio.get_running_loop().time()
