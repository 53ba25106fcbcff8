"""The program `kopf-kit`: one module of `kopf_kit.commands` for each command."""

import argparse
import importlib
import pkgutil
import sys

import kopf_kit.commands
from kopf_kit.rig import command


def main() -> int:
    """Run the command that the arguments name; return its exit code."""
    return command.execute(_run)


def _run() -> int | None:
    parser = argparse.ArgumentParser(prog="kopf-kit", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in pkgutil.iter_modules(kopf_kit.commands.__path__, "kopf_kit.commands."):
        if _is_without_project() and module.name != f"kopf_kit.commands.{sys.argv[1]}":
            continue
        # The import reads the file PROJECT, so it happens here, where errors are reported.
        if add := getattr(importlib.import_module(module.name), "add", None):
            add(commands)
    arguments = parser.parse_args()
    if not _is_without_project() and "unless_current" not in arguments:  # all but `generate`
        from kopf_kit.pack import nested, project

        nested.ensure(project.PROJECT)
    code: int | None = arguments.run(arguments)
    return code


def _is_without_project() -> bool:
    """Return whether the command needs no file PROJECT, which the other modules read."""
    return sys.argv[1:2] in (["new"], ["update"])


if __name__ == "__main__":
    sys.exit(main())
