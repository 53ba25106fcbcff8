"""The tier `make`: the tests of the Makefile's commands, on the tests' own kind cluster.

They install and remove the operator, the CRD and OLM many times, so no cluster of a user will do.
"""

from hack.commands import Subparsers, pytest_runs
from hack.rig import cluster as clusters
from hack.rig import paths
from hack.rig.run import HackError

_TESTS = paths.CHECKOUT / "tests" / "make"


def add(commands: Subparsers) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("test-make", help="run the tests of the Makefile's commands")
    parser.add_argument("rest", nargs="*", metavar="-- OPTION", help="passed on to pytest")
    parser.set_defaults(run=lambda arguments: run(arguments.rest))


def run(arguments: list[str]) -> int:
    """Run the tests, with these further options of pytest; return pytest's exit code."""
    if clusters.is_existing():
        raise HackError(
            "CLUSTER=existing: these tests remove the operator, its CRD and OLM from their "
            "cluster, so they only run on one that is made here. Leave CLUSTER out."
        )
    cluster = clusters.up(clusters.TEST_NAME)
    return pytest_runs.run(str(_TESTS), *arguments, KUBECONFIG=str(cluster.kubeconfig))
