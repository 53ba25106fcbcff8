"""When something stands in the way, the Message says so, and goes on once it is gone."""

from typing import Any

import pytest

from tests.e2e.kube import Object
from tests.e2e.messages import Namespace, ready, uid
from tests.e2e.release import Operator
from tests.e2e.waiting import wait_until


def foreign_pod(image: str, name: str = "msg-hello", **metadata: Any) -> Object:
    """Return a Pod that somebody else made and that `restricted` admits."""
    return {
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
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


def test_somebody_elses_pod_is_left_alone_until_it_goes(
    namespace: Namespace, operator: Operator
) -> None:
    metadata: dict[str, Object] = {
        "plain": {},
        "alike": {"labels": {"app.kubernetes.io/managed-by": "message-operator"}},
        "of-another-message": {"labels": {"myorg.dev/message-uid": "nobody"}},
        "left": {},
    }
    image = operator.message_image()
    foreign = {
        name: namespace.kube.create(foreign_pod(image, name=f"msg-{name}", **more), namespace.name)
        for name, more in metadata.items()
    }
    messages = {name: namespace.create(name, "hello") for name in metadata}

    for name, message in messages.items():
        condition = message.wait_for_reason("Conflict")
        assert condition["status"] == "False"
        assert message.status()["phase"] == "Failed"
        assert "podName" not in message.status()
        assert condition["message"] == (
            f"Pod msg-{name} exists and does not belong to this Message. It is left alone. Delete "
            "or rename that Pod, or give the Message another name."
        )
        event = message.wait_for_event("Conflict")
        assert (event["type"], event["message"]) == ("Warning", condition["message"])
        pod = message.pod()
        assert uid(pod) == uid(foreign[name])
        assert pod is not None
        assert pod["spec"]["containers"] == foreign[name]["spec"]["containers"]

    left = messages.pop("left")
    left.delete()
    for message in messages.values():
        message.delete_pod()

    for name, message in messages.items():
        message.wait_until_ready(instead_of=foreign[name])
        message.wait_for_log(b"hello\n")
        message.wait_for_event("Created")
        assert [event["reason"] for event in message.events()] == ["Conflict", "Created"]
    assert left.get() is None
    assert uid(left.pod()) == uid(foreign["left"])


@pytest.mark.long
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
