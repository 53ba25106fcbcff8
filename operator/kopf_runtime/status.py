"""Writes an object's status, with conditions as in the Kubernetes API conventions, if it differs.

An author's `status` computes it, and this module writes it. A transient state is written only after
it has lasted for a second: most children are ready before that, so their object is written once
instead of twice.
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

#: Seconds that a transient state must last before it is written.
SETTLE = 1.0
#: The CRD's limit of conditions; if there are more, the oldest ones set by others are removed.
CONDITIONS = 16
_MESSAGE = 1024  # characters


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


@dataclass(frozen=True, slots=True)
class Status:
    """The state of an object, as an author's `status` returns it."""

    ready: bool
    #: The condition's reason: one CamelCase word for programs.
    reason: str
    #: The condition's message: a sentence for people.
    message: str
    #: Further fields of the status, best as the class that declares them; None removes a field.
    fields: Struct | dict[str, Any] = field(default_factory=dict)
    #: Whether the state is transient: it is then written only after it has lasted for a while.
    passing: bool = False
    #: Seconds after which to requeue the object, at least one; None if that is not needed.
    again: float | None = None


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


class StatusWriter:
    """Writes the status of the objects of one kind."""

    def __init__(self, client: Client, primaries: Source[Primary]) -> None:
        self._client, self._primaries = client, primaries
        self._unsettled: dict[Key, tuple[str, float]] = {}  # a transient reason, and since when
        self._warned = False

    def forget(self, key: Key) -> None:
        """Forget an object that is gone."""
        self._unsettled.pop(key, None)

    async def tell(
        self, primary: Primary, now: Status, *, at_once: bool = False
    ) -> tuple[float | None, bool]:
        """Write the status if it differs, and a transient one only after it has lasted.

        Return the seconds until then, and whether the Ready condition's reason has changed.
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
        # Only to the version that was observed: a newer one is reconciled again.
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
        """Warn if the object exists, but its kind has no status subresource."""
        if await self._primaries.fetch(primary.key) is None:
            return
        self._warn("it has no status subresource, so no status can be written")

    def _warn(self, what: str) -> None:
        """Log once that the CRD does not match."""
        if not self._warned:
            self._warned = True
            kind = self._primaries.kind
            logger.error("%s: %s; install the CRD that comes with this operator", kind, what)

    async def tell_unreadable(self, left_out: Unreadable) -> None:
        """Write the status of an object that cannot be read; raise `ApiError`."""
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
    """Return the status of any object, or an empty one if it cannot be read."""
    try:
        return parse(_STATED, raw).status
    except (msgspec.MsgspecError, UnicodeError):
        return {}


def build(former: dict[str, Any], generation: int, now: Status) -> dict[str, Any]:
    """Return the new status of an object, given the former one."""
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
    """Return a value as the API server stores it: without fields that are null."""
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
    """Return the JSON merge patch from one object to the other; empty if they are equal."""
    patch: dict[str, Any] = dict.fromkeys(former.keys() - wanted.keys())
    for name, value in wanted.items():
        known = former.get(name)
        if isinstance(known, dict) and isinstance(value, dict) and known != value:
            patch[name] = difference(known, value)
        elif known != value:
            patch[name] = value
    return patch


def _condition(former: dict[str, Any], generation: int, now: Status) -> dict[str, Any]:
    """Return the Ready condition; `lastTransitionTime` changes only with its status."""
    status = "True" if now.ready else "False"
    since = former.get("lastTransitionTime") if former.get("status") == status else None
    return {
        "type": "Ready",
        "status": status,
        # Most reasons come from the API server or the kubelet; a condition allows only one word.
        "reason": re.sub(r"[^A-Za-z0-9]", "", now.reason).lstrip("0123456789")[:256] or "Unknown",
        "message": now.message[:_MESSAGE],
        "observedGeneration": generation,
        "lastTransitionTime": since or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def ready(status: dict[str, Any]) -> dict[str, Any]:
    """Return a status's Ready condition, or an empty one."""
    conditions = status.get("conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, dict) and condition.get("type") == "Ready":
            return condition
    return {}
