"""The Python packages of a repository: one folder each in `packages/`, all of one version.

The same sources make the same bytes: uv's own builder gives every file one date. Used by
`make bump` and `kopf_kit.commands.release`. A repository without such a folder has none.
"""

import re
import shutil
import sys
from pathlib import Path

from kopf_kit.rig import paths
from kopf_kit.rig.run import HackError, output

#: The folder of the distributions, each of which has its version in its `pyproject.toml`.
PACKAGES = paths.CHECKOUT / "packages"

#: The names of what is built: wheels, and archives of the sources.
KINDS = ("*.whl", "*.tar.gz")


def build(folder: Path, packages: Path = PACKAGES) -> list[Path]:
    """Write wheels and source archives into a folder; return their paths."""
    scratch = folder / ".distributions"
    shutil.rmtree(scratch, ignore_errors=True)
    for package in _packages(packages):
        sources = scratch / package.name
        shutil.copytree(package, sources, ignore=shutil.ignore_patterns("__pycache__"))
        uv = Path(sys.executable).with_name("uv")
        options = ("--quiet", "--offline", "--no-config", "--sdist", "--wheel")
        output([uv, "build", *options, "--out-dir", scratch / "built", sources], timeout=120)
    archives = sorted(file for kind in KINDS for file in (scratch / "built").glob(kind))
    built = [file.replace(folder / file.name) for file in archives]
    shutil.rmtree(scratch, ignore_errors=True)
    return built


def raised(version: str, packages: Path = PACKAGES) -> dict[Path, str]:
    """Return each distribution's `pyproject.toml` with a version, and with the pins of the others.

    Raise HackError where one does not name its version in a line of its own.
    """
    names = "|".join(package.name for package in _packages(packages))
    pins = re.compile(rf'(?<=")((?:{names})(?:\[[^\]]*\])?==)[^"]+')
    texts = {}
    for package in _packages(packages):
        file = package / "pyproject.toml"
        text, times = re.subn(
            r'^version = "[^"]*"', f'version = "{version}"', file.read_text(), flags=re.MULTILINE
        )
        if times != 1:
            raise HackError(f'{file}: {times} lines are as version = "{version}", not one')
        texts[file] = pins.sub(rf"\g<1>{version}", text)
    return texts


def _packages(folder: Path) -> list[Path]:
    return sorted(file.parent for file in folder.glob("*/pyproject.toml"))
