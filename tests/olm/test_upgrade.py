"""OLM upgrades the operator as its administrator wants it, and Messages go on meanwhile."""

import pytest

from tests.e2e.kube import Object
from tests.e2e.messages import Message, Namespace, restarts, uid
from tests.e2e.waiting import wait_until
from tests.olm import releases
from tests.olm.conftest import Later
from tests.olm.subscription import BOUND, Subscription, is_up

pytestmark = pytest.mark.long


def declare(home: Namespace) -> tuple[list[Message], list[Object]]:
    """Have some Messages; return them and their Pods."""
    messages = [home.create(f"hello-{number}", "before") for number in range(4)]
    return messages, [message.wait_until_ready() for message in messages]


def assert_untouched(messages: list[Message], pods: list[Object]) -> None:
    """Check that the Pods are the same as before, and were never restarted."""
    now = [message.wait_until_ready() for message in messages]
    assert [(uid(pod), restarts(pod)) for pod in now] == [(uid(pod), 0) for pod in pods]


def assert_served(message: Message) -> None:
    """Check that the operator sees to a Message."""
    former = message.wait_until_ready()
    message.edit(text="after")
    message.wait_until_ready(instead_of=former)
    message.wait_for_log(b"after\n")


def test_the_subscription_sets_resources_and_environment(
    subscription: Subscription, home: Namespace
) -> None:
    resources = {"requests": {"cpu": "20m", "memory": "96Mi"}, "limits": {"memory": "384Mi"}}
    level = {"name": "MESSAGE_OPERATOR_LOG_LEVEL", "value": "debug"}
    subscription.group(home.name)
    subscription.subscribe(config={"resources": resources, "env": [level]})
    subscription.wait_until_installed(releases.PRESENT)
    subscription.wait_for_pod(
        "with the resources", lambda container: container["resources"] == resources
    )
    assert '"level": "debug"' in subscription.log()

    user = {"name": "MESSAGE_OPERATOR_MESSAGE_USER", "value": "1234"}
    template = {"name": "MESSAGE_OPERATOR_MESSAGE_POD", "value": '{"labels": {"team": "blue"}}'}
    subscription.change(config={"env": [user, template]})

    subscription.wait_for_pod("with the user", lambda container: user in container["env"])
    assert '"level": "debug"' not in subscription.log()
    message = home.create("hello", "hello").wait_until_ready()
    assert message["spec"]["securityContext"]["runAsUser"] == 1234
    assert message["metadata"]["labels"]["team"] == "blue"


def test_an_upgrade_that_cannot_start_leaves_the_old_operator_serving_and_is_undone(
    followed: Subscription, home: Namespace, later: Later
) -> None:
    followed.group()
    followed.subscribe()
    followed.wait_until_installed(releases.FORMER)
    messages, pods = declare(home)

    followed.catalog.offer(later.broken, releases.BROKEN)
    wait_until(
        "the upgrade to hang",
        followed.pods,
        lambda found: any("ImagePullBackOff" in str(pod["status"]) for pod in found),
    )
    assert [is_up(pod) for pod in followed.pods()].count(True) == 1
    assert_served(messages[0])

    followed.uninstall()
    followed.subscribe(starting=releases.FORMER, approval="Manual")
    followed.approve(releases.FORMER)
    followed.wait_until_installed(releases.FORMER)
    assert_served(messages[1])

    followed.catalog.offer(later.mended, releases.MENDED)
    wait_until(
        "OLM to tell that the former release is deprecated",
        followed.conditions,
        lambda found: "It loses texts." in found.get("BundleDeprecated", {}).get("message", ""),
        bound=BOUND,
    )
    followed.refuse(releases.BROKEN)
    followed.approve(releases.MENDED)
    followed.wait_until_installed(releases.MENDED)
    assert_served(messages[2])
    assert_untouched(messages[3:], pods[3:])
