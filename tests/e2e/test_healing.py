"""What was lost, altered or ended comes back, and the Events say why."""

import json
from typing import Any

from tests.e2e.messages import Message, Namespace
from tests.e2e.waiting import wait_until

GONE = "its Pod was gone"


def test_a_pod_that_is_lost_or_has_ended_comes_back(namespace: Namespace) -> None:
    why = {
        "deleted": GONE,
        "forced": GONE,
        "evicted": GONE,
        "past-its-deadline": "its Pod had ended (DeadlineExceeded)",
        "failed": "its Pod had ended (Evicted)",
    }
    messages = {name: namespace.create(name, "still here") for name in why}
    gone = namespace.create("gone", "gone")
    former = {name: message.wait_until_ready() for name, message in messages.items()}
    gone.wait_until_ready()
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "msg-evicted", "namespace": namespace.name},
    }
    path = f"/api/v1/namespaces/{namespace.name}/pods/msg-evicted/eviction"

    namespace.kubectl("delete", "pod", "msg-deleted", "--wait=false")
    namespace.kubectl("delete", "pod", "msg-forced", "--force", "--grace-period=0")
    namespace.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
    messages["past-its-deadline"].patch_pod({"spec": {"activeDeadlineSeconds": 1}})
    # What a kubelet reports of a Pod that it had to end, for instance for want of disk space.
    ended = {"status": {"phase": "Failed", "reason": "Evicted", "message": "no space"}}
    patch_status(messages["failed"], "pod", "msg-failed", ended)
    gone.delete_pod()  # it does not come back: its Message goes, too
    gone.delete()

    for name, message in messages.items():
        message.wait_until_ready(instead_of=former[name])
        message.wait_for_log(b"still here\n")
        event = message.wait_for_event("Healed")
        assert event["message"] == f"Created Pod msg-{name} again: {why[name]}."
    gone.wait_until_gone()
    there = sorted(message.pod_name for message in messages.values())
    wait_until(
        "no other Pod to be there",
        lambda: sorted(pod["metadata"]["name"] for pod in namespace.pods()),
        there.__eq__,
    )


def patch_status(message: Message, kind: str, name: str, patch: dict[str, Any]) -> None:
    """Write to the status of a Message or a Pod."""
    what = ("patch", kind, name, "--subresource=status", "--type=merge")
    message.namespace.kubectl(*what, "-p", json.dumps(patch))
