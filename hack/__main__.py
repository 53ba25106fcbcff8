"""The commands of the Makefile: `python -m hack COMMAND`, a module of `hack.commands` each."""

import argparse
import sys

from hack.commands import (
    bump,
    chart_diff,
    cluster,
    crd,
    demo,
    deploy,
    e2e,
    generate,
    image,
    matrix,
    olm,
    preflight,
    push,
    release_bundle,
    run,
    tool,
)
from hack.rig import command

_MODULES = (
    *(preflight, cluster, tool, image, push, demo, deploy, crd, olm, run),
    *(generate, bump, chart_diff, release_bundle, matrix, e2e),
)


def _main() -> int | None:
    parser = argparse.ArgumentParser(prog="python -m hack", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in _MODULES:
        module.add(commands)
    arguments = parser.parse_args()
    code: int | None = arguments.run(arguments)
    return code


if __name__ == "__main__":
    sys.exit(command.execute(_main))
