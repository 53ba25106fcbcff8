"""`make plugin`: pack the plugin of kubectl, and install it for the user."""

import argparse
import os
import shutil
from pathlib import Path

from hack.commands import Subparsers
from hack.pack import plugin
from hack.rig import paths
from hack.rig.run import HackError

#: Where systemd's file hierarchy has a user's programs; most distributions have it on the PATH.
HOME = Path(".local") / "bin"


def add(commands: Subparsers) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("plugin", help="pack and install kubectl's plugin")
    parser.set_defaults(run=_run)


def _run(_: argparse.Namespace) -> None:
    folder = paths.BUILD / "plugin"
    pack(folder)
    print(f"{folder.relative_to(paths.CHECKOUT)}/ has {plugin.PROGRAM}, and krew's archive")
    print(f"and manifest of it: {plugin.ARCHIVE}, {plugin.MANIFEST}")
    installed = install(folder / plugin.PROGRAM)
    print(f"{installed} is installed")
    if (found := shutil.which(plugin.PROGRAM)) is not None and Path(found) == installed:
        print("Try it: kubectl message --help")
        return
    print("kubectl finds plugins on the PATH, and it is not there yet. Put this into ~/.profile:")
    print(f'  export PATH="{installed.parent}:$PATH"')


def pack(folder: Path) -> None:
    """Write the program, and krew's archive and manifest of it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / plugin.PROGRAM).write_bytes(plugin.program())
    (folder / plugin.PROGRAM).chmod(0o755)
    (folder / plugin.ARCHIVE).write_bytes(plugin.archive())
    (folder / plugin.MANIFEST).write_text(plugin.manifest())


def install(program: Path) -> Path:
    """Copy the program to where a user's programs are; return the copy's path.

    One that is on the PATH already is replaced, unless krew keeps it. Raises HackError where the
    folder cannot be written to.
    """
    former = shutil.which(plugin.PROGRAM)
    there = Path(former).parent if former else Path.home() / HOME
    if ".krew" in there.parts or not os.access(there, os.W_OK):
        there = Path.home() / HOME
    target = there / plugin.PROGRAM
    try:
        there.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f".{target.name}.new")
        shutil.copy2(program, fresh)
        fresh.replace(target)  # in one step: it may be running
    except OSError as error:
        raise HackError(
            f"cannot write {target}: {error.strerror}; copy {program} to a folder on the PATH"
        ) from error
    return target
