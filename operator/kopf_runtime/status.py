"""Writes an object's status: conditions by the Kubernetes API conventions, only where they differ.

An author's `status` says how an object fares; this module writes it. A passing state is written
only once it has stood for a second: most children are well before that, and their object is written
to once, not twice.
"""

import logging
import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from kopf_runtime.client import MERGE_PATCH, ApiError, Client
from kopf_runtime.kinds import Key, Kind
from kopf_runtime.objects import parse
from kopf_runtime.records import Child, Primary, Unreadable
from kopf_runtime.source import Source
from kopf_runtime.troubles import Trouble

logger = logging.getLogger(__name__)

#: Seconds for which a passing state must stand before it is written.
SETTLE = 1.0
#: Conditions that an object may have; the CRD says so, too. Beyond it, others' oldest give way.
CONDITIONS = 16
_MESSAGE = 1024  # characters


@dataclass(frozen=True, slots=True)
class Observed:
    """What an author's `status` sees of an object."""

    object: Primary
    children: tuple[Child, ...]
    trouble: Trouble | None
    #: The API server's time, in seconds of Unix time.
    now: float
    #: What `watches` declares, by kind; in the order of their names.
    grandchildren: Mapping[Kind, Sequence[Child]] = field(default_factory=dict)

    @property
    def outcome(self) -> Any:
        """What `sync` returned, None while it has not."""
        return self.object.outcome.value if self.object.outcome is not None else None

    @property
    def child(self) -> Child | None:
        """The only child, None if it is not there."""
        return self.children[0] if self.children else None


@dataclass(frozen=True, slots=True)
class Status:
    """How an object fares."""

    ready: bool
    #: Why, in one CamelCase word for programs.
    reason: str
    #: Why, in a sentence for people.
    message: str
    #: Further fields of the status, best in the class that declares them; None removes one.
    fields: Struct | dict[str, Any] = field(default_factory=dict)
    #: Whether it will change by itself: it is then written only once it has stood for a while.
    passing: bool = False
    #: Seconds after which to look again, at least one; None for no need.
    again: float | None = None


def by_default(seen: Observed) -> Status:
    """Return the status where an author gives none: ready once all children are there."""
    if seen.trouble is not None:
        trouble = seen.trouble
        return Status(False, trouble.reason, trouble.message, passing=not trouble.final)
    missing = len(seen.object.wanted) - len(seen.children)
    if missing:
        return Status(False, "Progressing", f"{missing} of its objects are missing.", passing=True)
    return Status(True, "Reconciled", "All of its objects are there.")


class StatusWriter:
    """Writes the status of the objects of one kind."""

    def __init__(self, client: Client, primaries: Source[Primary]) -> None:
        self._client, self._primaries = client, primaries
        self._unsettled: dict[Key, tuple[str, float]] = {}  # a passing reason, and since when
        self._warned = False

    def forget(self, key: Key) -> None:
        """Forget an object that is gone."""
        self._unsettled.pop(key, None)

    async def tell(
        self, primary: Primary, now: Status, *, at_once: bool = False
    ) -> tuple[float | None, bool]:
        """Write the status if it differs, a passing one only once it has settled.

        Return the seconds until then, and whether the Ready condition says something new.
        """
        if now.passing and not at_once:
            was, since = self._unsettled.get(primary.key, ("", 0.0))
            if was != now.reason:
                since = time.monotonic()
                self._unsettled[primary.key] = now.reason, since
            remaining = SETTLE - (time.monotonic() - since)
            if remaining > 0:
                return remaining, False
        else:
            self._unsettled.pop(primary.key, None)
        return None, await self._write(primary, now)

    async def _write(self, primary: Primary, now: Status) -> bool:
        wanted = build(primary.status, primary.generation, now)
        if not (patch := difference(primary.status, wanted)):
            return False
        # Only onto the object that was looked at: a newer one is reconciled again.
        body = {"metadata": {"resourceVersion": str(primary.version)}, "status": patch}
        target = self._primaries.kind.at(primary.key, "status")
        try:
            raw = await self._client.request("PATCH", target, body, content_type=MERGE_PATCH)
        except ApiError as error:
            if error.status == 404:
                await self._missing(primary)
                return False
            raise
        if lost := difference(self._primaries.learn(raw).status, wanted):
            self._warn(f"the API server does not keep these fields of its status: {sorted(lost)}")
        return ready(primary.status).get("reason") != ready(wanted).get("reason")

    async def _missing(self, primary: Primary) -> None:
        """Find out whether the object is gone, or its kind has no status subresource."""
        if await self._primaries.fetch(primary.key) is None:
            return
        self._warn("it has no status subresource, so no status can be written")

    def _warn(self, what: str) -> None:
        """Tell once of a CRD that does not suit."""
        if not self._warned:
            self._warned = True
            kind = self._primaries.kind
            logger.error("%s: %s; install the CRD that comes with this operator", kind, what)

    async def tell_unreadable(self, left_out: Unreadable) -> None:
        """Tell of an object of which nothing but its name can be read; raise `ApiError`."""
        target = self._primaries.kind.at(left_out.key)
        former = _status_of(await self._client.request("GET", target))
        wanted = build(former, left_out.generation, Status(False, "Unreadable", left_out.reason))
        if patch := difference(former, wanted):
            target = self._primaries.kind.at(left_out.key, "status")
            await self._client.request("PATCH", target, {"status": patch}, content_type=MERGE_PATCH)


