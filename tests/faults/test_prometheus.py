"""The chart's alerts and dashboard on a Prometheus that scrapes the operator in trouble.

Alerts fire at once here, on the last seconds instead of minutes; the kit proves with promtool
that they fire and end at the times that they are made with, also those that no test drives here
(`ONLY_BY_PROMTOOL`).
"""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from signal import Signals

import pytest

from chart import prometheus_server
from chart.helm import FULLNAME, NAMESPACE
from chart.monitored import ALERTS, POD, rules
from chart.prometheus_server import Prometheus
from kopf_kit.chart import dashboard
from kopf_kit.testing import calls
from kopf_kit.testing.process import free_port
from kopf_kit.testing.world import ELECT, World
from tests.faults.test_rights import GRANTED, without

pytestmark = pytest.mark.long

#: What a minute is here, and all longer times.
SOON = "10s"


@contextlib.asynccontextmanager
async def monitored(here: World, folder: Path) -> AsyncIterator[Prometheus]:
    """Start the operator, and have a Prometheus scrape it as it would a Pod of a release."""
    port = free_port()
    await here.start(*ELECT, f"--metrics-bind-address=127.0.0.1:{port}", "--resync-period=2")
    soon = [
        {**rule, "for": "0s", "expr": re.sub(r"\[\d+[mh]\]", f"[{SOON}]", rule["expr"])}
        for rule in rules()
    ]
    (folder / "rules.yaml").write_text(json.dumps({"groups": [{"name": "one", "rules": soon}]}))
    labels = {"namespace": NAMESPACE, "operator": FULLNAME, "pod": POD}
    targets = [{"targets": [f"127.0.0.1:{port}"], "labels": labels}]
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(folder / "rules.yaml")],
        "scrape_configs": [{"job_name": "operator", "static_configs": targets}],
    }
    with prometheus_server.running(folder, config) as prometheus:
        await asyncio.to_thread(prometheus.wait_for, "message_operator_leader == 1")
        yield prometheus


async def test_every_query_of_the_dashboard_shows_something(here: World, tmp_path: Path) -> None:
    async with monitored(here, tmp_path) as prometheus:
        await here.create("하나")
        await here.wait_until_ready()
        here.proxy.drop_connections()  # so that watches are opened again

        where = {"namespace": NAMESPACE, "operator": FULLNAME}
        for query in dashboard.queries(interval="1m", **where):
            await asyncio.to_thread(prometheus.wait_for, query)


# --- the alerts -----------------------------------------------------------------------------------

Trouble = Callable[[World], contextlib.AbstractAsyncContextManager[None]]


@contextlib.asynccontextmanager
async def no_operator(here: World) -> AsyncIterator[None]:
    here.operator.send(Signals.SIGSTOP)
    yield
    here.operator.send(Signals.SIGCONT)


def no_right_to_the_lease(here: World) -> contextlib.AbstractAsyncContextManager[None]:
    (right,) = (
        granted for granted in GRANTED if (granted.verb, granted.resource) == ("update", "leases")
    )
    return without(here, right)


def no_right_to_lists(here: World) -> contextlib.AbstractAsyncContextManager[None]:
    (right,) = (
        granted for granted in GRANTED if (granted.verb, granted.resource) == ("list", "pods")
    )
    return without(here, right)


@contextlib.asynccontextmanager
async def stuck_messages(here: World) -> AsyncIterator[None]:
    """Have a Message whose Pod's name is taken, and one whose former Pod does not end."""
    await here.cluster.ask("POST", here.children, here.parent.foreign("taken"))
    await here.create("하나", "taken")
    await here.create("둘", "pending")
    await here.wait_until_ready("pending")
    held = {"metadata": {"finalizers": ["example.org/held"]}}
    await here.cluster.patch(here.child("pending"), held)
    await here.edit("셋", "pending")
    yield
    await here.cluster.patch(here.child("pending"), {"metadata": {"finalizers": None}})
    await here.delete("taken")


@contextlib.asynccontextmanager
async def api_server_fails(here: World) -> AsyncIterator[None]:
    fault = calls.refuse(503, "ServiceUnavailable")
    here.proxy.arm(lambda call: call.writes and not call.lease, fault, float("inf"))
    for number in range(5):
        await here.create("하나", f"hello-{number}")
    yield
    here.proxy.disarm()


TROUBLES: dict[Trouble, set[str]] = {
    no_operator: {"MessageOperatorDown"},
    no_right_to_the_lease: {"MessageOperatorNoLeader", "MessageOperatorForbidden"},
    no_right_to_lists: {"MessageOperatorForbidden", "MessageOperatorUnserved"},
    stuck_messages: {"MessageOperatorMessagesFailed", "MessageOperatorMessagesPending"},
    api_server_fails: {"MessageOperatorApiErrors"},
}

#: The alerts that no test drives on a control plane; the kit's tests hold this list to the chart.
ONLY_BY_PROMTOOL = {
    "MessageOperatorRestarting",
    "MessageOperatorReconcileErrors",
    "MessageOperatorQueueStuck",
    "MessageOperatorWatchMisses",
    "MessageOperatorResyncsFail",
    "MessageOperatorUnreadableObjects",
}


async def until_firing(
    here: World, prometheus: Prometheus, wanted: Callable[[set[str]], bool]
) -> None:
    """Wait until the alerts that fire are as wanted."""
    query = 'ALERTS{alertstate="firing"}'
    async with here.within(here.subject.patience, "the alerts"):
        while True:
            found = await asyncio.to_thread(prometheus.query, query)
            if wanted({alert["metric"]["alertname"] for alert in found}):
                return
            await asyncio.sleep(0.2)


def test_each_alert_is_driven_by_real_trouble_or_said_not_to_be() -> None:
    driven = set[str]().union(*TROUBLES.values())

    assert driven | ONLY_BY_PROMTOOL == ALERTS.keys()
    assert driven & ONLY_BY_PROMTOOL == set()


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.__name__)
async def test_an_alert_fires_in_trouble_and_ends_after_it(
    here: World, tmp_path: Path, trouble: Trouble
) -> None:
    async with monitored(here, tmp_path) as prometheus:
        await until_firing(here, prometheus, lambda found: not found)
        async with trouble(here):
            await until_firing(here, prometheus, TROUBLES[trouble].issubset)
            if trouble is no_right_to_the_lease:  # J5
                refused = "message_operator_lease_refused == 1"
                await asyncio.to_thread(prometheus.wait_for, refused)
        await until_firing(here, prometheus, lambda found: not found)
