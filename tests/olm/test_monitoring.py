"""What docs/olm.md adds to an operator of OLM's finds that operator."""

import contextlib
import re

import pytest

from tests.bundle.test_monitoring import by_the_guide, one
from tests.e2e.chart.conftest import apply, monitoring_kinds
from tests.e2e.kube import CommandError
from tests.e2e.messages import Namespace
from tests.e2e.waiting import wait_until
from tests.olm import releases
from tests.olm.subscription import Subscription


@pytest.mark.long
def test_what_the_guide_adds_finds_the_operator(
    subscription: Subscription, home: Namespace
) -> None:
    kube = home.kube
    subscription.group()
    subscription.subscribe()
    subscription.wait_until_installed(releases.PRESENT)
    added = by_the_guide(home.name)
    service = f"/api/v1/namespaces/{home.name}/services/message-operator-metrics:metrics"

    def scrape() -> str:
        with contextlib.suppress(CommandError):  # the Service may be a moment behind
            return kube.raw(f"{service}/proxy/metrics")
        return ""

    with monitoring_kinds(kube):
        apply(kube, added)

        wait_until(
            "the Service to lead to the operator",
            scrape,
            lambda metrics: "\nmessage_operator_build_info{" in metrics,
        )
        labels = one("PodMonitor", added)["spec"]["selector"]["matchLabels"]
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        (pod,) = kube.objects("Pod", home.name, labels=selector)[0]
        (rules,) = one("PrometheusRule", added)["spec"]["groups"]
        about = [re.search(r'pod=~"([^"]+)"', rule["expr"]) for rule in rules["rules"]]
        for pattern in about:
            assert pattern
            assert re.fullmatch(pattern[1], pod["metadata"]["name"])
