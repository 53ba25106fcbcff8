"""What was lost, altered or ended comes back, and the Events say why."""

import json
from typing import Any

import pytest

from tests.e2e.messages import Message, Namespace, uid
from tests.e2e.waiting import wait_until


def test_a_deleted_pod_comes_back(namespace: Namespace) -> None:
    message = namespace.create("hello", "still here")
    former = message.wait_until_ready()

    namespace.kubectl("delete", "pod", "msg-hello", "--wait=false")

    message.wait_until_ready(instead_of=former)
    message.wait_for_log(b"still here\n")
    event = message.wait_for_event("Healed")
    assert event["message"] == "Created Pod msg-hello again: its Pod was gone."


def test_a_pod_deleted_by_force_comes_back(namespace: Namespace) -> None:
    message = namespace.create("hello", "still here")
    former = message.wait_until_ready()

    namespace.kubectl("delete", "pod", "msg-hello", "--force", "--grace-period=0")

    message.wait_until_ready(instead_of=former)
    message.wait_for_event("Healed")


def test_an_evicted_pod_comes_back(namespace: Namespace) -> None:
    message = namespace.create("hello", "still here")
    former = message.wait_until_ready()
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "msg-hello", "namespace": namespace.name},
    }
    path = f"/api/v1/namespaces/{namespace.name}/pods/msg-hello/eviction"

    namespace.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))

    message.wait_until_ready(instead_of=former)
    message.wait_for_event("Healed")


def test_a_pod_that_has_ended_is_replaced(namespace: Namespace) -> None:
    message = namespace.create("hello", "still here")
    former = message.wait_until_ready()
    # What a kubelet reports of a Pod that it had to end, for instance for want of disk space.
    ended = {"status": {"phase": "Failed", "reason": "Evicted", "message": "no space"}}

    patch_status(message, "pod", "msg-hello", ended)

    message.wait_until_ready(instead_of=former)
    event = message.wait_for_event("Healed")
    assert event["message"] == "Created Pod msg-hello again: its Pod had ended (Evicted)."


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"metadata": {"labels": {"app.kubernetes.io/name": "other"}}}, id="label"),
        pytest.param({"metadata": {"labels": {"myorg.dev/message-uid": None}}}, id="uid label"),
        pytest.param(
            {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}}, id="managed-by label"
        ),
        pytest.param(
            {"metadata": {"labels": {"app.kubernetes.io/managed-by": "me"}}}, id="other manager"
        ),
        pytest.param({"metadata": {"labels": None}}, id="all labels"),
        pytest.param({"metadata": {"ownerReferences": None}}, id="owner"),
        pytest.param({"metadata": {"annotations": None}}, id="annotations"),
    ],
)
def test_a_pod_altered_by_hand_is_restored(namespace: Namespace, patch: dict[str, Any]) -> None:
    message = namespace.create("hello", "still here")
    former = message.wait_until_ready()

    message.patch_pod(patch)

    pod = message.wait_until_ready(instead_of=former)
    assert pod["metadata"]["labels"] == former["metadata"]["labels"]
    assert pod["metadata"]["ownerReferences"] == former["metadata"]["ownerReferences"]
    count = {"myorg.dev/replacements": "1"}  # of what was replaced soon after it was made
    assert pod["metadata"]["annotations"] == former["metadata"]["annotations"] | count
    reason = "Replaced" if patch == {"metadata": {"annotations": None}} else "Healed"
    message.wait_for_event(reason)
    assert [event["reason"] for event in message.events()] == ["Created", reason]


def test_a_pod_with_another_image_is_restored(namespace: Namespace) -> None:
    message = namespace.create("hello", "still here")
    former = message.wait_until_ready()

    namespace.kubectl("set", "image", "pod/msg-hello", "message=localhost:5001/no-such-image:1")

    pod = message.wait_until_ready(instead_of=former)
    assert pod["spec"]["containers"][0]["image"] == former["spec"]["containers"][0]["image"]
    event = message.wait_for_event("Healed")
    assert event["message"] == ("Created Pod msg-hello again: its Pod was altered by kubectl-set.")


def test_a_label_of_a_users_own_on_a_pod_is_left_alone(namespace: Namespace) -> None:
    message = namespace.create("hello", "still here")
    pod = message.wait_until_ready()

    namespace.kubectl("label", "pod", "msg-hello", "team=green")
    namespace.create("other", "other").wait_until_ready()  # by then the label has been seen

    assert uid(message.wait_until_ready()) == uid(pod)


def test_a_status_edited_by_hand_is_repaired(namespace: Namespace) -> None:
    message = namespace.create("hello", "hello")
    message.wait_until_ready()
    before = message.status()
    lie = {"phase": "Failed", "observedGeneration": 7, "podName": "nowhere", "conditions": []}

    patch_status(message, "message", "hello", {"status": lie})

    message.wait_until_ready()
    after = message.status()
    for status in (before, after):
        status["conditions"][0].pop("lastTransitionTime")
    assert after == before


def test_one_that_is_deleted_while_it_is_healed_stays_deleted(namespace: Namespace) -> None:
    message = namespace.create("hello", "hello")
    message.wait_until_ready()

    message.delete_pod()
    message.delete()
    message.wait_until_gone()
    namespace.create("other", "other").wait_until_ready()  # the operator has gone on since

    wait_until(
        "no other Pod to be there",
        lambda: [pod["metadata"]["name"] for pod in namespace.pods()],
        ["msg-other"].__eq__,
    )


def patch_status(message: Message, kind: str, name: str, patch: dict[str, Any]) -> None:
    """Write to the status of a Message or a Pod."""
    what = ("patch", kind, name, "--subresource=status", "--type=merge")
    message.namespace.kubectl(*what, "-p", json.dumps(patch))
