"""Brings one Message and its Pod together: ``plan()`` decides, ``Reconciler`` does that one step.

The work queue calls ``Reconciler.reconcile`` with a key. Everything is decided on what is observed
now (level-triggered): whatever was missed, repeated or interrupted before, the next step is right.
Whoever copies this project replaces this module, ``messages`` and ``pods``.
"""

import logging
import time
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from message_operator import messages, pods
from message_operator.cache import Cache, Key
from message_operator.events import Recorder
from message_operator.kube import MERGE_PATCH, Api, ApiError
from message_operator.messages import Message, State
from message_operator.pods import Pod
from message_operator.queue import RetryError
from message_operator.settings import Settings

logger = logging.getLogger(__name__)

#: Seconds for which a passing state ("the Pod is starting") must stand before it is written:
#: most Pods run before that, and their Message is written to once, not twice.
SETTLE = 1.0
#: Seconds after which a foreign Pod is looked at again: it is not watched.
CONFLICT_RETRY = 5.0


class Step(Enum):
    """The one next step for a Message."""

    CREATE = auto()
    DELETE = auto()  # the Pod is not what it should be: another follows once it is gone
    DOUBT = auto()  # the Pod was made for a later Message than is known
    WAIT = auto()  # the former Pod is on its way out
    KEEP = auto()


@dataclass(frozen=True, slots=True)
class Plan:
    """A step; for DELETE also the reason and the words of the Event that the next Pod brings."""

    step: Step
    reason: str = ""
    why: str = ""


def plan(message: Message, pod: Pod | None, wanted: dict[str, Any]) -> Plan:
    """Decide the next step. ``wanted`` is the manifest of the right Pod."""
    if pod is None:
        return Plan(Step.CREATE)
    if pod.deleting:
        return Plan(Step.WAIT)
    if pod.owner != message.uid:
        # The Pod of a former Message of this name: the garbage collector's. Deleting it here
        # could hit the right one, if it is our Message that is out of date.
        return Plan(Step.WAIT)
    if pod.finished:
        return Plan(Step.DELETE, "Healed", f"its Pod had ended ({pod.finished})")
    if pod.template != wanted["metadata"]["annotations"][pods.TEMPLATE] and (
        pod.generation > message.generation
    ):
        return Plan(Step.DOUBT)
    if pod.template != wanted["metadata"]["annotations"][pods.TEMPLATE]:
        if message.status.get("observedGeneration") != message.generation:
            return Plan(Step.DELETE, "Replaced", "the Message was edited")
        return Plan(Step.DELETE, "Replaced", "its Pod's template changed")
    if pod.stripped or (pod.editors and pod.shape != pods.shape(wanted)):
        return Plan(Step.DELETE, "Healed", pod.altered)
    return Plan(Step.KEEP)


