"""The Python packages of a repository: one folder each in `packages/`, all of one version.

The same sources make the same bytes: uv's own builder gives every file one date. Used by
`kopf-kit bump` and `kopf_kit.commands.release`. A repository without such a folder has none.
"""

import hashlib
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

from kopf_kit.rig import locked, oci, paths
from kopf_kit.rig.run import HackError, output

#: The folder of the distributions, each of which has its version in its `pyproject.toml`.
PACKAGES = paths.CHECKOUT / "packages"

#: The names of what is built: wheels, and archives of the sources.
_FILES = ("*.whl", "*.tar.gz")
#: What an artifact in a registry says that it is, and its files.
_KIND = "application/vnd.python.distribution.config.v1+json"
_MEDIA_TYPE = "application/vnd.python.distribution.file.v1"


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


def push(collection: str, version: str) -> dict[str, str]:
    """Push each distribution, wheel and sources, as one artifact; return them by their digests.

    So they are signed and attested as all else in the registry. Raise HackError where that has
    others of the version.
    """
    pushed = {}
    with tempfile.TemporaryDirectory() as scratch:
        built = build(Path(scratch))
        for package in _packages(PACKAGES):
            ref = f"{collection}/{package.name}:{version}"
            ours = _of(package.name, built)
            existing = oci.pinned(ref)
            if existing and {layer["digest"] for layer in oci.manifest(existing)["layers"]} != {
                f"sha256:{_sha256(file)}" for file in ours
            }:
                raise HackError(
                    f"{ref} is in the registry already with other content; raise the version, or "
                    "delete that package if nobody uses it yet"
                )
            pushed[f"packages/{package.name}"] = existing or oci.push_files(
                ours, ref, kind=_KIND, media_type=_MEDIA_TYPE
            )
    return pushed


def locks(built: Iterable[Path]) -> dict[str, str]:
    """Return the part of the lock for each distribution, with those of `built` that it needs."""
    if not PACKAGES.is_dir():
        return {}
    lock, built = paths.LOCK.read_text(), list(built)
    texts = {}
    for package in _packages(PACKAGES):
        others = _needed(package.name) - {package.name}
        entries = [
            f"{name}=={_version(name)} \\\n"
            + " \\\n".join(f"    --hash=sha256:{_sha256(file)}" for file in _of(name, built))
            for name in sorted(others)
        ]
        extras = _read(package.name).get("optional-dependencies", {}).values()
        part = locked.part(lock, package.name, *others, *_names(chain.from_iterable(extras)))
        texts[package.name] = "".join(f"{entry}\n" for entry in entries) + part
    return texts


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
            raise HackError(
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


def _needed(name: str) -> set[str]:
    """Return a distribution, and the others of this repository that it needs."""
    others = {package.name for package in _packages(PACKAGES)}
    direct = _names(_read(name)["dependencies"]) & others
    return {name}.union(*(_needed(dependency) for dependency in direct))


def _names(requirements: Iterable[str]) -> set[str]:
    return {re.split(r"[\[=<>~! ]", line)[0] for line in requirements}


def _version(name: str) -> str:
    return str(_read(name)["version"])


def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = tomllib.loads((PACKAGES / name / "pyproject.toml").read_text())
    return dict(content["project"])


def _of(name: str, built: Iterable[Path]) -> list[Path]:
    """Return the files of a distribution."""
    return [file for file in built if file.name.startswith(f"{name.replace('-', '_')}-")]


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _packages(folder: Path) -> list[Path]:
    return sorted(file.parent for file in folder.glob("*/pyproject.toml"))
