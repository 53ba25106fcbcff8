"""When something stands in the way, the Message says so, and goes on once it is gone."""

from typing import Any

import pytest

from tests.e2e.kube import WAIT, Object
from tests.e2e.messages import Namespace, ready, uid
from tests.e2e.release import Operator
from tests.e2e.waiting import wait_until
from tests.support.plugin import Plugin


def foreign_pod(image: str, **metadata: Any) -> Object:
    """Return a Pod that somebody else made and that `restricted` admits."""
    return {
        "kind": "Pod",
        "metadata": {"name": "msg-hello", **metadata},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 1000,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "main",
                    "image": image,
                    "command": ["sleep", "86400"],
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({}, id="plain"),
        pytest.param({"labels": {"app.kubernetes.io/managed-by": "message-operator"}}, id="alike"),
        pytest.param({"labels": {"myorg.dev/message-uid": "nobody"}}, id="another message's uid"),
    ],
)
def test_somebody_elses_pod_is_left_alone(
    namespace: Namespace, operator: Operator, metadata: Object
) -> None:
    foreign = namespace.kube.create(
        foreign_pod(operator.message_image(), **metadata), namespace.name
    )
    message = namespace.create("hello", "hello")

    condition = message.wait_for_reason("Conflict")

    assert condition["status"] == "False"
    assert message.status()["phase"] == "Failed"
    assert "podName" not in message.status()
    assert condition["message"] == (
        "Pod msg-hello exists and does not belong to this Message. It is left alone. Delete or "
        "rename that Pod, or give the Message another name."
    )
    event = message.wait_for_event("Conflict")
    assert (event["type"], event["message"]) == ("Warning", condition["message"])
    pod = message.pod()
    assert uid(pod) == uid(foreign)
    assert pod is not None
    assert pod["spec"]["containers"] == foreign["spec"]["containers"]

    message.delete_pod()

    message.wait_until_ready(instead_of=foreign)
    message.wait_for_log(b"hello\n")
    message.wait_for_event("Created")
    assert [event["reason"] for event in message.events()] == ["Conflict", "Created"]


def test_a_conflict_ends_with_its_message(namespace: Namespace, operator: Operator) -> None:
    foreign = namespace.kube.create(foreign_pod(operator.message_image()), namespace.name)
    message = namespace.create("hello", "hello")
    message.wait_for_reason("Conflict")

    message.delete()
    wait_until("the Message to be gone", message.get, lambda found: found is None)

    assert uid(message.pod()) == uid(foreign)


def test_a_pod_that_an_orphaning_deletion_left_behind_is_replaced(namespace: Namespace) -> None:
    former = namespace.create("hello", "before")
    orphan = former.wait_until_ready()
    namespace.kubectl("delete", "message", "hello", "--cascade=orphan", WAIT)
    message = namespace.create("hello", "after")

    message.wait_until_ready(instead_of=orphan)
    message.wait_for_log(b"after\n")


def test_a_quota_is_told_and_when_it_is_lifted_the_message_goes_on(namespace: Namespace) -> None:
    quota = {"kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    namespace.kube.create(quota, namespace.name)
    wait_until(
        "the quota to count",
        lambda: namespace.kube.get("ResourceQuota", "none", namespace.name),
        lambda found: (found or {}).get("status"),
    )
    message = namespace.create("hello", "hello")

    condition = message.wait_for_reason("Forbidden")

    assert message.status()["phase"] == "Failed"
    assert (
        "exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0"
        in (condition["message"])
    )
    event = message.wait_for_event("Refused")
    assert event["type"] == "Warning"

    namespace.kube.delete("ResourceQuota", "none", namespace.name)

    message.wait_until_ready()
    message.wait_for_event("Created")
    assert [event["reason"] for event in message.events()] == ["Refused", "Created"]


def test_an_image_that_cannot_be_pulled_is_told_until_there_is_another(
    namespace: Namespace, operator: Operator, plugin: Plugin
) -> None:
    message = namespace.create("hello", "hello")
    former = message.wait_until_ready()

    with operator.upgraded("--set-string=messagePod.image.tag=no-such-tag"):
        condition = message.wait_for_reason("ErrImagePull", "ImagePullBackOff")

        assert message.status()["phase"] == "Failed"
        assert "no-such-tag" in condition["message"]
        told = plugin("why", "hello", "-n", namespace.name)
        assert told.first == "hello does not print: the node cannot pull an image of its Pod."
        assert "messagePod.image" in told.part("Do")

    pod = message.wait_until_ready(instead_of=former)
    assert ready(message.status())["reason"] == "PodRunning"
    assert pod["spec"]["containers"][0]["image"] == former["spec"]["containers"][0]["image"]
    message.wait_for_log(b"hello\n")


def test_an_operator_at_rest_writes_nothing(namespace: Namespace, operator: Operator) -> None:
    namespace.kube.create(foreign_pod(operator.message_image()), namespace.name)
    namespace.create("hello", "hello").wait_for_event("Conflict")
    namespace.create("well", "hello").wait_until_ready()
    wait_until(
        "the other Pod to run",
        namespace.message("hello").pod,
        lambda pod: pod and ready(pod["status"]).get("status") == "True",
    )

    def writes() -> list[str]:
        """Return what was written in seven seconds; the foreign Pod is looked at every five."""
        seconds = {"Message": 7, "Pod": 1, "Event": 1}
        since = {kind: namespace.kube.objects(kind, namespace.name)[1] for kind in seconds}
        return [
            f"{what} {kind} {found['metadata']['name']}"
            for kind, wait in seconds.items()
            for what, found in namespace.kube.history(
                kind, namespace.name, since[kind], seconds=wait
            )
        ]

    wait_until("seven seconds with no write", writes, lambda written: not written)
