import pytest

import kopf_runtime as kr
from message_operator import messages
from message_operator.messages import Message
from tests.unit.samples import Raw, child, pod_state, primary, status

READY: Raw = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def fields(told: kr.Status) -> messages.Status:
    assert isinstance(told.fields, messages.Status)
    return told.fields


def container(state: Raw, name: str = "message", kind: str = "containerStatuses") -> Raw:
    return {"phase": "Pending", kind: [{"name": name, "state": state}]}


WAITING = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
UNSCHEDULABLE = {
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/3 nodes",
        }
    ]
}


@pytest.mark.parametrize(
    ("pod", "phase", "reason"),
    [
        (READY, "Processed", "PodRunning"),
        ({}, "Pending", "PodPending"),
        (UNSCHEDULABLE, "Pending", "Unschedulable"),
        (container(WAITING), "Failed", "ImagePullBackOff"),
        (container({"waiting": {"reason": "ContainerCreating"}}), "Pending", "ContainerCreating"),
    ],
)
def test_the_pod_tells_how_its_message_fares(pod: Raw, phase: str, reason: str) -> None:
    told = status(child(pod_state(pod)))

    assert (fields(told).phase, told.reason, told.ready) == (phase, reason, phase == "Processed")
    assert told.message


def test_without_a_pod_a_message_waits_for_it() -> None:
    told = status(None)

    assert (fields(told).phase, told.reason, told.ready) == ("Pending", "PodMissing", False)
    assert told.transient
    assert (fields(told).pod_name, fields(told).node_name) == (None, None)


@pytest.mark.parametrize(
    "state", [WAITING, {"terminated": {"reason": "Error", "exitCode": 3, "message": "no route"}}]
)
@pytest.mark.parametrize("kind", ["initContainerStatuses", "containerStatuses"])
def test_l3_trouble_of_a_container_that_admission_added_is_told_with_its_name(
    state: Raw, kind: str
) -> None:
    told = status(child(pod_state(container(state, "istio-proxy", kind))))

    assert "istio-proxy" in told.message
    assert ("no such image" in told.message) or ("exit code 3" in told.message)
    assert not told.ready


def test_l3_an_init_container_that_waits_for_its_turn_is_no_trouble() -> None:
    pod = {
        **container({"waiting": {"reason": "PodInitializing"}}),
        "initContainerStatuses": [{"name": "first", "state": {"terminated": {"exitCode": 0}}}],
    }

    assert status(child(pod_state(pod))).reason == "PodPending"


@pytest.mark.parametrize(
    ("message", "why"),
    [("", "its node may not answer"), ("containers with unready status: [istio-proxy]",) * 2],
)
def test_a_pod_that_has_started_is_not_said_to_be_starting(message: str, why: str) -> None:
    pod = {
        **container({"running": {"startedAt": "2026-01-01T00:00:00Z"}}),
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "False", "message": message}],
    }

    told = status(child(pod_state(pod)))

    assert (told.ready, told.reason) == (False, "PodPending")
    assert told.message == f"The Pod has started, but it is not ready: {why}."


def test_a_status_of_any_shape_is_counted() -> None:
    phases = messages.Phases("messages", lambda: iter([primary({"phase": ["odd"]})]))

    (family,) = phases.collect()

    assert sum(sample.value for sample in family.samples) == 0


def test_a_pod_on_its_way_out_is_waited_for_while_its_grace_lasts() -> None:
    told = status(child(pod_state(READY), deleting=True, deadline=100.0), now=95.0)

    assert (fields(told).phase, told.reason) == ("Pending", "PodTerminating")
    assert told.requeue_after is not None
    assert 100.0 < 95.0 + told.requeue_after < 140.0


def test_l4_a_pod_that_a_finalizer_holds_is_told_by_the_finalizer() -> None:
    pod = child(pod_state(READY), deleting=True, deadline=100.0, finalizers=("a.b/holds",))

    told = status(pod, now=200.0)

    assert (fields(told).phase, told.reason) == ("Failed", "PodStuckTerminating")
    assert "a.b/holds" in told.message
    assert "Node" not in told.message


def test_l4_a_pod_whose_node_does_not_answer_is_told_by_the_node() -> None:
    told = status(child(pod_state(READY), deleting=True, deadline=100.0), now=200.0)

    assert "node-1" in told.message


@pytest.mark.parametrize(("final", "phase"), [(True, "Failed"), (False, "Pending")])
@pytest.mark.parametrize("pod", [None, child(pod_state(READY))])
def test_l1_what_the_api_server_refuses_is_told_in_its_words(
    final: bool, phase: str, pod: kr.Child | None
) -> None:
    told = status(pod, kr.Trouble("InternalError", "failed calling webhook", final))

    assert (fields(told).phase, told.ready) == (phase, False)
    assert (told.reason, told.message) == ("InternalError", "failed calling webhook")
    assert told.transient is not final


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("hello", "hello"),
        ("", ""),
        ("a" * 40, "a" * 40),
        ("a\nb\tc\x1b[2J", "a b c [2J"),
        ("안녕 🌍", "안녕 🌍"),
    ],
)
def test_l5_the_summary_is_the_text_fit_for_a_cell(text: str, shown: str) -> None:
    meta = kr.ObjectMeta("hello", "u", "1")

    assert messages.summary(Message(meta, spec=messages.Spec(text))) == shown


@pytest.mark.parametrize("text", ["a" * 41, "x" * 32768, "🌍" * 8192])
def test_l5_an_endless_text_does_not_widen_the_table(text: str) -> None:
    short = messages.summary(Message(kr.ObjectMeta("hello", "u", "1"), spec=messages.Spec(text)))

    assert len(short) == messages.SUMMARY
    assert short.endswith("…")


@pytest.mark.parametrize("pod", [READY, {}])
def test_a_pod_that_prints_another_text_is_not_ready(pod: Raw) -> None:
    """Admission may rewrite the environment, and a tenant may create a Pod like ours."""
    told = status(child(pod_state(pod, text="웹훅의 텍스트")))

    assert not told.ready
    assert told.reason == "AdmissionChanged"
    assert "The Pod prints another text" in told.message
