"""The tier `upgrades`: rehearse releases, and upgrade from each by Helm and by OLM.

The tests run on the tests' own kind cluster, with OLM in it, as those of the tier `olm` do.
"""

from hack.commands import Subparsers, pytest_runs
from hack.rig import cluster as clusters
from hack.rig import olm, paths

_TESTS = paths.CHECKOUT / "tests" / "upgrades"


def add(commands: Subparsers) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("test-upgrades", help="rehearse releases, and upgrade from each")
    parser.add_argument("rest", nargs="*", metavar="-- OPTION", help="passed on to pytest")
    parser.set_defaults(run=lambda arguments: run(arguments.rest))


def run(arguments: list[str]) -> int:
    """Run the tests, with these further options of pytest; return pytest's exit code."""
    cluster = olm.up(clusters.TEST_NAME)
    return pytest_runs.run(str(_TESTS), *arguments, KUBECONFIG=str(cluster.kubeconfig))
