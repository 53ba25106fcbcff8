from dataclasses import replace

import pytest

from message_operator import messages, pods
from message_operator.messages import State
from tests.unit.samples import message, raw_pod

RUNNING = pods.record(raw_pod(message()))
THEN = "2020-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("pod", "phase", "reason"),
    [
        (None, "Pending", "PodMissing"),
        (RUNNING, "Processed", "PodRunning"),
        (replace(RUNNING, deleting=True), "Pending", "PodTerminating"),
        (replace(RUNNING, ready=False), "Pending", "PodPending"),
        (replace(RUNNING, ready=False, reason="Unschedulable"), "Pending", "Unschedulable"),
        (replace(RUNNING, ready=False, reason="ImagePullBackOff"), "Failed", "ImagePullBackOff"),
    ],
)
def test_the_pod_tells_how_its_message_fares(pod: pods.Pod | None, phase: str, reason: str) -> None:
    found = messages.state(pod)

    assert (found.phase, found.reason) == (phase, reason)
    assert found.message


def former(status: str) -> dict[str, object]:
    return {"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": THEN}]}


def test_the_transition_time_moves_only_with_the_condition() -> None:
    same = messages.status(message(status=former("True")), RUNNING, messages.state(RUNNING))
    moved = messages.status(message(status=former("False")), RUNNING, messages.state(RUNNING))

    assert same["conditions"][0]["lastTransitionTime"] == THEN
    assert moved["conditions"][0]["lastTransitionTime"] > THEN


def test_conditions_of_others_are_kept() -> None:
    other = {"type": "Approved", "status": "True"}

    status = messages.status(message(status={"conditions": [other]}), None, messages.state(None))

    assert other in status["conditions"]


def test_a_status_that_says_the_same_is_not_written() -> None:
    status = messages.status(message(), RUNNING, messages.state(RUNNING))

    assert not messages.differs(message(status=status), status)
    assert messages.differs(message(status={**status, "phase": "Failed"}), status)


def test_no_node_is_taken_away_not_left_behind() -> None:
    assert messages.status(message(), None, messages.state(None))["nodeName"] is None


def test_an_endless_note_is_cut_to_what_a_condition_may_have() -> None:
    status = messages.status(message(), None, State("Failed", "Invalid", "x" * 5000))

    assert len(status["conditions"][0]["message"]) == 1024


@pytest.mark.parametrize(
    ("reason", "told"), [("Forbidden", "Forbidden"), ("0 of 3 nodes!", "of3nodes"), ("", "Unknown")]
)
def test_a_reason_is_always_one_that_a_condition_may_have(reason: str, told: str) -> None:
    status = messages.status(message(), None, State("Failed", reason, "…"))

    assert status["conditions"][0]["reason"] == told
