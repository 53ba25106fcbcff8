"""The operator itself may be stopped, doubled, killed or upgraded: Messages get their due.

That its leader is killed is tested in chart/test_scenarios.py::test_ha.
"""

import pytest

from kopf_kit.testing.requests import wait_until
from tests.e2e.messages import WAIT, Namespace, ready, restarts, uid
from tests.e2e.release import Operator
from tests.support.plugin import Plugin


@pytest.mark.long  # the fault suite does so after each write
def test_what_happened_while_there_was_no_operator_is_caught_up(
    namespace: Namespace, operator: Operator, plugin: Plugin
) -> None:
    names = ("same", "edited", "gone", "lost", "ended", "altered", "bare", "reborn")
    messages = {name: namespace.create(name, "before") for name in names}
    tick = namespace.create("tick", "Tick.", interval=1)
    pods = {name: message.wait_until_ready() for name, message in messages.items()}
    tick.wait_until_ready()

    with operator.stopped():
        so_far = tick.log()
        messages["edited"].edit(text="between")
        messages["edited"].edit(text="after")
        messages["lost"].delete_pod()
        messages["ended"].patch_pod({"spec": {"activeDeadlineSeconds": 1}})
        messages["altered"].patch_pod({"metadata": {"ownerReferences": None}})
        messages["bare"].patch_pod({"metadata": {"labels": None}})
        messages["reborn"].delete()
        namespace.kubectl("delete", "message", "gone", WAIT)
        messages["gone"].wait_until_gone()
        messages["reborn"].wait_until_gone()
        namespace.create("reborn", "after")
        new = namespace.create("new", "new")
        wait_until(
            "the Pod past its deadline to have ended",
            messages["ended"].pod,
            lambda pod: pod and pod["status"]["phase"] == "Failed",
        )
        assert new.status() == {}
        tick.wait_for_log(so_far + b"Tick.\n")
        assert ready(tick.status())["status"] == "True"
        stopped, doctor = plugin("why", "new", "-n", namespace.name), plugin("doctor")

    new.wait_until_ready()
    for name in ("edited", "lost", "ended", "altered", "bare", "reborn"):
        messages[name].wait_until_ready(instead_of=pods[name])
    messages["edited"].wait_for_log(b"after\n")
    messages["reborn"].wait_for_log(b"after\n")
    assert messages["ended"].wait_for_event("Healed")["message"] == (
        "Created Pod msg-ended again: its Pod had ended (DeadlineExceeded)."
    )
    kept = messages["same"].wait_until_ready()
    assert (uid(kept), restarts(kept)) == (uid(pods["same"]), 0)
    assert stopped.first == "Message new: the operator is scaled to zero."
    assert f"scale deployment/{operator.name} --replicas=1" in stopped.part("Do")
    assert stopped.part("More").endswith("runbooks.md#messageoperatordown")
    assert doctor.code == 1
    assert "✗ Ready        the operator is scaled to zero" in doctor.out


def test_an_upgrade_replaces_message_pods_whose_template_it_changes(
    namespace: Namespace, operator: Operator, plugin: Plugin
) -> None:
    """The first one names an image that cannot be pulled, which is told until there is another."""
    message = namespace.create("hello", "hello")
    former = message.wait_until_ready()
    template = "--set=messagePod.runAsUser=1234,messagePod.labels.team=blue"

    with operator.upgraded(template, "--set-string=messagePod.image.tag=no-such-tag"):
        condition = message.wait_for_reason("ErrImagePull", "ImagePullBackOff")

        assert message.status()["phase"] == "Failed"
        assert "no-such-tag" in condition["message"]
        told = plugin("why", "hello", "-n", namespace.name)
        assert "no-such-tag" in told.first
        assert told.part("Means") == "the node cannot pull an image of its Pod"
        assert "messagePod.image" in told.part("Do")
        failed = message.pod() or {}
        assert failed["spec"]["securityContext"]["runAsUser"] == 1234
        assert failed["metadata"]["labels"]["team"] == "blue"
        event = message.wait_for_event("Replaced")
        assert event["message"] == "Replaced Pod msg-hello: its Pod's template changed."

    pod = message.wait_until_ready(instead_of=former)
    assert ready(message.status())["reason"] == "PodRunning"
    assert pod["spec"]["containers"][0]["image"] == former["spec"]["containers"][0]["image"]
    message.wait_for_log(b"hello\n")
