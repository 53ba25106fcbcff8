"""Reports an object's state in its status, in Events, and in the log.

`reconcile` tells a `Teller` what was done and what failed. An author's `status` then computes the
object's state, and `StatusWriter` writes it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from kopf_runtime import troubles
from kopf_runtime.client import Client
from kopf_runtime.conditions import Status, build, ready
from kopf_runtime.errors import ApiError
from kopf_runtime.events import Recorder
from kopf_runtime.kinds import Key, Kind
from kopf_runtime.plan import Plan, gone
from kopf_runtime.records import Child, Primary, Unreadable, Wanted
from kopf_runtime.retries import RetryError
from kopf_runtime.source import Source
from kopf_runtime.status import SETTLE, Observed, StatusWriter
from kopf_runtime.troubles import Trouble

logger = logging.getLogger(__name__)

C = TypeVar("C")

#: If a Retry-After is longer than these seconds, the status reports it at once.
LONG = 10.0
#: Seconds before an author's status is called again, at least, however soon it asks for that.
SOONEST = 1.0


class Teller:
    """Reports the state of the objects of one kind."""

    def __init__(
        self, client: Client, primaries: Source[Primary], children: Mapping[Kind, Source[Child]],
        grandchildren: Mapping[Kind, Source[Child]], recorder: Recorder,
        status: Callable[[Observed], Status],
    ) -> None:  # fmt: skip
        self._client, self._primaries, self._children = client, primaries, children
        self._grandchildren, self._recorder, self._status = grandchildren, recorder, status
        self._writer = StatusWriter(client, primaries)
        self._troubles: dict[Key, str] = {}  # the reason of an object's trouble

    def forget(self, key: Key) -> None:
        """Forget an object that is gone."""
        self._writer.forget(key)
        self._troubles.pop(key, None)

    def wrote(self, record: Primary, known: Primary) -> bool:
        """Return whether a change is nothing but the status that is being written."""
        ours = record.deleting, record.finalizers, record.state
        same = ours == (known.deleting, known.finalizers, known.state)
        return same and self._writer.wrote(record)

    def in_trouble(self, key: Key) -> bool:
        """Return whether the last reconcile of the object ended in trouble."""
        return key in self._troubles

    # --- what was done ------------------------------------------------------------------------

    def made(self, primary: Primary, wanted: Wanted, cause: Plan | None) -> None:
        """Report a created child; with a cause, it replaces another one."""
        if cause is None and self._was_there(primary, wanted):
            cause = gone(wanted.kind)
        if cause is None or not cause.reason:
            self._record(primary, "Created", f"Created {wanted}.")
        else:
            done = f"Replaced {wanted}" if cause.reason == "Replaced" else f"Created {wanted} again"
            self._record(primary, cause.reason, f"{done}: {cause.why}.")

    def changed(self, primary: Primary, wanted: Wanted, step: Plan) -> None:
        """Report a child that was changed in place."""
        self._record(primary, step.reason, f"Changed {wanted}: {step.why}.")

    def _record(self, primary: Primary, reason: str, message: str) -> None:
        self._recorder.normal(self._reference(primary), reason, message)

    def _was_there(self, primary: Primary, wanted: Wanted) -> bool:
        """Return whether the child existed when the status was written."""
        condition = ready(primary.status)
        all_were = condition.get("status") == "True"
        return wanted.key[1] in primary.status.values() or (
            all_were and condition.get("observedGeneration") == primary.generation
        )

    def _reference(self, primary: Primary) -> dict[str, Any]:
        """Return the reference to an object for its Events."""
        kind = self._primaries.kind
        return {
            "apiVersion": kind.api_version, "kind": kind.kind, "namespace": primary.key[0],
            "name": primary.key[1], "uid": primary.uid, "resourceVersion": str(primary.version),
        }  # fmt: skip

    async def patiently(
        self, primary: Primary, wanted: Wanted, writing: Coroutine[Any, Any, C]
    ) -> C:
        """Wait for a write, and report it in the status if it takes long."""
        telling: list[asyncio.Task[None]] = []

        def tell() -> None:
            telling.append(asyncio.create_task(self._slow(primary, wanted)))

        # Not a task for each write: hardly any takes long, and a task delays all of them.
        timer = asyncio.get_running_loop().call_later(SETTLE, tell)
        try:
            return await writing
        except asyncio.CancelledError:
            for task in telling:
                task.cancel()
            raise
        finally:
            timer.cancel()
            await asyncio.gather(*telling, return_exceptions=True)

    async def _slow(self, primary: Primary, wanted: Wanted) -> None:
        """Report in the status that a write takes long."""
        text = (
            f"The API server has not answered the request for {wanted} yet; "
            "an admission webhook may be slow."
        )
        with suppress(Exception):  # a status that fails must not end the write
            slow = Trouble("SlowApiServer", text)
            await self.tell(primary.key, slow, at_once=True)

    # --- how it fares -------------------------------------------------------------------------

    async def well(self, primary: Primary) -> float | None:
        """Report an object without trouble; return the seconds after which to requeue it."""
        known = self._primaries.cache.get(primary.key)
        if known is None or known.state != primary.state:
            return None  # it changed meanwhile, and is queued again
        self._troubles.pop(primary.key, None)
        return await self.tell(primary.key, None)

    async def stopped(self, primary: Primary, error: Exception) -> float | None:
        """Report why the next step failed, and raise `RetryError` unless it only has to wait."""
        stop = troubles.of(error)
        retry, reason = stop.retry, stop.trouble.reason
        if self._troubles.get(primary.key) != reason:
            self._troubles[primary.key] = reason
            logger.warning("%s: %s", reason, retry)
        at_once = retry.after > LONG
        try:
            wait = await self.tell(primary.key, stop.trouble, event=stop.event, at_once=at_once)
        except Exception as failed:  # it must not hide how long the next attempt has to wait
            if isinstance(failed, RetryError):
                retry.after = max(retry.after, failed.after)
            else:
                logger.exception("The status failed")
            raise retry from failed
        if stop.paused:
            return min(retry.pause, wait or retry.pause)
        if wait is not None:  # the status is written later
            retry.pause = min(retry.pause or wait, wait)
        retry.told = True
        raise retry

    async def unreadable(self, left_out: Unreadable) -> None:
        """Report once that an object cannot be read."""
        if left_out.told:
            return
        try:
            await self._writer.tell_unreadable(left_out)
        except ApiError as error:
            if error.status != 404:  # it is gone, or its kind has no status subresource
                raise RetryError(str(error), after=error.after) from error
        known = self._primaries.unreadable.get(left_out.key)  # our own write made a newer one
        if known is not None and left_out.is_as(known):
            self._primaries.unreadable.put(replace(known, told=True))

    async def tell(
        self, key: Key, trouble: Trouble | None, *, event: str = "", at_once: bool = False
    ) -> float | None:
        """Write the object's current state; return the seconds after which to requeue it.

        Raise the error of the author's code, if any, once the status says so.
        """
        primary = self._primaries.cache.get(key)
        if primary is None:
            return None
        children = ((w, self._children[w.kind].cache.get(w.key)) for w in primary.wanted)
        mine = [(w, c) for w, c in children if c is not None and c.owner == primary.uid]
        unready = tuple(f"{wanted}: {why}" for wanted, child in mine if (why := _unready(child)))
        further = {
            kind: sorted(source.owned(primary), key=lambda child: child.key)
            for kind, source in self._grandchildren.items()
        }
        seen = tuple(child for _, child in mine)
        observed = Observed(primary, seen, trouble, self._client.now(), further, unready)
        now, wanted, failed = self._state(observed)
        try:
            wait, news = await self._writer.tell(primary, now, wanted, at_once=at_once)
        except ApiError as error:
            raise RetryError(str(error), after=error.after) from error
        if news and event and trouble is not None:
            self._recorder.warning(self._reference(primary), event, trouble.message)
        if failed is not None:
            raise failed
        again = None if now.again is None else max(SOONEST, now.again)
        return min((seconds for seconds in (wait, again) if seconds is not None), default=None)

    def _state(self, seen: Observed) -> tuple[Status, dict[str, Any], Exception | None]:
        """Return the state of an object, the status that says so, and the author's error.

        If the author's code fails, that is the state: the former one may not be true any more.
        """
        primary, failed = seen.object, None
        try:
            now = self._status(seen)
            wanted = build(primary.status, primary.generation, now)
            msgspec.json.encode(wanted)  # half a character, for example, cannot be sent
        except Exception as error:
            failed = error
            text = f"the status failed: {type(error).__name__}: {error}"[:500]
            now = Status(False, "InvalidStatus", text)
            wanted = build(primary.status, primary.generation, now)
        return now, wanted, failed


def _unready(child: Child) -> str:
    """Return why a child is not ready; its own status may not say that it is about to go."""
    if not child.deleting:
        return child.unready
    held = f"; {', '.join(child.finalizers)} holds it" if child.finalizers else ""
    return f"it is being deleted{held}"
