"""`python -m hack tool kubectl`: prints the path of a program, for people and for scripts."""

import argparse

from hack.commands import Subparsers
from hack.rig import golang, tools


def add(commands: Subparsers) -> None:
    """Add the command to the command line."""
    text = "print where tools are, built where they are missing"
    parser = commands.add_parser("tool", help=text)
    names = sorted({*tools.NAMES, *golang.PROGRAMS, *golang.KUBERNETES})
    parser.add_argument("names", nargs="+", choices=names, metavar="NAME")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> None:
    golang.programs([name for name in arguments.names if name not in tools.NAMES])
    for name in arguments.names:
        print(tools.path(name) if name in tools.NAMES else golang.program(name))
