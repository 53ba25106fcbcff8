"""A command of the kit in this process: most of the time of another one goes into its imports.

And the repositories that commands are called in: one to adopt, and one with a commit.
"""

import contextlib
import io
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from kopf_kit.cli.new import adopt_command
from kopf_kit.rig import paths
from kopf_kit.rig.run import KitError

NOTES = paths.CHECKOUT / "examples" / "plain-kopf"
SAID = ("--home", "https://github.com/example/notes-operator", "--rights", "role.yaml")


def called(command: click.Command, folder: Path, *words: str) -> tuple[int, str]:
    """Run a command in a folder; return its exit code, and what it says."""
    said = io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
    ):
        patch.chdir(folder)
        patch.setattr(paths, "CHECKOUT", folder)
        try:
            code = command.main(words, standalone_mode=False) or 0
        except KitError as error:
            return 1, str(error)
    return code, said.getvalue()


def notes(folder: Path, *less: str) -> Path:
    """Copy the repository of an operator that is not adopted yet, or some of it; return it."""
    left_out = shutil.ignore_patterns("PROJECT", "tests", "build", "__pycache__", *less)
    return shutil.copytree(NOTES, folder, ignore=left_out)


def adopt(folder: Path, *words: str) -> tuple[int, str]:
    """Adopt an operator; return the exit code, and what is said, on one line."""
    code, said = called(adopt_command, folder, *words)
    return code, " ".join(said.split())


def commit(folder: Path, tag: str = "") -> None:
    """Have all of a folder in a new commit, perhaps with a tag."""
    git = ("git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@example.com")
    tagged = [("tag", tag)] * bool(tag)
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "x", "--allow-empty"), *tagged):
        subprocess.run([*git, *words], check=True, capture_output=True, timeout=60)


def style(folder: Path) -> str:
    """Return what ruff finds in a repository."""
    ruff, found = Path(sys.executable).with_name("ruff"), ""
    for command in (("check",), ("format", "--diff")):
        words = [ruff, *command, "--no-cache", "."]
        run = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
        found += (run.stdout + run.stderr) * bool(run.returncode)
    return found
