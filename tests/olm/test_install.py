"""Installed by a Subscription, the operator serves the namespaces that it is to, no others.

test_journey.py has the modes OwnNamespace and AllNamespaces.
"""

import pytest

from kopf_kit.rig import cluster as hack_cluster
from tests.e2e.messages import Namespace, uid
from tests.make.commands import CHECKOUT, Make
from tests.olm import releases
from tests.olm.conftest import MakeNamespace
from tests.olm.subscription import Subscription

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
        if message.namespace is not home:
            assert not subscription.may("list", "messages.myorg.dev", message.namespace.name)


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
