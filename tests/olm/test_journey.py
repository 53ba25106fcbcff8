"""The life of an operator by OLM: installed, upgraded, uninstalled, installed for all namespaces.

What each step is about has tests of its own, which `make test` leaves out (`long`).
"""

from tests.e2e.kube import WAIT
from tests.e2e.messages import Namespace, restarts, uid
from tests.e2e.waiting import wait_until
from tests.olm import releases
from tests.olm.conftest import MakeNamespace
from tests.olm.subscription import CRD, Subscription, csv_name


def test_it_is_installed_upgraded_and_uninstalled_and_adopts_what_it_left(
    subscription: Subscription, home: Namespace, make: MakeNamespace
) -> None:
    kube, elsewhere = home.kube, make("elsewhere")
    # The former release, in the mode OwnNamespace, and not before somebody has approved of it.
    subscription.group(home.name)
    subscription.subscribe(starting=releases.FORMER, approval="Manual")
    subscription.wait_for_plan(releases.FORMER)
    assert subscription.csvs() == {}
    subscription.approve(releases.FORMER)
    subscription.wait_until_installed(releases.FORMER)
    names = ("deleted", "kept", "edited")
    messages = {name: home.create(name, "before") for name in names}
    ignored = elsewhere.create("ignored", "no longer")
    pods = {name: message.wait_until_ready() for name, message in messages.items()}
    assert (ignored.status(), ignored.pod()) == ({}, None)
    assert not subscription.may("list", "messages.myorg.dev", elsewhere.name)

    # The upgrade, not before it is approved of either: no Pod of a Message restarts.
    subscription.wait_for_plan(releases.PRESENT)
    assert subscription.csvs().keys() == {csv_name(releases.FORMER)}
    subscription.approve(releases.PRESENT)
    subscription.wait_until_installed(releases.PRESENT)
    home.create("served", "served").wait_until_ready()
    now = {name: message.wait_until_ready() for name, message in messages.items()}
    assert {name: (uid(pod), restarts(pod)) for name, pod in now.items()} == {
        name: (uid(pod), 0) for name, pod in pods.items()
    }

    # Uninstalled, it leaves Messages that can be edited and deleted, and nothing else.
    assert len(subscription.made()) > 5
    subscription.uninstall()
    wait_until("all of OLM's making to be gone", subscription.made, lambda made: not made)
    assert kube.get("CustomResourceDefinition", CRD) is not None
    assert uid(messages["kept"].pod()) == uid(pods["kept"])
    home.kubectl("delete", "message", "deleted", WAIT)
    messages["deleted"].wait_until_gone()
    messages["edited"].edit(text="after")

    # Installed again, for all namespaces, it adopts them, and serves what it had to ignore.
    kube.delete("OperatorGroup", "group", home.name)
    subscription.group()
    subscription.subscribe()
    subscription.wait_until_installed(releases.PRESENT)
    messages["edited"].wait_until_ready(instead_of=pods["edited"])
    messages["edited"].wait_for_log(b"after\n")
    adopted = messages["kept"].wait_until_ready()
    assert (uid(adopted), restarts(adopted)) == (uid(pods["kept"]), 0)
    ignored.wait_until_ready()
    assert subscription.may("create", "pods", elsewhere.name)
