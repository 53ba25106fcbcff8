"""`make docker-build` and `make docker-push`: the operator's image (IMG=…)."""

import argparse

from hack.commands import Subparsers
from hack.pack import image


def add(commands: Subparsers) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("image", help="build or push the operator's image (IMG=…)")
    parser.add_argument("action", choices=("build", "push"))
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> None:
    print(image.build() if arguments.action == "build" else image.push())
