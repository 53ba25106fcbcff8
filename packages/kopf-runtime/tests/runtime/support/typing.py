"""Runs mypy on a snippet, each of whose comments is what it has to say of the line."""

import subprocess
import sys
from pathlib import Path

import pytest

#: As this repository has its types checked, so that mypy knows the packages from there.
CONFIG = "[mypy]\nstrict = true\npython_version = 3.11\n"


def check_types(text: str, tmp_path: Path) -> None:
    """Fail unless mypy says just what the comments do."""
    pytest.importorskip("mypy")
    (snippet := tmp_path / "snippet.py").write_text(text)
    (config := tmp_path / "mypy.ini").write_text(CONFIG)

    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", config, "--no-error-summary", snippet],
        capture_output=True,
        text=True,
        timeout=300,
    )

    said = {
        int(line.split(":")[1]): line for line in run.stdout.splitlines() if ": error: " in line
    }
    lines = enumerate(text.splitlines(), start=1)
    wanted = {at: line.partition("  # ")[2] for at, line in lines if "  # " in line}
    assert said.keys() == wanted.keys(), run.stdout
    assert all(wanted[at] in line for at, line in said.items())
