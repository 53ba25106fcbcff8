"""`kopf-kit e2e`: the end-to-end tests, on a kind cluster of their own, or on an existing one.

`e2e` runs the tests in which Helm installs the operator, `e2e-olm` those in which a Subscription
does. The tests of an operator that PROJECT names are in its own folder, for both. Without a folder
tests/olm, `e2e-olm` runs those of tests/e2e; without tests/e2e, both apply its samples. Tests with
the mark `long` are left out unless an option of pytest, `-m`, says otherwise.
"""

import os
from pathlib import Path

from kopf_kit.commands import crd, push, pytest_runs
from kopf_kit.pack.project import PROJECT
from kopf_kit.program import passing_on
from kopf_kit.rig import cluster as clusters
from kopf_kit.rig import olm, paths
from kopf_kit.rig.cluster import Cluster
from kopf_kit.rig.run import HackError
from kopf_kit.rig.steps import say

_TESTS = paths.CHECKOUT / "tests"
#: What is tested where there is no folder tests/e2e.
_SAMPLES = paths.KIT / "testing" / "samples.py"
#: The release that the tests by Helm install, as NAMESPACE/NAME.
RELEASE = f"{PROJECT.name}-e2e/{PROJECT.name}"


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
    return pytest_runs.result([shared, _pytest(alone, cluster, arguments)])


def run_olm(arguments: list[str]) -> int:
    """Run only the tests of OLM; without any, run those of Helm on what OLM installs."""
    push.check_olm()
    cluster = olm.up(clusters.TEST_NAME)
    ours = _TESTS / "olm" if PROJECT.is_the_checkouts else _TESTS / "projects" / "test_olm.py"
    if ours.exists():
        return _pytest(ours, cluster, arguments)
    return _pytest(_own(), cluster, ["--by-olm", *arguments])


def _own() -> Path:
    """Return the project's tests, or else those that apply its samples."""
    e2e = PROJECT.root / "tests" / "e2e"
    return e2e if e2e.is_dir() else _SAMPLES


def _refuse_users_crd(cluster: Cluster) -> None:
    """Raise HackError if an existing cluster has the CRD, unless an interrupted run left it."""
    if not crd.is_there(cluster) or crd.release(cluster) == RELEASE:
        return
    owner = crd.release(cluster)
    origin = f"of the Helm release {owner}" if owner else "that no Helm release owns"
    raise HackError(
        f"the cluster already has the CRD {crd.NAMES}, {origin}. The tests install an operator of "
        f"their own, which would act on your {PROJECT.many}: use a cluster without the CRD, or "
        "delete it with all of them (CLUSTER=existing kopf-kit uninstall)."
    )


def _pytest(tests: Path | list[Path], cluster: Cluster, arguments: list[str]) -> int:
    folders = [tests] if isinstance(tests, Path) else tests
    named = " and ".join(os.path.relpath(folder, paths.CHECKOUT) for folder in folders)
    say(f"==> End-to-end tests in {named}")
    if tests == _SAMPLES:  # whose configuration is not that of the folders above it
        arguments = [f"--rootdir={paths.CHECKOUT}", *arguments]
    return pytest_runs.run(*map(str, folders), *arguments, KUBECONFIG=str(cluster.kubeconfig))


e2e = passing_on(run, "PYTEST'S OPTIONS")
e2e_olm = passing_on(run_olm, "PYTEST'S OPTIONS")
