"""Installed by a Subscription, the operator serves the namespaces that it is to, no others.

test_journey.py has the modes OwnNamespace and AllNamespaces.
"""

import pytest

from kopf_kit.rig import cluster as hack_cluster
from kopf_kit.testing.requests import wait_until
from tests.e2e.messages import Message, Namespace, Object, is_up, restarts, uid
from tests.make.commands import CHECKOUT, Make
from tests.olm import releases
from tests.olm.conftest import Later, MakeNamespace
from tests.olm.subscription import BOUND, Subscription

pytestmark = pytest.mark.long

#: For OLM's other install modes: the namespaces of the OperatorGroup, and those not served.
MODES = {
    "SingleNamespace": (["first"], ["home", "second"]),
    "MultiNamespace": (["first", "second"], ["home"]),
}


@pytest.mark.parametrize("mode", MODES)
def test_in_each_install_mode_messages_work_in_the_watched_namespaces_alone(
    mode: str, subscription: Subscription, home: Namespace, make: MakeNamespace
) -> None:
    every = {"home": home, "first": make("first"), "second": make("second")}
    targets, unwatched = MODES[mode]

    subscription.group(*(every[name].name for name in targets))
    subscription.subscribe()
    subscription.wait_until_installed(releases.PRESENT)

    ignored = [every[name].create("ignored") for name in unwatched]
    for name in every.keys() - set(unwatched):
        every[name].create("hello", "hello").wait_until_ready()
        assert subscription.may("create", "pods", every[name].name)
    for message in ignored:
        assert (message.status(), message.pod()) == ({}, None)
        # OLM lets it act in its own namespace always, for there it has its Lease.
        if message.kubectl is not home.kubectl:
            there = message.kubectl.namespace
            assert not subscription.may("list", "messages.myorg.dev", there)


def test_the_commands_of_the_makefile_leave_what_olm_installed_alone(
    subscription: Subscription, home: Namespace
) -> None:
    commands = Make(CHECKOUT, KIND_CLUSTER_NAME=hack_cluster.TEST_NAME)
    subscription.group()
    subscription.subscribe()
    subscription.wait_until_installed(releases.PRESENT)
    message = home.create("hello", "hello")
    pod = message.wait_until_ready()

    for verb in ("deploy", "uninstall"):
        refusal = commands.refused(verb)
        assert f"{home.name}/message-operator" in refusal
        assert "Subscription" in refusal

    assert uid(message.wait_until_ready()) == uid(pod)
    subscription.wait_until_installed(releases.PRESENT)


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
