"""Pythons with exactly the packages of one group of pyproject.toml, which .venv does not have."""

import sys
from pathlib import Path

from kopf_kit.rig import locked, paths, tools
from kopf_kit.rig.steps import step


def python(name: str, group: str) -> Path:
    """Return a Python with a group's packages; create it if it is missing."""
    part_of_lock = locked.part(paths.LOCK.read_text(), f"pyproject.toml:{group}")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"

    def make(part: Path) -> None:
        with step(f"Python packages of {group}") as work:
            work.run([sys.executable, "-m", "venv", "--without-pip", part], timeout=120)
            lock = part / "requirements.txt"
            lock.write_text(part_of_lock)
            work.run(
                [
                    *(sys.executable, "-m", "pip", "--python", part / "bin" / "python"),
                    *("install", "-q", "--disable-pip-version-check", "--no-compile"),
                    *("--no-deps", "--require-hashes", "-r", lock),
                ],
                timeout=600,
            )
            work.run([part / "bin" / "python", "-m", "compileall", "-q", part], timeout=300)

    return tools.part(name, version, tools.digest(part_of_lock), make) / "bin" / "python"
