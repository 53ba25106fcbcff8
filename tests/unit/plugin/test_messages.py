"""A Message is read as the operator wrote it; what it has not seen yet is not taken for well."""

from typing import Any

import pytest

from kopf_kit.kubectl.objects import NOT_SEEN
from kopf_kit.kubectl.status import DELETING, fitting
from kubectl_message import status
from kubectl_message.messages import state

#: As kubectl printed it on a cluster of Kubernetes 1.36.
WELL: dict[str, Any] = {
    "apiVersion": "myorg.dev/v1",
    "kind": "Message",
    "metadata": {
        "creationTimestamp": "2026-11-21T02:10:20Z",
        "generation": 5,
        "name": "hello-msg",
        "namespace": "default",
    },
    "spec": {"intervalSeconds": 10, "text": "안녕하세요, 오퍼레이터!"},
    "status": {
        "conditions": [
            {
                "lastTransitionTime": "2026-11-21T02:10:24Z",
                "message": "The Pod prints the text.",
                "observedGeneration": 5,
                "reason": "PodRunning",
                "status": "True",
                "type": "Ready",
            }
        ],
        "nodeName": "message-operator-control-plane",
        "observedGeneration": 5,
        "phase": "Processed",
        "podName": "msg-hello-msg",
        "summary": "안녕하세요, 오퍼레이터!",
    },
}


def test_a_message_that_prints_is_read() -> None:
    one = state(WELL)

    assert one.prints
    assert (one.pod, one.interval, one.reason) == ("msg-hello-msg", 10, "PodRunning")
    assert status.why(one) == ""


def test_what_the_operator_said_of_an_older_message_counts_for_nothing() -> None:
    edited = {**WELL, "metadata": {**WELL["metadata"], "generation": 6}}

    one = state(edited)

    assert not one.prints
    assert (one.phase, one.reason, one.edited) == ("", "", True)
    assert status.why(one) == str(NOT_SEEN)


def test_a_message_without_a_status_is_waiting() -> None:
    bare = {key: value for key, value in WELL.items() if key != "status"}

    assert state(bare).phase == ""
    assert "Pending" not in status.picture([state(bare)], everywhere=False)[1]


@pytest.mark.parametrize("kept", [{}, WELL["status"]], ids=["new", "it printed before"])
def test_a_message_that_cannot_be_read_fails(kept: dict[str, Any]) -> None:
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "Unreadable",
        "message": "text: 1",
        "observedGeneration": 5,
    }

    one = state({**WELL, "status": {**kept, "conditions": [condition]}})

    assert one.phase == "Failed"
    assert not one.prints
    assert status.why(one).startswith("Unreadable: ")


def test_the_sum_counts_each_message_once() -> None:
    deleted = {**WELL, "metadata": {**WELL["metadata"], "deletionTimestamp": "x", "name": "b"}}

    lines = status.picture([state(WELL), state(deleted)], everywhere=True)

    assert lines[-1].startswith("Messages: 2 (2 print, 0 wait, 0 fail).")
    assert lines[1].startswith("default     b ")
    assert lines[1].endswith(str(DELETING))


def test_messages_in_trouble_come_first() -> None:
    waiting = {**WELL, "metadata": {**WELL["metadata"], "generation": 6, "name": "waiting"}}

    lines = status.picture([state(WELL), state(waiting)], everywhere=False)

    assert [line.split()[0] for line in lines[1:3]] == ["waiting", "hello-msg"]


def test_a_table_that_is_longer_than_the_terminal_keeps_its_sum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LINES", "10")
    monkeypatch.setenv("COLUMNS", "80")
    lines = status.picture([state(WELL)] * 50, everywhere=False)

    shown = fitting(lines)

    assert len(shown) < 10
    assert shown[-1] == lines[-1]
    assert fitting(lines[:3]) == lines[:3]
