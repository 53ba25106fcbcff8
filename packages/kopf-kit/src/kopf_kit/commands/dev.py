"""`kopf-kit dev`: runs the operator here, and starts it again after each change of its sources.

A mistake in the sources ends the operator, not this command: it prints what Python says, and the
next change starts the operator again.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import watchfiles

from kopf_kit.pack.project import PROJECT
from kopf_kit.program import PASSES_ON
from kopf_kit.rig.steps import say

#: Seconds that the operator has to end, and milliseconds between two looks at it.
_GRACE, _LOOK = 20.0, 500


@click.command(context_settings=PASSES_ON)
@click.argument("rest", nargs=-1, type=click.UNPROCESSED, metavar="[OPERATOR'S OPTIONS]")
def command(rest: tuple[str, ...]) -> None:
    """Run the operator here, against the cluster, and again after each change of its sources.

    Its CRD is applied at each start. Ctrl-C ends it.
    """
    with contextlib.suppress(KeyboardInterrupt):
        repeat([sys.executable, "-m", "kopf_kit", "run", *rest], PROJECT.sources)


def repeat(argv: Sequence[str], sources: Path) -> None:
    """Run a command, and again after each change of a Python file in a folder, until Ctrl-C."""
    process = subprocess.Popen(argv)
    is_told = False
    changes = watchfiles.watch(
        sources,
        watch_filter=watchfiles.PythonFilter(),
        rust_timeout=_LOOK,
        yield_on_timeout=True,
        raise_interrupt=True,
    )
    try:
        for changed in changes:
            if changed:
                names = sorted({os.path.relpath(name, sources) for _, name in changed})
                say(f"==> {', '.join(names)} changed: the operator starts again")
                _end(process)
                process, is_told = subprocess.Popen(argv), False
            elif not is_told and process.poll() is not None:
                is_told = True
                say(f"the operator ended ({process.returncode}); a change of its code starts it")
    finally:
        _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
