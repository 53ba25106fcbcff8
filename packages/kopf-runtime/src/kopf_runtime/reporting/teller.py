"""Tells the state of an object whose status is somebody else's: by Events, and by an annotation.

Nothing is told of an object that is well from the start, so neither a start nor a change of the
leader writes anything.
"""

from typing import Any

from kopf_runtime.declaring.conditions import Status, condition
from kopf_runtime.declaring.kinds import Key
from kopf_runtime.declaring.records import Owner, Unreadable
from kopf_runtime.reporting.deps import Deps
from kopf_runtime.reporting.events import about
from kopf_runtime.reporting.status_writer import Settling
from kopf_runtime.watching.source import Source

#: The end of the name of the manager of the annotation.
STATE = "-state"


class Teller:
    """Tells the states of the objects of one kind, in place of a `StatusWriter`."""

    def __init__(self, deps: Deps, owners: Source[Owner], annotation: str) -> None:
        self._recorder, self._owners, self._annotation = deps.recorder, owners, annotation
        self._settling = Settling()
        #: What was told last: whether it is ready, and the reason.
        self._told: dict[Key, tuple[bool, str]] = {}
        self.sending: frozenset[Key] = frozenset()  # nothing of it is in the status
        metrics = deps.metrics
        metrics.unready.labels(metrics.name_of(owners.kind)).set_function(
            lambda: sum(not ready for ready, _ in self._told.values())
        )

    def forget(self, key: Key) -> None:
        """Forget an object that is gone."""
        self._settling.forget(key)
        self._told.pop(key, None)

    async def write(
        self, owner: Owner, now: Status, wanted: dict[str, Any], *, at_once: bool = False
    ) -> tuple[float | None, bool]:
        """Tell the state if it differs from what was told, and a transient one once it has lasted.

        Return the seconds until then, and that no Event is needed: this is one.
        """
        paused = condition(wanted, "Paused")
        state, message = (now.ready, now.reason), now.message
        if paused.get("status") == "True":
            state, message = (now.ready, "Paused"), str(paused.get("message"))
        former = self._told.get(owner.key)
        if state != former:
            if now.transient and not at_once:
                remaining = self._settling.remaining(owner.key, now.reason)
                if remaining is not None:
                    return remaining, False
            self._told[owner.key] = state
            if former is not None or not now.ready or state[1] == "Paused":
                tell = self._recorder.normal if now.ready else self._recorder.warning
                tell(about(self._owners.kind, owner), state[1], message)
        self._settling.forget(owner.key)
        if self._annotation:
            await self._annotate(owner, f"{state[1]}: {message}")
        return None, False

    async def _annotate(self, owner: Owner, text: str) -> None:
        if owner.annotated != text:
            changes = {"metadata": {"annotations": {self._annotation: text}}}
            await self._owners.patch(owner.key, str(owner.version), changes, role=STATE)

    async def write_unreadable(self, left_out: Unreadable) -> None:
        """Tell that an object cannot be read."""
        owner = Owner(
            left_out.key, left_out.uid, left_out.version, 0, False, (), {}, None, (), "", 0
        )
        reference = about(self._owners.kind, owner)
        self._recorder.warning(reference, "Unreadable", left_out.reason)
