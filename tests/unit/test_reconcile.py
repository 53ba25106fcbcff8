import copy
import re
from typing import Any

import pytest

from message_operator import messages, pods, reconcile
from message_operator.cache import Cache
from message_operator.messages import Message
from message_operator.pods import Pod
from message_operator.queue import RetryError
from message_operator.reconcile import Reconciler, Step, plan
from tests.unit.fake_api import FakeApi
from tests.unit.samples import SETTINGS, edited, message, raw_message, raw_pod

POD = "/api/v1/namespaces/ns/pods/msg-hello"
MESSAGE = "/apis/myorg.dev/v1/namespaces/ns/messages/hello"
KEY = ("ns", "hello")


class Recorded:
    """Remembers the Events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def normal(self, _: dict[str, Any], reason: str, text: str) -> None:
        self.events.append((reason, text))

    warning = normal


class World:
    """A reconciler, and an API server whose every change it sees at once."""

    def __init__(self) -> None:
        self.api, self.recorded = FakeApi(), Recorded()
        self.blind = False  # whether the watch of the Pods lags behind
        self._shown: dict[str, Any] | None = None  # the Pod as the watch last told of it
        self.messages: Cache[Message] = Cache(messages.record)
        self.pods: Cache[Pod] = Cache(pods.record)
        self.reconciler = Reconciler(
            self.api, SETTINGS, self.messages, self.pods,
            self.recorded,  # type: ignore[arg-type]
        )  # fmt: skip

    def see(self) -> None:
        """Do the watches' job: they tell of all Messages, and of the Pods with our label."""
        self.messages.observe(self.api.objects[MESSAGE])
        pod = self.api.objects.get(POD)
        if self.blind:
            return
        if pod and pods.MANAGED in (pod["metadata"].get("labels") or {}).items():
            self.pods.observe(pod)
            self._shown = copy.deepcopy(pod)
        elif self._shown:  # it went, or lost its label: either way it is told once, as deleted
            self.pods.forget(self._shown)
            self._shown = None

    async def reconcile(self) -> float | None:
        self.see()
        return await self.reconciler.reconcile(KEY)

    async def settle(self) -> None:
        """Reconcile until nothing is written any more."""
        for _ in range(10):
            before = len(self.api.writes)
            try:
                await self.reconcile()
            except RetryError:
                continue
            if len(self.api.writes) == before:
                return
        raise AssertionError(f"it never settled: {self.api.writes}")

    def run_pod(self) -> None:
        """Do the scheduler's and the kubelet's job."""
        raw = self.api.objects[POD]
        raw["spec"]["nodeName"] = "node-1"
        raw["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        self.api.put(POD, raw)

    def edit(self, text: str) -> None:
        raw = self.api.objects[MESSAGE]
        raw["spec"]["text"] = text
        raw["metadata"]["generation"] += 1
        self.api.put(MESSAGE, raw)

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.api.objects[MESSAGE].get("status") or {}
        return found

    @property
    def text(self) -> str:
        value: str = self.api.objects[POD]["spec"]["containers"][0]["env"][0]["value"]
        return value

    @property
    def ready(self) -> dict[str, Any]:
        (condition,) = self.status["conditions"]
        found: dict[str, Any] = condition
        return found


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile, "SETTLE", 0.0)


@pytest.fixture
def world() -> World:
    world = World()
    world.api.put(MESSAGE, raw_message("하나"))
    return world


# --- plan() -------------------------------------------------------------------------------------


def test_plan_creates_a_missing_pod() -> None:
    one = message()

    assert plan(one, None, pods.build(one, SETTINGS)).step is Step.CREATE


def test_plan_keeps_the_right_pod() -> None:
    one = message()

    assert plan(one, pods.record(raw_pod(one)), pods.build(one, SETTINGS)).step is Step.KEEP


def test_plan_waits_for_a_pod_on_its_way_out() -> None:
    one = message()
    pod = pods.record(raw_pod(one, deletionTimestamp="2026-01-01T00:00:00Z"))

    assert plan(one, pod, pods.build(one, SETTINGS)).step is Step.WAIT


