"""`kopf-kit plugin`: packs the operator's kubectl plugin, and installs it for the user."""

import os
import shutil
from pathlib import Path

import click

from kopf_kit.project.definition import PROJECT
from kopf_kit.release import krew
from kopf_kit.rig import paths
from kopf_kit.rig.run import KitError

#: The folder of a user's programs in systemd's file hierarchy; most distributions add it to PATH.
HOME = Path(".local") / "bin"


@click.command()
def command() -> None:  # noqa: D103 (the program has its help)
    folder = (paths.BUILD if PROJECT.is_the_checkouts else PROJECT.built) / "plugin"
    krew.write(folder)
    print(f"{folder.relative_to(paths.CHECKOUT)}/ has {krew.PROGRAM}, and krew's archive")
    print(f"and manifest of it: {krew.ARCHIVE}, {krew.MANIFEST}")
    installed = install(folder / krew.PROGRAM)
    print(f"{installed} is installed")
    if (on_path := shutil.which(krew.PROGRAM)) is not None and Path(on_path) == installed:
        print(f"Try it: kubectl {krew.COMMAND} --help")
        return
    print("kubectl finds plugins on the PATH, and it is not there yet. Put this into ~/.profile:")
    print(f'  export PATH="{installed.parent}:$PATH"')


def install(program: Path) -> Path:
    """Copy the program to the folder of the user's programs; return the copy's path.

    If it is already on the PATH, it is replaced, unless krew manages it. Raise KitError if the
    folder is not writable.
    """
    former = shutil.which(krew.PROGRAM)
    folder = Path(former).parent if former else Path.home() / HOME
    if ".krew" in folder.parts or not os.access(folder, os.W_OK):
        folder = Path.home() / HOME
    target = folder / krew.PROGRAM
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f".{target.name}.new")
        shutil.copy2(program, fresh)
        fresh.replace(target)  # in one step: it may be running
    except OSError as error:
        raise KitError(
            f"cannot write {target}: {error.strerror}; copy {program} to a folder on the PATH"
        ) from error
    return target
