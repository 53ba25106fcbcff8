"""The Python packages of a repository: one folder each in `packages/`, all of one version.

The same sources make the same bytes: uv's own builder gives every file one date. Used by
`kopf-kit bump` and `kopf_kit.cli.release`. A repository without such a folder has none.
"""

import re
import shutil
import sys
from pathlib import Path

from kopf_kit.rig import paths
from kopf_kit.rig.run import KitError, output

#: The folder of the distributions, each of which has its version in its `pyproject.toml`.
PACKAGES = paths.CHECKOUT / "packages"

#: The names of what is built: wheels, and archives of the sources.
_FILES = ("*.whl", "*.tar.gz")


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
    archives = files(scratch / "built")
    built = [file.replace(folder / file.name) for file in archives]
    shutil.rmtree(scratch, ignore_errors=True)
    return built


def files(folder: Path) -> list[Path]:
    """Return the wheels and source archives in a folder."""
    return sorted(file for kind in _FILES for file in folder.glob(kind))


def raised(version: str, packages: Path = PACKAGES) -> dict[Path, str]:
    """Return each distribution's `pyproject.toml` with a version, and with the pins of the others.

    Raise KitError where one does not name its version in a line of its own.
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
            raise KitError(
                f'{file}: {times} lines look like version = "{version}"; there must be one'
            )
        texts[file] = pins.sub(rf"\g<1>{version}", text)
    return texts | _of_examples(version, names, packages.parent / "examples")


def compatible(version: str) -> str:
    """Return the specifier of a version and of those that fit without an edit.

    Before 1.0, a minor version may break what uses it: https://semver.org/#spec-item-4
    """
    major, minor, *_ = version.split(".")
    below = f"0.{int(minor) + 1}" if major == "0" else str(int(major) + 1)
    return f">={version},<{below}"


def _of_examples(version: str, names: str, examples: Path) -> dict[Path, str]:
    """Return what an example's author writes to use a version of the distributions."""
    patterns = {
        "pyproject.toml": (
            rf'"((?:{names})(?:\[[^\]]*\])?)>=[^"]*"',
            rf'"\1{compatible(version)}"',
        ),
        "PROJECT": (r"^cliVersion: .*$", f"cliVersion: {version}"),
    }
    return {
        file: re.sub(pattern, newer, file.read_text(), flags=re.MULTILINE)
        for name, (pattern, newer) in patterns.items()
        for file in sorted(examples.glob(f"*/{name}"))
    }


def _packages(folder: Path) -> list[Path]:
    return sorted(file.parent for file in folder.glob("*/pyproject.toml"))