def test_plan_never_adopts_nor_deletes_the_pod_of_a_former_message() -> None:
    former, one = message(), messages.record(raw_message() | {"metadata": {
        **raw_message()["metadata"], "uid": "another"}})  # fmt: skip

    assert plan(one, pods.record(raw_pod(former)), pods.build(one, SETTINGS)).step is Step.WAIT


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"text": "new", "generation": 2}, "the Message was edited"),
        ({"text": "new", "status": {"observedGeneration": 1}}, "its Pod's template changed"),
    ],
)
def test_plan_replaces_a_pod_of_another_template(change: dict[str, Any], why: str) -> None:
    pod = pods.record(raw_pod(message("old")))
    now = message(**change)

    step = plan(now, pod, pods.build(now, SETTINGS))

    assert step == reconcile.Plan(Step.DELETE, "Replaced", why)


def test_plan_replaces_a_pod_that_has_ended() -> None:
    one, raw = message(), raw_pod(message())
    raw["status"] = {"phase": "Failed", "reason": "Evicted"}

    step = plan(one, pods.record(raw), pods.build(one, SETTINGS))

    assert step == reconcile.Plan(Step.DELETE, "Healed", "its Pod had ended (Evicted)")


def alter_image(pod: dict[str, Any]) -> None:
    pod["spec"]["containers"][0]["image"] = "other"


def alter_deadline(pod: dict[str, Any]) -> None:
    pod["spec"]["activeDeadlineSeconds"] = 60


def alter_label(pod: dict[str, Any]) -> None:
    pod["metadata"]["labels"]["app.kubernetes.io/name"] = "other"


def alter_owner(pod: dict[str, Any]) -> None:
    pod["metadata"]["ownerReferences"] = []


@pytest.mark.parametrize("alter", [alter_image, alter_deadline, alter_label, alter_owner])
def test_plan_replaces_a_pod_that_a_hand_altered(alter: Any) -> None:
    one, raw = message(), raw_pod(message())
    alter(raw)

    step = plan(one, pods.record(edited(raw)), pods.build(one, SETTINGS))

    assert step == reconcile.Plan(Step.DELETE, "Healed", "its Pod was altered by kubectl-edit")


@pytest.mark.parametrize(
    "path",
    [
        *(("labels", label) for label in sorted(pods.LABELS - {pods.MANAGED[0]})),
        *(("labels",), ("ownerReferences",)),
    ],
)
def test_plan_replaces_a_pod_that_something_was_taken_away_from(path: tuple[str, ...]) -> None:
    one, raw = message(), raw_pod(message())
    where = raw["metadata"]["labels"] if len(path) == 2 else raw["metadata"]
    del where[path[-1]]  # the API server notes no manager for that

    step = plan(one, pods.record(raw), pods.build(one, SETTINGS))

    assert step == reconcile.Plan(Step.DELETE, "Healed", "its Pod was altered")


@pytest.mark.parametrize("alter", [alter_image, alter_deadline, alter_label])
def test_plan_accepts_what_admission_made_of_the_pod(alter: Any) -> None:
    one, raw = message(), raw_pod(message())
    alter(raw)  # and nobody but its creator changed it: a webhook, at admission

    assert plan(one, pods.record(raw), pods.build(one, SETTINGS)).step is Step.KEEP


def test_plan_accepts_what_others_add_to_the_pod() -> None:
    one, raw = message(), raw_pod(message())
    raw["metadata"]["labels"]["team"] = "blue"
    raw["metadata"]["annotations"]["seen"] = "true"

    step = plan(one, pods.record(edited(raw, "kubectl-label")), pods.build(one, SETTINGS))

    assert step.step is Step.KEEP


# --- the reconciler -----------------------------------------------------------------------------


async def test_a_new_message_gets_its_pod_and_one_status(world: World) -> None:
    await world.reconcile()
    world.run_pod()
    await world.settle()

    assert world.text == "하나"
    assert world.status["phase"] == "Processed"
    assert world.status["observedGeneration"] == 1
    assert (world.status["podName"], world.status["nodeName"]) == ("msg-hello", "node-1")
    assert (world.ready["status"], world.ready["reason"]) == ("True", "PodRunning")
    assert world.recorded.events == [("Created", "Created Pod msg-hello.")]


async def test_once_all_is_right_nothing_is_written(world: World) -> None:
    await world.reconcile()
    world.run_pod()
    await world.settle()
    before = list(world.api.writes)

    for _ in range(3):
        await world.reconcile()

    assert world.api.writes == before


