"""Runs a command of the Makefile: `python -m hack COMMAND`, one module of `hack.commands` each."""

import argparse
import importlib
import pkgutil
import sys

import hack.commands
from hack.rig import command


def _main() -> int | None:
    parser = argparse.ArgumentParser(prog="python -m hack", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in pkgutil.iter_modules(hack.commands.__path__, "hack.commands."):
        # The import reads the file PROJECT, so it happens here, where errors are reported.
        if add := getattr(importlib.import_module(module.name), "add", None):
            add(commands)
    arguments = parser.parse_args()
    if "unless_current" not in arguments:  # all but `generate` itself
        from hack.pack import nested, project

        nested.ensure(project.PROJECT)
    code: int | None = arguments.run(arguments)
    return code


if __name__ == "__main__":
    sys.exit(command.execute(_main))
