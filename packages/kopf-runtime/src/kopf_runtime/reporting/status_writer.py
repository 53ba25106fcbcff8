"""Writes the status of an object, if it differs from the stored one.

A transient state is written only after it has lasted for a second: most children are ready before
that, so their object is written once instead of twice.
"""

import logging
import time
from dataclasses import replace
from typing import Any

from kopf_runtime.cluster.client import MERGE_PATCH, Client
from kopf_runtime.declaring.conditions import Status, build, condition, difference
from kopf_runtime.declaring.errors import ApiError
from kopf_runtime.declaring.kinds import Key
from kopf_runtime.declaring.objects import UnreadableError
from kopf_runtime.declaring.records import Owner, Unreadable
from kopf_runtime.reporting.troubles import changed
from kopf_runtime.watching.source import Source

logger = logging.getLogger(__name__)


#: Seconds for which a transient state must last before it is written.
SETTLE = 1.0
#: Transient states in a row for which that holds: some troubles have another reason each time.
SEVERAL = 8


class Settling:
    """The transient states of objects since the last right one."""

    def __init__(self) -> None:
        #: The reasons, and since when each has been known.
        self._since: dict[Key, dict[object, float]] = {}

    def forget(self, key: Key) -> None:
        """Forget an object that has another state, or is gone."""
        self._since.pop(key, None)

    def remaining(self, key: Key, reason: object) -> float | None:
        """Return the seconds until a transient state is to be written; None: it is now.

        The work for other objects may lie between two states, so the time that has passed since the
        first one says nothing. But reasons that alternate have lasted, and after `SEVERAL` of them
        the next one is written, whatever it is.
        """
        reasons = self._since.setdefault(key, {})
        since = reasons.setdefault(reason, moment := time.monotonic())
        left = since + SETTLE - moment
        return left if left > 0 and len(reasons) <= SEVERAL else None


class Repeats:
    """What was written last into each object: another installation may take it away each time."""

    #: The longest pause in seconds.
    LONGEST = 600.0

    def __init__(self) -> None:
        #: What was written last, how often in a row, and when.
        self._wrote: dict[Key, tuple[int, int, float]] = {}

    def forget(self, key: Key) -> None:
        """Forget an object that is gone."""
        self._wrote.pop(key, None)

    def remaining(self, key: Key, state: int) -> float | None:
        """Return the seconds until a state, given as a hash, may be written again, or None."""
        former, times, at = self._wrote.get(key, (0, 0, 0.0))
        wait = at + min(2.0 ** min(times, 10), self.LONGEST) - time.monotonic()
        return wait if former == state and wait > 0 else None

    def wrote(self, key: Key, state: int) -> None:
        """Count what was written; after a long calm, start again."""
        former, times, at = self._wrote.get(key, (0, 0, 0.0))
        moment = time.monotonic()
        again = former == state and moment - at < 2 * self.LONGEST
        self._wrote[key] = state, 1 + times * again, moment


class StatusWriter:
    """Writes the status of the objects of one kind."""

    def __init__(self, client: Client, owners: Source[Owner]) -> None:
        self._client, self._owners = client, owners
        self._settling, self._repeats = Settling(), Repeats()
        #: The objects whose status is being written, so that a changed one is no news: a webhook or
        #: an older CRD may have the API server store another one than was sent.
        self.sending: set[Key] = set()
        self._warned: set[str] = set()

    def forget(self, key: Key) -> None:
        """Forget an object that is gone."""
        self._settling.forget(key)
        self._repeats.forget(key)

    async def write(
        self, owner: Owner, now: Status, wanted: dict[str, Any], *, at_once: bool = False
    ) -> tuple[float | None, bool]:
        """Write the wanted status if it differs, and a transient one only after it has lasted.

        Return the seconds until then, and whether the Ready condition's reason has changed.
        """
        key, news = owner.key, False
        patch = difference(owner.status, wanted)
        if patch:
            if now.transient and not at_once:
                remaining = self._settling.remaining(key, (owner.uid, now.reason))
                if remaining is not None:
                    return remaining, False
            # What an author computes of the time makes no other state.
            bare = replace(now, requeue_after=None, transient=False)
            state = hash(repr((owner.uid, owner.generation, bare)))
            if (remaining := self._repeats.remaining(key, state)) is not None:
                return remaining, False
            self.sending.add(key)
            try:
                exists = await self._write(owner, patch, wanted, state)
            finally:
                self.sending.discard(key)
            changed = _reason(owner.status) != _reason(wanted)
            news = exists and changed
        self._settling.forget(key)
        return None, news

    async def _write(
        self, owner: Owner, patch: dict[str, Any], wanted: dict[str, Any], state: int
    ) -> bool:
        """Write the status; return whether the object exists."""
        # Only to the version that was observed: a newer one is reconciled again.
        body = {"status": patch}
        try:
            stored = await self._owners.patch(owner.key, str(owner.version), body, "status")
        except ApiError as error:
            if error.status != 404:
                raise
            if (fetched := await self._owners.fetch(owner.key)) is None:
                return False
            stored, why = fetched[0], "it has no status subresource for these fields"
        else:
            why = "the API server does not keep these fields of its status"
        lost = sorted(name for name, value in wanted.items() if stored.status.get(name) != value)
        if lost:
            self._warn(why, lost)
        self._repeats.wrote(owner.key, state)
        newer = self._owners.cache.get(owner.key)
        if newer is not None and newer.version > stored.version and newer.status != stored.status:
            raise changed("somebody else has changed it meanwhile")
        return True

    def _warn(self, why: str, fields: list[str]) -> None:
        """Log once that the CRD does not match, or that a webhook changes a status."""
        if why not in self._warned:
            self._warned.add(why)
            logger.error(
                "%s: %s: %s; install the CRD that comes with this operator, and exempt the status "
                "from webhooks that change it",
                self._owners.kind,
                why,
                fields,
            )

    async def write_unreadable(self, skipped: Unreadable) -> None:
        """Write the status of an object that cannot be read; raise `ApiError`."""
        target = self._owners.kind.at(skipped.key)
        raw = await self._client.request("GET", target)
        try:
            self._owners.read(raw)
        except UnreadableError as error:
            meta, reason, former = error.identity, str(error), error.status
        else:
            return  # it was mended meanwhile: an event is on its way
        if meta is None:
            raise ApiError("GET", target, 0, "BadAnswer", reason)
        former = former if isinstance(former, dict) else {}
        wanted = build(former, meta.generation, Status(False, "Unreadable", reason))
        if patch := difference(former, wanted):
            body = {"metadata": {"resourceVersion": meta.resource_version}, "status": patch}
            target = self._owners.kind.at(skipped.key, "status")
            await self._client.request("PATCH", target, body, content_type=MERGE_PATCH)


def _reason(status: dict[str, Any]) -> Any:
    return condition(status, "Ready").get("reason")
