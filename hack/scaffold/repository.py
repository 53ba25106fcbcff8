"""A new operator's repository, as `make new` writes it: complete, or not at all."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from hack.pack import kit_record
from hack.pack.kit_record import Record
from hack.rig import paths
from hack.rig.run import HackError, output
from hack.scaffold import author, kit
from hack.scaffold.answers import Answers


def write(answers: Answers, folder: Path) -> None:
    """Write the repository; raise HackError where the folder is not for it."""
    answers.check_free()
    _check(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    # What fails or is interrupted leaves nothing in the folder.
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as unfinished:
        made = Path(unfinished, "made")
        _fill(made, answers)
        made.rename(folder)


def _check(folder: Path) -> None:
    """Raise HackError where a folder has something in it, or is in this checkout."""
    if folder.is_relative_to(paths.CHECKOUT):
        raise HackError(f"DIR={folder} is in this checkout; choose a folder that is not")
    if not folder.exists():
        return
    if not folder.is_dir():
        raise HackError(f"DIR={folder} is a file; choose a folder that is empty or not there")
    if any(folder.iterdir()):
        raise HackError(
            f"DIR={folder} is not empty; choose a folder that is, or that is not there yet"
        )


def _fill(folder: Path, answers: Answers) -> None:
    lay_out(folder, answers)
    kit_record.offer(folder)
    # What git ignores has no licence to be named, and is no part of a release.
    output(["git", "init", "--quiet", "--initial-branch=main"], cwd=folder)
    generate(folder)
    output(["git", "add", "."], cwd=folder)


def lay_out(folder: Path, answers: Answers) -> None:
    """Write all but what is generated."""
    for name, source in kit.files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, folder / name)
    lock = folder / paths.LOCK.name
    lock.write_text(kit.lock(lock.read_text(), answers))
    for name, text in author.files(answers).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    of_the_kit = [*kit.files(), *author.references()]
    ids = {name.as_posix(): kit_record.identify(folder / name) for name in sorted(of_the_kit)}
    record = Record(kit.version(), answers.name, answers.kind, answers.group, ids)
    kit_record.write(folder, record)


def generate(folder: Path) -> None:
    """Write what follows from the author's files, with the tools of the new repository."""
    search = os.pathsep.join(filter(None, (str(folder / "operator"), os.environ.get("PYTHONPATH"))))
    output(
        [sys.executable, "-m", "hack", "generate"],
        cwd=folder,
        env={"PROJECT": "", "PYTHONPATH": search, "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=1800,  # Helm may have to be built
    )