async def test_a_pod_that_runs_soon_costs_one_status(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "SETTLE", 60.0)

    look_again = await world.reconcile()
    world.run_pod()
    await world.settle()

    assert look_again is not None
    assert 0 < look_again <= 60
    kinds = [re.sub(r"/\S*/", "", write) for write in world.api.writes]
    assert kinds == ["POST pods", "PATCH status"]


async def test_an_edit_replaces_the_pod(world: World) -> None:
    await world.settle()
    world.run_pod()
    await world.settle()
    uid = world.api.objects[POD]["metadata"]["uid"]

    world.edit("둘")
    await world.reconcile()
    del world.api.objects[POD]  # the kubelet is done with it
    await world.settle()
    world.run_pod()
    await world.settle()

    assert world.text == "둘"
    assert world.api.objects[POD]["metadata"]["uid"] != uid
    assert world.status["observedGeneration"] == 2
    assert world.recorded.events[-1] == (
        "Replaced", "Replaced Pod msg-hello: the Message was edited."
    )  # fmt: skip


async def test_a_burst_of_edits_ends_with_the_last(world: World) -> None:
    await world.settle()
    for text in ("둘", "셋", "넷"):
        world.edit(text)
        await world.reconcile()
    await world.settle()

    assert world.text == "넷"


async def test_a_lost_pod_comes_back(world: World) -> None:
    await world.settle()
    del world.api.objects[POD]

    await world.settle()

    assert POD in world.api.objects
    assert world.recorded.events[-1] == ("Healed", "Created Pod msg-hello again: its Pod was gone.")


async def test_an_evicted_pod_is_replaced(world: World) -> None:
    await world.settle()
    raw = world.api.objects[POD]
    raw["status"] = {"phase": "Failed", "reason": "Evicted"}
    world.api.put(POD, raw)

    await world.settle()

    assert "status" not in world.api.objects[POD]
    assert world.recorded.events[-1][1].endswith("its Pod had ended (Evicted).")


async def test_a_pod_without_its_label_is_found_again_and_replaced(world: World) -> None:
    await world.settle()
    raw = world.api.objects[POD]
    del raw["metadata"]["labels"]["app.kubernetes.io/managed-by"]
    raw["metadata"]["managedFields"] = []
    old = world.api.put(POD, edited(raw))

    await world.settle()

    assert world.api.objects[POD]["metadata"]["uid"] != old["metadata"]["uid"]
    assert pods.MANAGED in world.api.objects[POD]["metadata"]["labels"].items()
    assert "altered by kubectl-edit" in world.recorded.events[-1][1]


async def test_a_running_pod_without_its_label_is_replaced_once_it_has_ended(world: World) -> None:
    await world.settle()
    world.run_pod()
    await world.settle()
    raw = world.api.objects[POD]
    del raw["metadata"]["labels"]["app.kubernetes.io/managed-by"]
    raw["metadata"]["managedFields"] = []
    world.api.put(POD, edited(raw))

    for _ in range(3):  # no watch tells when it has ended: it is looked for
        with pytest.raises(RetryError, match="is not watched and about to end"):
            await world.reconcile()
    del world.api.objects[POD]
    await world.settle()

    assert pods.MANAGED in world.api.objects[POD]["metadata"]["labels"].items()
    assert "altered by kubectl-edit" in world.recorded.events[-1][1]


async def test_a_pod_orphaned_on_purpose_is_a_conflict(world: World) -> None:
    raw = raw_pod(message("하나"))
    raw["metadata"]["labels"][pods.OWNER] = "uid-of-the-former-message"
    del raw["metadata"]["ownerReferences"]  # as `kubectl delete --cascade=orphan` leaves it
    world.api.put(POD, raw)

    assert await world.reconcile() == reconcile.CONFLICT_RETRY

    assert POD in world.api.objects
    assert world.ready["reason"] == "Conflict"


async def test_a_foreign_pod_is_left_alone_and_the_conflict_told_once(world: World) -> None:
    foreign = {"metadata": {"namespace": "ns", "name": "msg-hello"},
               "spec": {"containers": [{"name": "c", "image": "i"}]}}  # fmt: skip
    world.api.put(POD, foreign)

    for _ in range(3):
        assert await world.reconcile() == reconcile.CONFLICT_RETRY

    assert world.api.objects[POD]["spec"] == foreign["spec"]
    assert world.status["phase"] == "Failed"
    assert world.ready["reason"] == "Conflict"
    assert [reason for reason, _ in world.recorded.events] == ["Conflict"]
    assert len(world.api.writes) == 2  # the POST that met it, the status; then only looks


