"""`make cluster` and `make cluster-down`, and the tests' own cluster."""

import argparse

from hack.commands import Subparsers
from hack.rig import cluster
from hack.rig.steps import say


def add(commands: Subparsers) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("cluster", help="create or delete the kind cluster")
    parser.add_argument("action", choices=("up", "down", "tests"))
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> None:
    if arguments.action == "down":
        cluster.down()
    elif arguments.action == "tests":
        cluster.up(cluster.TEST_NAME)
    else:
        say(f"The cluster answers: export KUBECONFIG={cluster.up().kubeconfig}")
