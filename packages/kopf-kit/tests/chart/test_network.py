"""With a NetworkPolicy just what its values say gets through."""

from typing import Any

import kopf
import pytest

from chart.helm import FULLNAME, Manifest, Values, container, find, names, pod, render
from chart.scenarios import SCENARIOS
from kopf_runtime.cluster import credentials


def policy(values: Values | None = None) -> Manifest:
    """Return the specification of the NetworkPolicy with these values below `networkPolicy`."""
    manifests = render({"networkPolicy": {"enabled": True, **(values or {})}})
    spec: Manifest = find(manifests, "NetworkPolicy")["spec"]
    return spec


def ports(rule: Manifest) -> set[tuple[str, Any]]:
    """Return the protocols and ports of a rule."""
    return {(port["protocol"], port["port"]) for port in rule["ports"]}


def test_it_holds_for_the_operator_both_ways() -> None:
    spec = policy()

    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["podSelector"]["matchLabels"].items() <= pod()["metadata"]["labels"].items()


def test_probes_and_metrics_are_reached_by_all() -> None:
    spec = policy()

    assert spec["ingress"] == [
        {"ports": [{"port": "health", "protocol": "TCP"}]},
        {"ports": [{"port": "metrics", "protocol": "TCP"}]},
    ]
    assert {"health", "metrics"} == {port["name"] for port in container()["ports"]}


@pytest.mark.parametrize(("who", "port"), [("healthFrom", "health"), ("metricsFrom", "metrics")])
def test_a_port_is_reached_by_those_named_and_by_the_test(who: str, port: str) -> None:
    asker = {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}
    test = find(render(), "Pod", f"{FULLNAME}-test")["metadata"]["labels"]

    (rule,) = (r for r in policy({who: [asker]})["ingress"] if r["ports"][0]["port"] == port)

    assert rule["from"][0] == asker
    assert rule["from"][1]["podSelector"]["matchLabels"].items() <= test.items()
    # The test is none of the operators that the policy is for.
    assert not rule["from"][1]["podSelector"]["matchLabels"].items() <= (
        pod()["metadata"]["labels"].items()
    )


def test_nothing_but_the_api_server_s_ports_is_reached() -> None:
    (api,) = policy()["egress"]

    assert ports(api) == {("TCP", 443), ("TCP", 6443), ("TCP", 8443)}


def test_the_operator_asks_no_name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a Pod it takes the address that Kubernetes gives, not the name that kopf would."""
    by_name = kopf.ConnectionInfo(server="https://kubernetes.default.svc")
    monkeypatch.setattr(kopf, "login_with_service_account", lambda **_: by_name)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")

    assert credentials.find().server == "https://10.96.0.1:443"


def test_everything_can_be_closed_for_a_policy_of_another_kind() -> None:
    assert policy({"apiServerPorts": []})["egress"] == []


def test_j3_the_test_asks_the_operator_and_name_servers_and_is_asked_nothing() -> None:
    manifests = render({"networkPolicy": {"enabled": True}})
    test = find(manifests, "Pod", f"{FULLNAME}-test")["metadata"]["labels"]

    spec = find(manifests, "NetworkPolicy", f"{FULLNAME}-test")["spec"]

    assert spec["podSelector"]["matchLabels"].items() <= test.items()
    assert (spec["policyTypes"], spec.get("ingress")) == (["Ingress", "Egress"], None)
    servers, operator = spec["egress"]
    assert ports(servers) == {(way, port) for way in ("TCP", "UDP") for port in (53, 5353)}
    assert ports(operator) == {("TCP", "health"), ("TCP", "metrics")}
    (asked,) = operator["to"]
    assert asked["podSelector"]["matchLabels"].items() <= pod()["metadata"]["labels"].items()


def test_j3_without_a_test_it_has_no_policy() -> None:
    manifests = render({"networkPolicy": {"enabled": True}, "tests": {"enabled": False}})

    assert f"{FULLNAME}-test" not in {name for _, _, name in names(manifests)}


@pytest.mark.parametrize("hardened", [False, True])
def test_j3_each_container_says_what_it_takes(hardened: bool) -> None:
    manifests = render(SCENARIOS["hardened"] if hardened else {})
    asked = [container(), find(manifests, "Pod", f"{FULLNAME}-test")["spec"]["containers"][0]]
    if hardened:
        asked[0] = container(SCENARIOS["hardened"])

    for each in asked:
        assert {*each["resources"]["requests"]} == {"cpu", "memory", "ephemeral-storage"}
        limits = {"memory", "ephemeral-storage", *(["cpu"] if hardened else [])}
        assert {*each["resources"]["limits"]} == limits
