"""Writes an object's status if it differs from the stored one.

An author's `status` computes it, and this module writes it. A transient state is written only after
it has lasted for a second: most children are ready before that, so their object is written once
instead of twice. What the API server does not keep is not written again and again.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from msgspec import Struct

from kopf_runtime.backoff import Backoff
from kopf_runtime.client import MERGE_PATCH, Client
from kopf_runtime.conditions import Status, build, difference, ready
from kopf_runtime.errors import ApiError
from kopf_runtime.kinds import Key, Kind
from kopf_runtime.objects import UnreadableError, parse
from kopf_runtime.records import Child, Primary, Unreadable
from kopf_runtime.source import Source
from kopf_runtime.troubles import Trouble

logger = logging.getLogger(__name__)

#: Seconds for which a transient state must last before it is written.
SETTLE = 1.0
#: Transient states in a row for which that holds: some troubles have another reason each time.
SEVERAL = 8
#: Seconds of the first and of the longest pause before a status that was not kept is sent again.
FIRST, LONGEST = 60.0, 3600.0


@dataclass(frozen=True, slots=True)
class Observed:
    """An object and its children, as an author's `status` sees them."""

    object: Primary
    children: tuple[Child, ...]
    trouble: Trouble | None
    #: The API server's time, in seconds of Unix time.
    now: float
    #: The objects of the kinds declared by `watches`, by kind, in the order of their names.
    grandchildren: Mapping[Kind, Sequence[Child]] = field(default_factory=dict)
    #: Which children are not ready, and why, such as `Job load: it has not completed yet`.
    unready: tuple[str, ...] = ()

    @property
    def outcome(self) -> Any:
        """The result of `sync`, or None before it has returned."""
        return self.object.outcome.value if self.object.outcome is not None else None

    @property
    def child(self) -> Child | None:
        """The only child, or None if it does not exist."""
        return self.children[0] if self.children else None

    def children_of(self, kind: Kind) -> tuple[Child, ...]:
        """Return the children of one kind, in the order in which `desired` has them."""
        return tuple(child for child in self.children if child.kind == kind)


def by_default(seen: Observed) -> Status:
    """Return the status of an object without an author's `status`: ready if all children are."""
    if seen.trouble is not None:
        trouble = seen.trouble
        return Status(False, trouble.reason, trouble.message, passing=not trouble.final)
    missing = len(seen.object.wanted) - len(seen.children)
    if missing:
        return Status(False, "Progressing", f"{missing} of its objects are missing.", passing=True)
    if seen.unready:
        text = "; ".join(one.rstrip(".") for one in seen.unready)
        return Status(False, "NotReady", f"{text}.", passing=True)
    return Status(True, "Reconciled", "All of its objects are there.")


@dataclass(frozen=True, slots=True)
class _NotKept:
    """A status that the API server did not store as it was sent."""

    sent: tuple[int, Status]
    #: The status that it stored instead.
    kept: dict[str, Any]
    backoff: Backoff
    #: When it may be sent again, by `time.monotonic`.
    until: float


