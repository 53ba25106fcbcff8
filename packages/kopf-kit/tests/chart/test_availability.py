"""Replicas, and what may happen to them."""

import pytest

from chart.helm import Manifest, Values, find, names, pod, render
from chart.scenarios import SCENARIOS

SELECTED = {"app.kubernetes.io/name": "widget-operator", "app.kubernetes.io/instance": "demo"}


def budget(replicas: int, values: Values) -> Manifest:
    """Return the specification of the PodDisruptionBudget of so many replicas."""
    manifests = render({"replicaCount": replicas, "podDisruptionBudget": values})
    spec: Manifest = find(manifests, "PodDisruptionBudget")["spec"]
    return spec


@pytest.mark.parametrize("replicas", [0, 1])
@pytest.mark.parametrize("values", [{}, {"minAvailable": 1}, {"maxUnavailable": 0}], ids=str)
def test_a_single_operator_never_blocks_a_drain(replicas: int, values: Values) -> None:
    manifests = render({"replicaCount": replicas, "podDisruptionBudget": values})

    assert "PodDisruptionBudget" not in {kind for kind, _, _ in names(manifests)}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, {"maxUnavailable": 1}),
        ({"minAvailable": None}, {"maxUnavailable": 1}),
        ({"maxUnavailable": 2}, {"maxUnavailable": 2}),
        ({"maxUnavailable": "50%"}, {"maxUnavailable": "50%"}),
        ({"minAvailable": 0}, {"minAvailable": 0}),
        ({"minAvailable": 2}, {"minAvailable": 2}),
        ({"minAvailable": "66%"}, {"minAvailable": "66%"}),
    ],
    ids=str,
)
def test_several_operators_are_evicted_one_after_the_other(
    values: Values, expected: Manifest
) -> None:
    spec = budget(3, values)

    assert spec == {
        **expected,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": SELECTED},
    }
    assert spec["selector"]["matchLabels"].items() <= pod()["metadata"]["labels"].items()


def test_replicas_are_spread_over_nodes_by_their_own_labels() -> None:
    assert pod()["spec"]["topologySpreadConstraints"] == [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": SELECTED},
        }
    ]


def test_a_selector_of_one_s_own_is_left_alone() -> None:
    spread = {
        "maxSkew": 2,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
    }

    assert pod({"topologySpreadConstraints": [spread]})["spec"]["topologySpreadConstraints"] == [
        spread
    ]


@pytest.mark.parametrize("values", SCENARIOS.values(), ids=SCENARIOS)
def test_no_scenario_needs_a_priority_that_clusters_keep_for_themselves(values: Values) -> None:
    # GKE refuses those outside kube-system.
    assert not str(pod(values)["spec"].get("priorityClassName", "")).startswith("system-")
