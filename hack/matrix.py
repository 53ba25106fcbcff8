"""The tier `matrix`: everything that depends on the API server, on each supported Kubernetes.

The tests are those of tests/faults with the mark `api`, or the quick ones of the operator that
PROJECT names. They run one version after the other, each on control planes of plain processes. The
variable KUBERNETES picks one version.
"""

import os
import time
from pathlib import Path
from xml.etree import ElementTree

from kopf_kit.commands import pytest_runs
from kopf_kit.pack.project import PROJECT
from kopf_kit.program import passing_on
from kopf_kit.rig import control_plane, paths, tools, versions
from kopf_kit.rig.run import elapsed
from kopf_kit.rig.steps import say

_TESTS = paths.CHECKOUT / "tests" / "faults"
_TOOLS = ("kubectl", "helm3", "helm4")


def run(arguments: list[str]) -> int:
    """Run the tests, with further options for pytest; return the worst exit code."""
    picked = control_plane.chosen()
    chosen = [picked] if os.environ.get("KUBERNETES") else list(versions.PROVED)
    codes, lines = [], []
    for minor in chosen:
        _build(minor)
        say(f"==> Tests of what depends on the API server, on Kubernetes {versions.PROVED[minor]}")
        began = time.monotonic()
        report = paths.BUILD / "test" / f"matrix.{minor}.xml"
        report.parent.mkdir(parents=True, exist_ok=True)
        codes.append(_pytest(minor, report, arguments))
        result = f"{_counts(report)} in {elapsed(time.monotonic() - began)}"
        lines.append(f"{minor:<10}  {versions.PROVED[minor]:<8}  {result}")
    say("\n".join(["Kubernetes  server    tests", *lines]))
    return pytest_runs.result(codes)


def _build(minor: str) -> None:
    """Build the programs that the tests run, so that this is shown as a separate step."""
    for name in _TOOLS:
        tools.path(name)
    tools.built("etcd")
    tools.kubernetes(minor, "kube-apiserver", "kube-controller-manager")


def _pytest(minor: str, report: Path, arguments: list[str]) -> int:
    report.unlink(missing_ok=True)
    project = PROJECT.root.relative_to(paths.CHECKOUT)
    ours = PROJECT.is_the_checkouts
    chosen = (
        ("-m", "api and not soak")
        if ours
        else ("-m", "not long and not soak", f"--project={project}")
    )
    return pytest_runs.run(
        *(str(_TESTS), *chosen, "-n", "3", "--dist", "worksteal"),
        *(f"--junit-xml={report}", *arguments),
        KUBERNETES=minor,
        PROJECT="",
    )


def _counts(report: Path) -> str:
    """Return how many tests passed, and how many did not, according to pytest's report."""
    if not report.is_file():
        return "no test ran"
    suite = next(ElementTree.parse(report).iter("testsuite"))  # noqa: S314 (pytest has written it)
    failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
    skipped = int(suite.get("skipped", 0))
    passed = int(suite.get("tests", 0)) - failed - skipped
    others = [
        f"{number} {word}" for number, word in ((failed, "failed"), (skipped, "skipped")) if number
    ]
    return ", ".join([f"{passed} passed", *others])


command = passing_on(run, "PYTEST'S OPTIONS")
