"""`make cluster` and `make olm`: what the rig makes, for people, for scripts and for the tests.

`python -m kopf_kit tool kubectl` prints the path of a program.
"""

import argparse

from kopf_kit.commands import Subparsers
from kopf_kit.rig import cluster, engine, golang, olm, registry, tools
from kopf_kit.rig.steps import say


def add(commands: Subparsers) -> None:
    """Add the commands to the command line."""
    parser = commands.add_parser("cluster", help="create or delete the kind cluster")
    parser.add_argument("action", choices=("up", "down", "tests"))
    parser.set_defaults(run=_cluster)

    parser = commands.add_parser("olm", help="install OLM in the cluster, or remove it")
    parser.add_argument("action", choices=("up", "down", "image"))
    parser.set_defaults(run=_olm)

    text = "print where tools are, built where they are missing"
    parser = commands.add_parser("tool", help=text)
    names = sorted({*tools.NAMES, *golang.PROGRAMS, *golang.KUBERNETES})
    parser.add_argument("names", nargs="+", choices=names, metavar="NAME")
    parser.set_defaults(run=_tool)


def _cluster(arguments: argparse.Namespace) -> None:
    if arguments.action == "down":
        cluster.down()
    elif arguments.action == "tests":
        cluster.up(cluster.TEST_NAME)
    else:
        say(f"The cluster answers: export KUBECONFIG={cluster.up().kubeconfig}")


def _olm(arguments: argparse.Namespace) -> None:
    if arguments.action == "down":
        olm.down()
    elif arguments.action == "image":  # only the image with its programs
        engine.up()
        registry.up()
        olm.image()
    else:
        olm.report(olm.up())


def _tool(arguments: argparse.Namespace) -> None:
    golang.programs([name for name in arguments.names if name not in tools.NAMES])
    for name in arguments.names:
        print(tools.path(name) if name in tools.NAMES else golang.program(name))
