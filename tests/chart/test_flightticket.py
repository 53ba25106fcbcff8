"""What only the chart of examples/flightticket has: its booking service, and the token for it."""

from typing import Any

import pytest

from chart import helm
from chart.helm import Manifest
from kopf_kit.project import nested
from kopf_kit.project.definition import load
from kopf_kit.rig import paths
from kopf_runtime.declaring import settings

PROJECT = nested.ensure(load(paths.CHECKOUT / "examples" / "flightticket"))


def rendered(**values: Any) -> list[Manifest]:
    return helm.render(values, chart=PROJECT.chart, release="demo")


def pod(manifests: list[Manifest]) -> Manifest:
    (deployment,) = [manifest for manifest in manifests if manifest["kind"] == "Deployment"]
    found: Manifest = deployment["spec"]["template"]["spec"]
    return found


def test_the_token_is_a_file_where_the_operator_reads_it() -> None:
    token = {"secretName": "of-the-team", "key": "api-token"}
    spec = pod(rendered(booking={"token": token}, extraVolumes=[{"name": "more", "emptyDir": {}}]))
    (container,) = spec["containers"]
    module = PROJECT.module(PROJECT.manager)

    found = settings.parse(module.manager.program, module.Settings, container["args"], {})

    (mount,) = container["volumeMounts"]
    volume, more = spec["volumes"]
    (item,) = volume["secret"]["items"]
    assert found.booking_token_path == f"{mount['mountPath']}/{item['path']}"
    assert (volume["name"], mount["readOnly"]) == (mount["name"], True)
    assert (volume["secret"]["secretName"], item["key"]) == ("of-the-team", "api-token")
    assert volume["secret"]["optional"] is True
    assert more == {"name": "more", "emptyDir": {}}


def test_the_service_and_the_rate_are_passed_on() -> None:
    (container,) = pod(rendered(booking={"url": "https://a.example/api", "rate": 7}))["containers"]

    assert "--booking-url=https://a.example/api" in container["args"]
    assert "--booking-rate=7" in container["args"]


def test_the_network_policy_lets_the_operator_reach_the_service_s_ports_alone() -> None:
    manifests = rendered(networkPolicy={"enabled": True}, booking={"ports": [8080, 8443]})
    policies = {
        manifest["metadata"]["name"]: manifest["spec"]
        for manifest in manifests
        if manifest["kind"] == "NetworkPolicy"
    }

    own = policies.pop("demo-flightticket-operator-booking")
    common = policies["demo-flightticket-operator"]
    assert common["podSelector"] == own["podSelector"]
    assert own["policyTypes"] == ["Egress"]
    assert [port["port"] for port in own["egress"][0]["ports"]] == [8080, 8443]
    assert not [manifest for manifest in rendered() if manifest["kind"] == "NetworkPolicy"]


@pytest.mark.parametrize("url", ["booking", "http://me:secret@booking", "http://booking?a=b"])
def test_an_address_that_cannot_be_used_is_refused(url: str) -> None:
    with pytest.raises(helm.HelmError, match="url"):
        rendered(booking={"url": url})
