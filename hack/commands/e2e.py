"""`make e2e`: the end-to-end tests, on a kind cluster of their own, or on an existing one.

The tests of Helm run first, then those of OLM; each group installs the operator and removes it
again. OLM's programs are compiled at low priority during the
first tests, which mostly wait. On an existing cluster only the tests of Helm run. The tests of an
operator that PROJECT names are in its own folder: for `make e2e` Helm installs the operator, for
`make e2e-olm` a Subscription does.
"""

from pathlib import Path

from hack.commands import Subparsers, crd, pytest_runs
from hack.pack.project import PROJECT, REFERENCE
from hack.rig import cluster as clusters
from hack.rig import olm, paths
from hack.rig.cluster import Cluster
from hack.rig.run import HackError
from hack.rig.steps import say, together

_TESTS = paths.CHECKOUT / "tests"
#: The release that the tests by Helm install, as NAMESPACE/NAME.
RELEASE = f"{PROJECT.name}-e2e/{PROJECT.name}"


def add(commands: Subparsers) -> None:
    """Add the commands to the command line."""
    for name, follow, text in (
        ("e2e", run, "run the end-to-end tests"),
        ("e2e-olm", run_olm, "run those by OLM alone"),
    ):
        parser = commands.add_parser(name, help=text)
        parser.add_argument("rest", nargs="*", metavar="-- OPTION", help="passed on to pytest")
        parser.set_defaults(run=lambda arguments, follow=follow: follow(arguments.rest))


def run(arguments: list[str]) -> int:
    """Run the tests, with these further options of pytest; return pytest's exit code."""
    cluster = clusters.up(clusters.TEST_NAME)
    if cluster.existing:
        _refuse_users_crd(cluster)
    if PROJECT.root != REFERENCE.root:
        return _pytest(PROJECT.root / "tests" / "e2e", cluster.kubeconfig, arguments)
    codes: list[int] = []

    def by_helm() -> None:
        codes.append(_pytest(_TESTS / "e2e", cluster.kubeconfig, arguments))

    together(by_helm, *(() if cluster.existing else (olm.image,)))
    if not cluster.existing:
        codes.append(_pytest(_TESTS / "olm", cluster.kubeconfig, arguments))
    return pytest_runs.result(codes)


def run_olm(arguments: list[str]) -> int:
    """Run only the tests of OLM."""
    cluster = olm.up(clusters.TEST_NAME)
    if PROJECT.root == REFERENCE.root:
        return _pytest(_TESTS / "olm", cluster.kubeconfig, arguments)
    shared, own = _TESTS / "projects" / "test_olm.py", PROJECT.root / "tests" / "e2e"
    codes = [
        _pytest(tests, cluster.kubeconfig, arguments, INSTALLED_BY="olm") for tests in (shared, own)
    ]
    return pytest_runs.result(codes)


def _refuse_users_crd(cluster: Cluster) -> None:
    """Raise HackError if an existing cluster has the CRD, unless an interrupted run left it."""
    if not crd.is_there(cluster) or crd.release(cluster) == RELEASE:
        return
    owner = crd.release(cluster)
    origin = f"of the Helm release {owner}" if owner else "that no Helm release owns"
    raise HackError(
        f"the cluster already has the CRD {crd.NAMES}, {origin}. The tests install an operator of "
        f"their own, which would act on your {PROJECT.many}: use a cluster without the CRD, or "
        "delete it with all of them (make uninstall CLUSTER=existing)."
    )


def _pytest(tests: Path, kubeconfig: Path, arguments: list[str], **environment: str) -> int:
    say(f"==> End-to-end tests in {tests.relative_to(paths.CHECKOUT)}")
    return pytest_runs.run(str(tests), *arguments, KUBECONFIG=str(kubeconfig), **environment)
