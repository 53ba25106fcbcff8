"""`make olm` and `make olm-down`."""

import argparse

from hack.commands import Subparsers
from hack.rig import olm


def add(commands: Subparsers) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("olm", help="install OLM in the cluster, or remove it")
    parser.add_argument("action", choices=("up", "down"))
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> None:
    if arguments.action == "down":
        olm.down()
    else:
        olm.report(olm.up())
