"""The commands of the Makefile: `python -m hack COMMAND`, a module of `hack.commands` each."""

import argparse
import importlib
import sys

from hack.rig import command

_MODULES = (
    *("preflight", "cluster", "tool", "image", "push", "demo", "deploy", "crd", "olm", "run"),
    *("generate", "changelog", "bump", "chart_diff", "release_bundle", "scan"),
    *("matrix", "e2e", "plugin", "docs"),
)


def _main() -> int | None:
    parser = argparse.ArgumentParser(prog="python -m hack", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name in _MODULES:
        # Imported here, because that reads the file PROJECT: a mistake in it is told, as any other.
        importlib.import_module(f"hack.commands.{name}").add(commands)
    arguments = parser.parse_args()
    code: int | None = arguments.run(arguments)
    return code


if __name__ == "__main__":
    sys.exit(command.execute(_main))