class Reconciler:
    """Does the planned step, tells the status and the Events of it."""

    def __init__(
        self, api: Api, settings: Settings, known: Cache[Message], living: Cache[Pod],
        recorder: Recorder,
    ) -> None:  # fmt: skip
        self._api = api
        self._settings = settings
        self._messages = known
        self._pods = living
        self._recorder = recorder
        self._foreign: set[Key] = set()  # Messages whose Pod's name is taken
        self._deleted: dict[Key, Plan] = {}  # why the Pod was deleted, until the next one is there
        self._unsettled: dict[Key, tuple[State, float]] = {}  # a passing state, and since when

    async def reconcile(self, key: Key) -> float | None:
        """Take the next step for the Message of this key.

        Returns the seconds after which to look again, None if an event will tell.
        Raises ``RetryError`` for what may succeed later.
        """
        message = self._messages.get(key)
        if message is None or message.deleting:
            self._foreign.discard(key)
            self._deleted.pop(key, None)
            self._unsettled.pop(key, None)
            return None  # the garbage collector takes the Pod
        pod = self._pods.get((key[0], pods.pod_name(key[1])))
        if pod is None and key in self._foreign:
            pod = await self._look(message)
        wanted = pods.build(message, self._settings)
        step = plan(message, pod, wanted)
        try:
            match step.step:
                case Step.CREATE:
                    pod = await self._create(message, wanted)
                case Step.DOUBT if pod is not None:
                    pod = await self._doubt(message, pod)
                case Step.DELETE if pod is not None:
                    pod = await self._delete(message, pod, step)
                    if pod is None:
                        return 0.0
        except ApiError as error:
            await self._refused(message, pod, error)
        if pod is not None and pod.owner != message.uid:
            return await self._conflict(message, pod)
        now = time.time()
        again = await self._tell(message, pod, messages.state(pod, now))
        overdue = pod.deadline + messages.OVERDUE - now if pod is not None and pod.deleting else 0.0
        return overdue + 1.0 if again is None and overdue > 0 else again

    async def _create(self, message: Message, wanted: dict[str, Any]) -> Pod | None:
        namespace, name = message.key[0], wanted["metadata"]["name"]
        try:
            raw = await self._api.request("POST", pods.path(namespace), wanted)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            return await self._taken(message)
        pod = self._seen(raw)
        logger.info("created Pod %s", name)
        self._announce(message, name)
        return pod

    def _announce(self, message: Message, name: str) -> None:
        """Post the Event of a Pod that was created."""
        former = self._deleted.pop(message.key, None)
        if former is None and not message.status.get("podName"):
            self._recorder.normal(message.reference, "Created", f"Created Pod {name}.")
            return
        if former is None:  # not our doing, or our predecessor's
            former = Plan(Step.DELETE, "Healed", "its Pod was gone")
        done = (
            f"Replaced Pod {name}" if former.reason == "Replaced" else f"Created Pod {name} again"
        )
        self._recorder.normal(message.reference, former.reason, f"{done}: {former.why}.")

    async def _taken(self, message: Message) -> Pod | None:
        """Look at a Pod that the cache does not know: not seen yet, relabelled, or foreign."""
        pod = await self._look(message)
        if pod is None:
            raise RetryError("a Pod of that name came and went")
        if pod.owner == message.uid and self._pods.get(pod.key) is None:
            if not pod.deleting:
                await self._delete(message, pod, Plan(Step.DELETE, "Healed", pod.altered))
            raise RetryError(f"Pod {pod.key[1]} is not watched and about to end", after=SETTLE)
        return pod

    async def _look(self, message: Message) -> Pod | None:
        """Ask for the Pod that has the name; None if there is none."""
        target = pods.path(message.key[0], pods.pod_name(message.key[1]))
        self._foreign.discard(message.key)
        try:
            raw = await self._api.request("GET", target)
        except ApiError as error:
            if error.status == 404:
                return None
            raise RetryError(str(error), after=error.after) from error
        pod = self._seen(raw)
        if pod is not None and pod.owner != message.uid and self._pods.get(pod.key) is None:
            self._foreign.add(message.key)
        return pod

    def _seen(self, raw: dict[str, Any]) -> Pod | None:
        """Take in what the API server answered, so that a stale echo cannot make us act twice.

        A Pod without our label is not remembered: no watch would tell when it goes.
        """
        if pods.MANAGED not in (raw["metadata"].get("labels") or {}).items():
            return pods.record(raw)
        self._pods.observe(raw)
        return self._pods.get((raw["metadata"]["namespace"], raw["metadata"]["name"]))

    async def _delete(self, message: Message, pod: Pod, step: Plan) -> Pod | None:
        """Delete just this Pod; the next step follows when it is gone."""
        body = {"preconditions": {"uid": pod.uid}}
        try:
            raw = await self._api.request("DELETE", pods.path(*pod.key), body)
        except ApiError as error:
            if error.status == 404:
                self._pods.drop(pod)
                raise RetryError(f"Pod {pod.key[1]} is gone already") from None
            raise
        logger.info("deleted Pod %s: %s", pod.key[1], step.why)
        self._deleted[message.key] = step
        if "deletionTimestamp" not in (raw.get("metadata") or {}):  # it never ran: gone at once
            self._pods.drop(pod)
            return None
        return self._seen(raw) or pods.record(raw)

    async def _doubt(self, message: Message, pod: Pod) -> Pod | None:
        """Ask for the Message itself, for it seems to be old news, and by such no Pod is deleted.

        This is answered from etcd, however late the watch may be. Only if there is no later
        Message is it the Pod that is wrong.
        """
        raw = await self._api.request("GET", messages.path(*message.key))
        self._messages.observe(raw)
        if messages.record(raw).generation >= pod.generation:
            raise RetryError("the Message was edited meanwhile")
        return await self._delete(
            message, pod, Plan(Step.DELETE, "Healed", "its Pod's generation was altered")
        )

    async def _conflict(self, message: Message, pod: Pod) -> float | None:
        """Leave somebody else's Pod alone, and say so; a former Message's is collected soon."""
        if pod.owner is not None and not pod.orphan:
            await self._tell(
                message, None,
                State("Pending", "PodTerminating", "The former Message's Pod is about to go."),
            )  # fmt: skip
            return CONFLICT_RETRY
        note = (
            f"Pod {pod.key[1]} exists and does not belong to this Message. It is left alone. "
            "Delete or rename that Pod, or give the Message another name."
        )
        now = State("Failed", "Conflict", note)
        if await self._write(message, None, now):
            self._recorder.warning(message.reference, now.reason, note)
        return CONFLICT_RETRY

    async def _refused(self, message: Message, pod: Pod | None, error: ApiError) -> None:
        """Tell that the API server refused a write, then have it tried again."""
        if error.status in (400, 403, 413, 422):  # waiting alone will not help: tell the user
            now = State("Failed", error.reason or "Refused", error.message)
            if await self._write(message, pod, now):
                self._recorder.warning(message.reference, "Refused", error.message)
        raise RetryError(str(error), after=error.after) from error

    async def _tell(self, message: Message, pod: Pod | None, now: State) -> float | None:
        """Write the status; a passing one only once it has settled."""
        if now.phase == "Pending":
            was, since = self._unsettled.get(message.key, (None, 0.0))
            if was != now:
                since = time.monotonic()
                self._unsettled[message.key] = now, since
            remaining = SETTLE - (time.monotonic() - since)
            if remaining > 0:
                return remaining
        else:
            self._unsettled.pop(message.key, None)
        await self._write(message, pod, now)
        return None

    async def _write(self, message: Message, pod: Pod | None, now: State) -> bool:
        """Write the status if it differs; tells whether its Ready condition says something new."""
        wanted = messages.status(message, pod, now)
        if not messages.differs(message, wanted):
            return False
        body = {
            # Only onto the Message that was looked at: a newer one is reconciled anew.
            "metadata": {"resourceVersion": str(message.version)},
            "status": wanted,
        }
        target = messages.path(*message.key, "status")
        try:
            raw = await self._api.request("PATCH", target, body, content_type=MERGE_PATCH)
        except ApiError as error:
            if error.status == 404:
                self._messages.drop(message)
                return False
            raise RetryError(str(error), after=error.after) from error
        self._messages.observe(raw)
        return messages.ready_reason(message.status) != messages.ready_reason(wanted)
