"""Tiers of this repository alone: `make`, `soak` and `matrix`.

Those of `make` run on the tests' own kind cluster. They install and remove the operator, the CRD
and OLM many times, so no cluster of a user will do. `matrix` runs what depends on
the API server, the fault tests with the mark `api` or the quick ones of the operator that
PROJECT names, on each supported Kubernetes; the variable KUBERNETES picks one version.
"""

import os
import time
from pathlib import Path

from kopf_kit.cli import e2e, lanes
from kopf_kit.program import passing_on
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import cluster as clusters
from kopf_kit.rig import control_plane, paths, tools, versions
from kopf_kit.rig.run import KitError, elapsed
from kopf_kit.rig.steps import say

_TESTS = paths.CHECKOUT / "tests"
#: Each has its own fixtures, so each is a run of its own.
_FAULTS = {
    "runtime": paths.CHECKOUT / "packages" / "kopf-runtime" / "tests" / "faults",
    "operator": _TESTS / "faults",
}


def make(arguments: list[str]) -> int:
    """Run the tests, with these further options of pytest; return pytest's exit code."""
    if clusters.is_existing():
        raise KitError(
            "CLUSTER=existing: these tests remove the operator, its CRD and OLM from their "
            "cluster, so they only run on one that is made here. Leave CLUSTER out."
        )
    cluster = clusters.up(clusters.TEST_NAME)
    return e2e.run_pytest(str(_TESTS / "make"), *arguments, KUBECONFIG=str(cluster.kubeconfig))


def soak(arguments: list[str]) -> int:
    """Run the test for as many minutes as the variable MINUTES says; return the exit code."""
    chosen = ("-m", "soak", "-s", *arguments)
    return e2e.run_pytest(str(_TESTS / "faults"), *chosen, MINUTES=str(minutes()))


def minutes() -> float:
    """Return the variable MINUTES, by default an hour; raise KitError if it is no such time."""
    value = os.environ.get("MINUTES") or "60"
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise KitError(
            f"MINUTES={value} is not valid. Use a number of minutes, such as MINUTES=10, or leave "
            "MINUTES out for an hour."
        )
    return number


def matrix(arguments: list[str]) -> int:
    """Run the tests on one Kubernetes after the other; return the worst exit code."""
    picked = control_plane.chosen()
    parts = _FAULTS if PROJECT.is_the_checkouts else {"operator": _TESTS / "faults"}
    codes, lines = [], ["Kubernetes  server    tests"]
    for minor in [picked] if os.environ.get("KUBERNETES") else versions.PROVED:
        _build(minor)
        for name, folder in parts.items():
            server = versions.PROVED[minor]
            say(f"==> What depends on the API server ({name}), on Kubernetes {server}")
            began, report = time.monotonic(), paths.BUILD / "test" / f"matrix-{name}.{minor}.xml"
            report.parent.mkdir(parents=True, exist_ok=True)
            codes.append(_on(minor, report, folder, arguments))
            counts = lanes.read_report(report.parent, report.stem)
            took = elapsed(time.monotonic() - began)
            lines.append(f"{minor:<10}  {versions.PROVED[minor]:<8}  {name}: {counts} in {took}")
    say("\n".join(lines))
    return e2e.result(codes)


def _build(minor: str) -> None:
    """Build the programs that the tests run, so that this is shown as a separate step."""
    for name in ("kubectl", "helm3", "helm4"):
        tools.path(name)
    tools.built("etcd")
    tools.kubernetes(minor, "kube-apiserver", "kube-controller-manager")


def _on(minor: str, report: Path, folder: Path, arguments: list[str]) -> int:
    """Run pytest on a Kubernetes, on control planes of plain processes; return its exit code."""
    report.unlink(missing_ok=True)
    chosen = ["-m", "api and not soak"]
    if not PROJECT.is_the_checkouts:
        project = PROJECT.root.relative_to(paths.CHECKOUT)
        chosen = ["-m", "not long and not soak", f"--project={project}"]
    spread = ("-n", "3", "--dist", "worksteal", f"--junit-xml={report}")
    tests = (str(folder), *chosen, *spread, *arguments)
    return e2e.run_pytest(*tests, KUBERNETES=minor, PROJECT="")


make_command = passing_on(make, "PYTEST'S OPTIONS")
soak_command = passing_on(soak, "PYTEST'S OPTIONS")
matrix_command = passing_on(matrix, "PYTEST'S OPTIONS")
