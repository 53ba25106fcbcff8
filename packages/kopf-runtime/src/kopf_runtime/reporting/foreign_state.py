"""Reports the state of an object whose status is somebody else's.

It is in Events and, if the author names one, in an annotation or a condition. Nothing is reported
of an object that is ready from the start, so neither a start nor a change of the leader writes
anything.
"""

from typing import Any
from urllib.parse import urlencode

from kopf_runtime.cluster.client import APPLY_PATCH
from kopf_runtime.declaring.conditions import Condition, Status, condition, written
from kopf_runtime.declaring.errors import ApiError
from kopf_runtime.declaring.foreign import STATE, Foreign, spelled
from kopf_runtime.declaring.kinds import Key
from kopf_runtime.declaring.records import Owner, Unreadable
from kopf_runtime.reporting.events import Deps, about
from kopf_runtime.reporting.status_writer import Repeats, Settling
from kopf_runtime.watching.source import Source


class ForeignStateWriter:
    """Writes the states of the objects of one kind, in place of a `StatusWriter`."""

    def __init__(self, deps: Deps, owners: Source[Owner], foreign: Foreign) -> None:
        self._recorder, self._owners, self._foreign = deps.recorder, owners, foreign
        self._client = deps.client
        self._settling, self._repeats = Settling(), Repeats()
        #: What was reported last: whether it is ready, and the reason.
        self._reported: dict[Key, tuple[bool, str]] = {}
        self.sending: frozenset[Key] = frozenset()  # nothing of it is in the status
        metrics = deps.metrics
        metrics.unready.labels(metrics.name_of(owners.kind)).set_function(
            lambda: sum(not ready for ready, _ in self._reported.values())
        )

    def forget(self, key: Key) -> None:
        """Forget an object that is gone."""
        self._settling.forget(key)
        self._reported.pop(key, None)
        self._repeats.forget(key)

    async def write(
        self, owner: Owner, now: Status, wanted: dict[str, Any], *, at_once: bool = False
    ) -> tuple[float | None, bool]:
        """Report the state if it is another one, and a transient one once it has lasted.

        Return the seconds until then, and that no Event is needed: this is one.
        """
        paused = condition(wanted, "Paused")
        state, message = (now.ready, now.reason), now.message
        if paused.get("status") == "True":
            state, message = (now.ready, "Paused"), str(paused.get("message"))
        former = self._reported.get(owner.key)
        if state != former:
            if now.transient and not at_once:
                remaining = self._settling.remaining(owner.key, (owner.uid, now.reason))
                if remaining is not None:
                    return remaining, False
            self._reported[owner.key] = state
            if former is not None or not now.ready or state[1] == "Paused":
                record = self._recorder.normal if now.ready else self._recorder.warning
                record(about(self._owners.kind, owner), state[1], message)
        self._settling.forget(owner.key)
        ours = Condition(self._foreign.condition, now.ready, state[1], message)
        return await self.write_state(owner, ours), False

    async def write_state(self, owner: Owner, state: Condition | None) -> float | None:
        """Write the state into the object, or take it away; return the seconds until then, if any.

        What others take away again comes back after a while, which is longer each time.
        """
        entry = written({}, owner.generation, state) if state is not None else {}
        text = spelled(entry) if entry else ""
        if self._foreign.annotation:
            text = text.partition(" ")[2]
        elif not self._foreign.condition:
            return None
        if owner.annotated == text or not (entry or owner.stated):
            return None
        written_state = hash((owner.uid, text))
        if entry and (wait := self._repeats.remaining(owner.key, written_state)) is not None:
            return wait
        if self._foreign.condition:
            await self._apply(owner, state)
        else:
            changes = {"metadata": {"annotations": {self._foreign.annotation: text or None}}}
            await self._owners.patch(owner.key, str(owner.version), changes, role=STATE)
        if entry:
            self._repeats.wrote(owner.key, written_state)
        return None

    async def _apply(self, owner: Owner, state: Condition | None) -> None:
        """Apply our condition alone, or none: those of others stay."""
        kind, (namespace, name) = self._owners.kind, owner.key
        live = await self._client.ask("GET", kind.at(owner.key))
        former = condition(live.get("status") or {}, self._foreign.condition)
        conditions = [written(former, owner.generation, state)] if state is not None else []
        for each in conditions:  # few kinds have it, and an API server refuses what is unknown
            del each["observedGeneration"]
        metadata = {"name": name, "uid": owner.uid}
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": metadata | ({"namespace": namespace} if namespace else {}),
            **({"status": {"conditions": conditions}} if conditions else {}),
        }
        query = urlencode({"fieldManager": f"{self._client.manager}{STATE}"})
        path = kind.at(owner.key, "status")
        try:
            raw = await self._client.request(
                "PATCH", path, body, content_type=APPLY_PATCH, query=query
            )
        except ApiError as error:
            if error.status not in (404, 409) and "not declared in schema" not in error.message:
                raise
            # Only another CRD or another manager of that condition can help.
            raise ApiError("PATCH", path, 422, error.reason, error.message) from error
        self._owners.learn(raw)

    async def write_unreadable(self, skipped: Unreadable) -> None:
        """Report that an object cannot be read."""
        owner = Owner(skipped.key, skipped.uid, skipped.version, 0, False, (), {}, None, (), "", 0)
        reference = about(self._owners.kind, owner)
        self._recorder.warning(reference, "Unreadable", skipped.reason)
