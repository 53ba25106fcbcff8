"""`make preflight`: reports what this machine lacks for `make test`."""

import argparse

from hack.commands import Subparsers
from hack.rig import cluster, engine, preflight, public_images


def add(commands: Subparsers) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("preflight", help="tell what this machine lacks for the tests")
    parser.set_defaults(run=_run)


def _run(_: argparse.Namespace) -> None:
    preflight.check(preflight.TESTS)
    if not cluster.is_existing():
        engine.up()
        public_images.are_in_reach()
