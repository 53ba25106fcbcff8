"""`make sabotage`: small changes that a test must notice.

The changes of Python are mutants of the modules that data depends on (`hack.mutation`), those of
what is not Python are a list, tests/sabotage.toml. Each is applied alone, to a copy of what is
committed.
"""

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import click

from kopf_kit.rig import paths
from kopf_kit.rig.run import KitError, output
from kopf_kit.rig.steps import say

LIST = paths.CHECKOUT / "tests" / "sabotage.toml"
_MAKE = ("make", "-o", ".venv/.ready")  # the environment is a link, which make must not replace


@click.command()
@click.option("-k", "part", default="", help="Only modules and defects whose name has this text.")
@click.option("--sample", type=int, help="So many mutants of each module, drawn with a fixed seed.")
def command(part: str, sample: int | None) -> int:
    """Apply small changes, one at a time: a test must notice each."""
    # In a process of its own, which has imported nothing that is mutated.
    options = ("-k", part, *(("--sample", str(sample)) if sample is not None else ()))
    mutated = subprocess.run([sys.executable, "-m", "hack.mutation", *options], check=False)
    survivors = mutated.returncode
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        _git("worktree", "add", "--quiet", "--detach", str(copy), "HEAD")
        try:
            (copy / ".venv").symlink_to(paths.CHECKOUT / ".venv")
            for name, defect in tomllib.loads(LIST.read_text()).items():
                if part in name and not _is_noticed(copy, **defect):
                    survivors += 1
                    say(f"survives: {name}: {defect['harm']}")
        finally:
            _git("worktree", "remove", "--force", str(copy))
    return 1 if survivors else 0


def _is_noticed(copy: Path, file: str, find: str, replace: str, tests: str, harm: str = "") -> bool:
    """Return whether a test fails once the text is replaced, and what follows from it generated."""
    source = copy / file
    source.write_text(source.read_text().replace(find, replace))
    environment = os.environ | {
        "PYTHONPATH": paths.python_path(copy),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    try:
        output([*_MAKE, "generate"], cwd=copy, env=environment, timeout=1800)
        command = (".venv/bin/python", "-m", "pytest", "-q", "-x", *tests.split())
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=1800)
        return done.returncode == 1
    except KitError:
        return True  # nothing can be generated from it
    finally:
        _git("-C", str(copy), "reset", "--quiet", "--hard")


def _git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=paths.CHECKOUT, check=True)
