"""Tiers of this repository alone: the Makefile's commands, upgrades between releases, and the soak.

Those of `make` and `upgrades` run on the tests' own kind cluster. They install and remove the
operator, the CRD and OLM many times, so no cluster of a user will do.
"""

import os

from kopf_kit.commands import pytest_runs
from kopf_kit.program import passing_on
from kopf_kit.rig import cluster as clusters
from kopf_kit.rig import olm, paths
from kopf_kit.rig.run import HackError

_TESTS = paths.CHECKOUT / "tests"


def make(arguments: list[str]) -> int:
    """Run the tests, with these further options of pytest; return pytest's exit code."""
    if clusters.is_existing():
        raise HackError(
            "CLUSTER=existing: these tests remove the operator, its CRD and OLM from their "
            "cluster, so they only run on one that is made here. Leave CLUSTER out."
        )
    cluster = clusters.up(clusters.TEST_NAME)
    return pytest_runs.run(str(_TESTS / "make"), *arguments, KUBECONFIG=str(cluster.kubeconfig))


def upgrades(arguments: list[str]) -> int:
    """Run the tests with OLM in the cluster, as `make` runs its own."""
    cluster = olm.up(clusters.TEST_NAME)
    return pytest_runs.run(str(_TESTS / "upgrades"), *arguments, KUBECONFIG=str(cluster.kubeconfig))


def soak(arguments: list[str]) -> int:
    """Run the test for as many minutes as the variable MINUTES says; return the exit code."""
    chosen = ("-m", "soak", "-s", *arguments)
    return pytest_runs.run(str(_TESTS / "faults"), *chosen, MINUTES=str(minutes()))


def minutes() -> float:
    """Return the variable MINUTES, by default an hour; raise HackError if it is no such time."""
    value = os.environ.get("MINUTES") or "60"
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise HackError(
            f"MINUTES={value} is not valid. Use a number of minutes, such as MINUTES=10, or leave "
            "MINUTES out for an hour."
        )
    return number


make_command = passing_on(make, "PYTEST'S OPTIONS")
upgrades_command = passing_on(upgrades, "PYTEST'S OPTIONS")
soak_command = passing_on(soak, "PYTEST'S OPTIONS")