class _Stated(Struct):
    status: dict[str, Any] = {}


_STATED = msgspec.json.Decoder(_Stated)


def _status_of(raw: bytes) -> dict[str, Any]:
    """Return the status of any object, empty if it cannot be read either."""
    try:
        return parse(_STATED, raw).status
    except (msgspec.MsgspecError, UnicodeError):
        return {}


def build(former: dict[str, Any], generation: int, now: Status) -> dict[str, Any]:
    """Return the status that an object should have, given the former one."""
    conditions = former.get("conditions")
    listed = [c for c in conditions if isinstance(c, dict)] if isinstance(conditions, list) else []
    others = [c for c in listed if c.get("type") != "Ready"]
    if len(others) >= CONDITIONS:
        others.sort(key=lambda c: str(c.get("lastTransitionTime")), reverse=True)
        del others[CONDITIONS - 1 :]
    condition = _condition(ready(former), generation, now)
    fields = msgspec.to_builtins(now.fields, str_keys=True, order="deterministic")
    return {
        **{name: value for name, value in former.items() if name not in fields},
        **_stored(fields),
        "observedGeneration": generation,
        "conditions": [*others, condition],
    }


def _stored(value: Any) -> Any:
    """Return a value as the API server stores it: a field that is null is not there."""
    match value:
        case dict():
            stored = {name: _stored(part) for name, part in value.items()}
            return {name: part for name, part in stored.items() if part is not None}
        case list() | tuple():
            return [_stored(item) for item in value]
        case float() if not math.isfinite(value):
            return None
    return value


def difference(former: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON merge patch that turns one object into the other; empty if they are equal."""
    patch: dict[str, Any] = dict.fromkeys(former.keys() - wanted.keys())
    for name, value in wanted.items():
        known = former.get(name)
        if isinstance(known, dict) and isinstance(value, dict) and known != value:
            patch[name] = difference(known, value)
        elif known != value:
            patch[name] = value
    return patch


def _condition(former: dict[str, Any], generation: int, now: Status) -> dict[str, Any]:
    """Return the Ready condition; its time moves only when its status does."""
    status = "True" if now.ready else "False"
    since = former.get("lastTransitionTime") if former.get("status") == status else None
    return {
        "type": "Ready",
        "status": status,
        # Most reasons are the API server's or the kubelet's; a condition's must be one word.
        "reason": re.sub(r"[^A-Za-z0-9]", "", now.reason).lstrip("0123456789")[:256] or "Unknown",
        "message": now.message[:_MESSAGE],
        "observedGeneration": generation,
        "lastTransitionTime": since or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def ready(status: dict[str, Any]) -> dict[str, Any]:
    """Return a status's Ready condition, empty without one."""
    conditions = status.get("conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, dict) and condition.get("type") == "Ready":
            return condition
    return {}
