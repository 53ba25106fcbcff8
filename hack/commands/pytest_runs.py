"""Runs of pytest, of which `matrix` and `e2e` make several; not a command."""

import os
import subprocess
import sys

from hack.rig import paths

_NOTHING_SELECTED = 5  # pytest's exit code


def run(*arguments: str, **environment: str) -> int:
    """Run pytest with these arguments and variables; return its exit code.

    It is negative, as `subprocess` has it, where a signal ended the run.
    """
    command = [sys.executable, "-m", "pytest", *arguments]
    variables = {**os.environ, **environment}
    return subprocess.run(command, cwd=paths.CHECKOUT, env=variables, check=False).returncode


def result(codes: list[int]) -> int:
    """Return one exit code for several runs, 0 only where none failed.

    A run that a signal ended counts as a shell counts it: 137 for SIGKILL. A run of which ARGS
    selects no test does not fail the others.
    """
    ran = [code for code in codes if code != _NOTHING_SELECTED]
    if not ran:
        return _NOTHING_SELECTED
    return max(128 - code if code < 0 else code for code in ran)
