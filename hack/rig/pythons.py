"""Pythons with exactly the packages of one lock file, which .venv does not provide."""

import sys
from pathlib import Path

from hack.rig import cache
from hack.rig.steps import step


def python(name: str, lock: Path) -> Path:
    """Return a Python with a lock file's packages; create it if it is missing."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"

    def make(part: Path) -> None:
        with step(f"Python packages of {lock.name}") as work:
            work.run([sys.executable, "-m", "venv", "--without-pip", part], timeout=120)
            work.run(
                [
                    *(sys.executable, "-m", "pip", "--python", part / "bin" / "python"),
                    *("install", "-q", "--disable-pip-version-check", "--no-compile"),
                    *("--no-deps", "--require-hashes", "-r", lock),
                ],
                timeout=600,
            )
            work.run([part / "bin" / "python", "-m", "compileall", "-q", part], timeout=300)

    return cache.part(name, version, cache.digest(lock), make) / "bin" / "python"
