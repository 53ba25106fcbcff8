"""Runs pytest for commands that need several runs, or settings for them; not a command."""

import itertools
import os
import re
import subprocess
import sys

from kopf_kit.rig import paths

_NOTHING_SELECTED = 5  # pytest's exit code
_numbers = itertools.count(1)


def run(*arguments: str, **environment: str) -> int:
    """Run pytest with these arguments and variables; return its exit code.

    As in `subprocess`, it is negative if a signal ended the run. The second run and those after it
    write a report (`--junit-xml=FILE.xml`) of their own: FILE.2.xml.
    """
    number = next(_numbers)
    ours = [
        re.sub(r"\.xml$", f".{number}.xml", option)
        if number > 1 and option.startswith("--junit-xml=")
        else option
        for option in arguments
    ]
    command = [sys.executable, "-m", "pytest", *ours]
    variables = {**os.environ, **environment}
    return subprocess.run(command, cwd=paths.CHECKOUT, env=variables, check=False).returncode


def result(codes: list[int]) -> int:
    """Return one exit code for several runs: 0 only if none failed.

    If a signal ended a run, its code is the shell's, such as 137 for SIGKILL. A run without a
    selected test (ARGS) counts as successful.
    """
    ran = [code for code in codes if code != _NOTHING_SELECTED]
    if not ran:
        return _NOTHING_SELECTED
    return max(128 - code if code < 0 else code for code in ran)
