"""`make olm`: OLM in the cluster, its removal, or only the image with its programs."""

import argparse

from hack.commands import Subparsers
from hack.rig import engine, olm, registry


def add(commands: Subparsers) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("olm", help="install OLM in the cluster, or remove it")
    parser.add_argument("action", choices=("up", "down", "image"))
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> None:
    if arguments.action == "down":
        olm.down()
    elif arguments.action == "image":
        engine.up()
        registry.up()
        olm.image()
    else:
        olm.report(olm.up())
