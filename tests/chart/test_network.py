"""With a NetworkPolicy the operator reaches, and is reached by, what it has to and no more."""

from typing import Any

from tests.chart.helm import FULLNAME, Manifest, Values, container, find, names, pod, render


def policy(values: Values | None = None) -> Manifest:
    """Return the specification of the NetworkPolicy with these values below `networkPolicy`."""
    manifests = render({"networkPolicy": {"enabled": True, **(values or {})}})
    spec: Manifest = find(manifests, "NetworkPolicy")["spec"]
    return spec


def ports(rule: Manifest) -> set[tuple[str, Any]]:
    """Return the protocols and ports of a rule."""
    return {(port["protocol"], port["port"]) for port in rule["ports"]}


def test_there_is_none_unless_asked_for() -> None:
    assert ("NetworkPolicy", "", FULLNAME) not in names(render())


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


def test_metrics_are_reached_by_those_named_and_by_the_test() -> None:
    scraper = {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}
    test = find(render(), "Pod", f"{FULLNAME}-test")["metadata"]["labels"]

    _, metrics = policy({"metricsFrom": [scraper]})["ingress"]

    assert metrics["from"][0] == scraper
    assert metrics["from"][1]["podSelector"]["matchLabels"].items() <= test.items()
    # The test is none of the operators that the policy is for.
    assert not metrics["from"][1]["podSelector"]["matchLabels"].items() <= (
        pod()["metadata"]["labels"].items()
    )


def test_name_servers_and_the_api_server_are_reached_and_nothing_else() -> None:
    names, api = policy()["egress"]

    assert ports(names) == {("UDP", 53), ("TCP", 53), ("UDP", 5353), ("TCP", 5353)}
    assert ports(api) == {("TCP", 443), ("TCP", 6443), ("TCP", 8443)}


def test_the_api_server_can_be_named() -> None:
    _, api = policy({"apiServerCIDRs": ["10.0.0.1/32"], "apiServerPorts": [6443]})["egress"]

    assert api == {
        "ports": [{"port": 6443, "protocol": "TCP"}],
        "to": [{"ipBlock": {"cidr": "10.0.0.1/32"}}],
    }


def test_rules_of_one_s_own_are_added() -> None:
    rule = {"ports": [{"port": 1}]}

    spec = policy({"extraIngress": [rule], "extraEgress": [rule]})

    assert (spec["ingress"][-1], spec["egress"][-1]) == (rule, rule)