class StatusWriter:
    """Writes the status of the objects of one kind."""

    def __init__(self, client: Client, primaries: Source[Primary]) -> None:
        self._client, self._primaries = client, primaries
        #: The transient reasons since the last right status, and since when each has been known.
        self._unsettled: dict[Key, dict[str, float]] = {}
        self._sending: dict[Key, dict[str, Any]] = {}
        self._not_kept: dict[Key, _NotKept] = {}
        self._warned: set[str] = set()

    def forget(self, key: Key) -> None:
        """Forget an object that is gone."""
        self._unsettled.pop(key, None)
        self._not_kept.pop(key, None)

    def wrote(self, record: Primary) -> bool:
        """Return whether a record has the status that is being written, so it is no news."""
        return self._sending.get(record.key) == record.status

    async def tell(
        self, primary: Primary, now: Status, wanted: dict[str, Any], *, at_once: bool = False
    ) -> tuple[float | None, bool]:
        """Write the wanted status if it differs, and a transient one only after it has lasted.

        Return the seconds until then, and whether the Ready condition's reason has changed.
        """
        key, news = primary.key, False
        patch = difference(primary.status, wanted)
        if patch and not self._is_vain(primary, now):
            if now.passing and not at_once:
                # The work for other objects may lie between two states, so the time that has passed
                # since the first one says nothing. But reasons that alternate have lasted.
                reasons = self._unsettled.setdefault(key, {})
                since = reasons.setdefault(now.reason, moment := time.monotonic())
                if (remaining := since + SETTLE - moment) > 0 and len(reasons) <= SEVERAL:
                    return remaining, False
            self._sending[key] = wanted
            try:
                exists = await self._write(primary, now, patch, wanted)
            finally:
                del self._sending[key]
            changed = ready(primary.status).get("reason") != ready(wanted).get("reason")
            news = exists and changed
        self._unsettled.pop(key, None)
        return None, news

    async def _write(
        self, primary: Primary, now: Status, patch: dict[str, Any], wanted: dict[str, Any]
    ) -> bool:
        """Write the status; return whether the object exists."""
        # Only to the version that was observed: a newer one is reconciled again.
        body = {"metadata": {"resourceVersion": str(primary.version)}, "status": patch}
        target = self._primaries.kind.at(primary.key, "status")
        try:
            raw = await self._client.request("PATCH", target, body, content_type=MERGE_PATCH)
        except ApiError as error:
            if error.status != 404:
                raise
            if (fetched := await self._primaries.fetch(primary.key)) is None:
                return False
            stored, why = fetched[0].status, "it has no status subresource for these fields"
        else:
            stored = self._primaries.learn(raw).status
            why = "the API server does not keep these fields of its status"
        lost = sorted(name for name, value in wanted.items() if stored.get(name) != value)
        if lost:
            self._warn(why, lost)
        self._remember(primary, now, stored, kept=not lost)
        return True

    def _is_vain(self, primary: Primary, now: Status) -> bool:
        """Return whether the API server did not keep this status, and it is too early to retry."""
        former = self._not_kept.get(primary.key)
        return (
            former is not None
            and former.until > time.monotonic()
            and former.sent == _sent(primary, now)
            and former.kept == primary.status
        )

    def _remember(
        self, primary: Primary, now: Status, stored: dict[str, Any], *, kept: bool
    ) -> None:
        """Send what was not kept, as by a webhook or a CRD, again only after a growing pause."""
        former = self._not_kept.pop(primary.key, None)
        if not kept:
            backoff = former.backoff if former is not None else Backoff(FIRST, LONGEST)
            until = time.monotonic() + backoff.next()
            sent = _sent(primary, now)
            self._not_kept[primary.key] = _NotKept(sent, stored, backoff, until)

    def _warn(self, why: str, fields: list[str]) -> None:
        """Log once that the CRD does not match, or that a webhook changes a status."""
        if why not in self._warned:
            self._warned.add(why)
            logger.error(
                "%s: %s: %s; install the CRD that comes with this operator, and exempt the status "
                "from webhooks that change it", self._primaries.kind, why, fields,
            )  # fmt: skip

    async def tell_unreadable(self, left_out: Unreadable) -> None:
        """Write the status of an object that cannot be read; raise `ApiError`."""
        target = self._primaries.kind.at(left_out.key)
        raw = await self._client.request("GET", target)
        try:
            self._primaries.read(raw)
        except UnreadableError as error:
            meta, reason = error.identity, str(error)
        else:
            return  # it was mended meanwhile: an event is on its way
        if meta is None:
            raise ApiError("GET", target, 0, "BadAnswer", reason)
        former = _status_of(raw)
        wanted = build(former, meta.generation, Status(False, "Unreadable", reason))
        if patch := difference(former, wanted):
            body = {"metadata": {"resourceVersion": meta.resource_version}, "status": patch}
            target = self._primaries.kind.at(left_out.key, "status")
            await self._client.request("PATCH", target, body, content_type=MERGE_PATCH)


def _sent(primary: Primary, now: Status) -> tuple[int, Status]:
    """Return what identifies a status that is sent, whenever it is looked at again."""
    return primary.generation, replace(now, again=None)


class _Stated(Struct):
    status: dict[str, Any] = {}


_STATED = msgspec.json.Decoder(_Stated)


def _status_of(raw: bytes) -> dict[str, Any]:
    """Return the status of any object, or an empty one if it cannot be read."""
    try:
        return parse(_STATED, raw).status
    except (msgspec.MsgspecError, UnicodeError):
        return {}
