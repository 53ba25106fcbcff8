"""A command of the kit in this process: most of the time of another one goes into its imports."""

import contextlib
import io
from pathlib import Path

import click
import pytest

from kopf_kit.rig import paths
from kopf_kit.rig.run import KitError


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
