"""`kopf-kit e2e`: the end-to-end tests, on a kind cluster of their own, or on an existing one."""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

from kopf_kit.cli import crd, push
from kopf_kit.program import passing_on
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import cluster as clusters
from kopf_kit.rig import olm, paths
from kopf_kit.rig.cluster import Cluster
from kopf_kit.rig.run import KitError
from kopf_kit.rig.steps import say

_NOTHING_SELECTED = 5  # pytest's exit code
_numbers = itertools.count(1)


def run_pytest(*arguments: str, **environment: str) -> int:
    """Run pytest with these arguments and variables; return its exit code.

    As in `subprocess`, it is negative if a signal ended the run. The second run and those after it
    write a report (`--junit-xml=FILE.xml`) of their own: FILE.2.xml.
    """
    number = next(_numbers)
    ours = [
        re.sub(r"\.xml$", f".{number}.xml", option)
        if number > 1 and option.startswith("--junit-xml=")
        else option
        for option in arguments
    ]
    command = [sys.executable, "-m", "pytest", *ours]
    variables = {**os.environ, **environment}
    return subprocess.run(command, cwd=paths.CHECKOUT, env=variables, check=False).returncode


def result(codes: list[int]) -> int:
    """Return one exit code for several runs: 0 only if none failed.

    If a signal ended a run, its code is the shell's, such as 137 for SIGKILL. A run without a
    selected test (ARGS) counts as successful.
    """
    ran = [code for code in codes if code != _NOTHING_SELECTED]
    if not ran:
        return _NOTHING_SELECTED
    return max(128 - code if code < 0 else code for code in ran)


_TESTS = paths.CHECKOUT / "tests"
#: What is tested where there is no folder tests/e2e.
_SMOKE = paths.KIT / "testing" / "smoke.py"


def run(arguments: list[str]) -> int:
    """Run the tests of Helm, first those that share an operator, side by side.

    The arguments are further options of pytest; return pytest's exit code.
    """
    cluster = clusters.up(clusters.TEST_NAME)
    if cluster.existing:
        _refuse_users_crd(cluster)
    e2e = _own()
    if not PROJECT.is_the_checkouts:
        return _pytest(e2e, cluster, arguments)
    alone = [folder for folder in (e2e / "chart", e2e / "alone") if folder.is_dir()]
    if not alone:
        return _pytest(e2e, cluster, arguments)
    # One test at a time goes to each process: they differ much in how long they take.
    options = ["-n", "4", "--dist=load", "--maxschedchunk=1"]
    options += [f"--ignore={folder}" for folder in alone]
    shared = _pytest(e2e, cluster, [*options, *arguments])
    return result([shared, _pytest(alone, cluster, arguments)])


def run_olm(arguments: list[str]) -> int:
    """Run only the tests of OLM; without any, run those of Helm on what OLM installs."""
    push.check_olm()
    cluster = olm.up(clusters.TEST_NAME)
    ours = _TESTS / "olm"
    if PROJECT.is_the_checkouts and ours.exists():
        return _pytest(ours, cluster, arguments)
    return _pytest(_own(), cluster, ["--by-olm", *arguments])


def _own() -> Path:
    """Return the project's tests, or else those that apply its samples."""
    e2e = PROJECT.root / "tests" / "e2e"
    return e2e if e2e.is_dir() else _SMOKE


def _refuse_users_crd(cluster: Cluster) -> None:
    """Raise KitError if an existing cluster has the CRD."""
    if not crd.is_there(cluster):
        return
    owner = crd.release(cluster)
    origin = f"of the Helm release {owner}" if owner else "that no Helm release owns"
    raise KitError(
        f"the cluster already has the CRD {crd.NAMES}, {origin}. The tests install an operator of "
        f"their own, which would act on your {PROJECT.many}: use a cluster without the CRD, or "
        "delete it with all of them (CLUSTER=existing kopf-kit uninstall)."
    )


def _pytest(tests: Path | list[Path], cluster: Cluster, arguments: list[str]) -> int:
    folders = [tests] if isinstance(tests, Path) else tests
    named = " and ".join(os.path.relpath(folder, paths.CHECKOUT) for folder in folders)
    say(f"==> End-to-end tests in {named}")
    if tests == _SMOKE:  # whose configuration is not that of the folders above it
        arguments = [f"--rootdir={paths.CHECKOUT}", *arguments]
    return run_pytest(*map(str, folders), *arguments, KUBECONFIG=str(cluster.kubeconfig))


e2e = passing_on(run, "PYTEST'S OPTIONS")
e2e_olm = passing_on(run_olm, "PYTEST'S OPTIONS")