async def test_a_conflict_ends_when_the_foreign_pod_goes(world: World) -> None:
    world.api.put(POD, {"metadata": {"namespace": "ns", "name": "msg-hello"},
                        "spec": {"containers": []}})  # fmt: skip
    await world.reconcile()

    del world.api.objects[POD]
    await world.settle()

    assert world.text == "하나"
    assert world.ready["reason"] != "Conflict"


async def test_a_message_on_its_way_out_is_left_to_the_garbage_collector(world: World) -> None:
    raw = world.api.objects[MESSAGE]
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.api.put(MESSAGE, raw)

    await world.reconcile()

    assert world.api.writes == []


async def test_a_quota_is_told_and_tried_again_later(world: World) -> None:
    world.api.refuse("POST", 403, "Forbidden")

    with pytest.raises(RetryError):
        await world.reconcile()

    assert world.status["phase"] == "Failed"
    assert (world.ready["reason"], world.ready["message"]) == ("Forbidden", "Forbidden it is")
    assert world.recorded.events == [("Refused", "Forbidden it is")]
    assert world.status["podName"] is None

    await world.settle()  # and with the quota lifted, all is well without a touch

    assert POD in world.api.objects
    assert world.ready["reason"] != "Forbidden"
    assert world.recorded.events[1:] == [("Created", "Created Pod msg-hello.")]


async def test_too_many_requests_are_no_failure_of_the_message(world: World) -> None:
    world.api.refuse("POST", 429, "TooManyRequests", after=3)

    with pytest.raises(RetryError) as retry:
        await world.reconcile()

    assert retry.value.after == 3
    assert world.status == {}
    assert world.recorded.events == []


@pytest.mark.parametrize(("method", "status"), [("POST", 500), ("POST", 0), ("PATCH", 409)])
async def test_a_refused_write_is_made_good(world: World, method: str, status: int) -> None:
    world.api.refuse(method, status, "Trouble")

    await world.settle()

    assert POD in world.api.objects
    assert world.status["phase"] == "Pending"


async def test_an_answer_that_was_lost_makes_no_second_pod(world: World) -> None:
    world.see()
    wanted = pods.build(message("하나"), SETTINGS)
    world.api.put(POD, wanted)
    world.blind = True

    await world.reconcile()

    assert world.text == "하나"
    assert [write for write in world.api.writes if write.startswith("DELETE")] == []


async def test_a_status_altered_by_hand_is_repaired(world: World) -> None:
    await world.settle()
    world.run_pod()
    await world.settle()
    raw = world.api.objects[MESSAGE]
    raw["status"] = {**raw["status"], "phase": "Failed", "podName": "other"}
    world.api.put(MESSAGE, raw)

    await world.settle()

    assert (world.status["phase"], world.status["podName"]) == ("Processed", "msg-hello")


async def test_old_news_of_a_message_delete_no_pod_that_was_made_for_a_later_one(
    world: World,
) -> None:
    await world.settle()
    world.edit("둘")
    await world.settle()
    old = messages.record(raw_message("하나", version=1))
    world.messages.clear(None)
    world.messages.observe({**raw_message("하나", version=1)})
    old_writes = list(world.api.writes)

    with pytest.raises(RetryError):
        await world.reconciler.reconcile(old.key)

    assert world.api.writes == old_writes
    await world.settle()
    assert world.text == "둘"


async def test_a_generation_that_a_hand_altered_does_not_hold_up_an_edit(world: World) -> None:
    await world.settle()
    raw = world.api.objects[POD]
    raw["metadata"]["annotations"][pods.GENERATION] = "99"
    world.api.put(POD, raw)
    world.edit("둘")

    await world.settle()

    assert world.text == "둘"


async def test_a_pod_that_does_not_end_is_told_of(world: World) -> None:
    await world.settle()
    world.run_pod()
    raw = world.api.objects[POD]
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.api.put(POD, raw)

    await world.settle()

    assert world.ready["reason"] == "PodStuckTerminating"
    assert "node-1" in world.ready["message"]
