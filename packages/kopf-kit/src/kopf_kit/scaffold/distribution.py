"""What a repository says of its distribution: name, version, pages and scripts."""

import configparser
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from kopf_kit.project import registered, written
from kopf_kit.rig import reading
from kopf_kit.rig.run import KitError, answer

#: A prerelease, such as 1.0.0-beta.2, as Helm takes it.
_PRERELEASE = re.compile(r"(?:(?:0|[1-9]\d*)[.-]){3}[a-zA-Z][\da-zA-Z-]*(?:\.(?:0|[1-9]\d*))?")


def about(root: Path) -> dict[str, Any]:
    """Return the table `project` of a pyproject.toml, or what poetry or setuptools has instead."""
    file = root / "pyproject.toml"
    match reading.toml(file) if file.is_file() else {}:
        case {"project": about}:
            pass
        case {"tool": {"poetry": {**said}, **others}}:
            kept = ("name", "version", "description", "scripts", "urls", "repository", "homepage")
            about = {key: said[key] for key in kept if key in said}
            match others:
                case {"poetry-dynamic-versioning": {"enable": True}}:  # git's tag is the version
                    about.pop("version", None)
        case _:
            file = root / "setup.cfg"
            about = _of_setuptools(file)
    about = reading.shaped(about, written.Project, file)
    pages = {key: about[key] for key in ("repository", "homepage") if key in about}
    scripts = {
        name: each if isinstance(each, str) else each.get("reference") or each.get("callable", "")
        for name, each in about.get("scripts", {}).items()
    }
    return {**about, "urls": pages | about.get("urls", {}), "scripts": scripts}


def _of_setuptools(file: Path) -> dict[str, Any]:
    """Return what a setup.cfg says of a project; it may be of a linter, and say nothing."""
    parser = configparser.ConfigParser(interpolation=None)
    with suppress(configparser.Error, KitError):
        parser.read_string(reading.text(file))
    said = dict(parser["metadata"]) if "metadata" in parser else {}
    # Others are elsewhere, such as `attr: notes.VERSION`.
    about = {key: each for key, each in said.items() if not each.startswith(("attr:", "file:"))}
    lines = parser.get("options.entry_points", "console_scripts", fallback="").splitlines()
    scripts = (line.replace(" ", "").partition("=") for line in lines)
    return {
        **about,
        "urls": {"": about.get("url", "")},
        "scripts": {name: target for name, _, target in scripts if target},
    }


def version(root: Path, about: dict[str, Any], *, run: bool) -> str:
    """Return the version that a project has; empty if nothing says it.

    Where its project leaves it to the build, it is that of the installed package, or else git's
    last tag.
    """
    if "version" in about:
        try:
            Version(about["version"])
        except (InvalidVersion, TypeError) as error:
            raise KitError(
                f"{root} has the version `{about['version']}`; write one such as 1.2.0, which the "
                "chart gets too"
            ) from error
        return str(about["version"])
    name = about.get("name", "")
    reader = f"from importlib.metadata import version; print(version({name!r}))"
    tag = ("git", "-C", root, "describe", "--tags", "--abbrev=0")
    asked = [(registered.python(root), "-c", reader)] if run and name else []
    for command in (*asked, tag):
        with suppress(InvalidVersion):
            Version(text := answer(command) or "")
            return text
    return ""


def semantic(text: str) -> str:
    """Return a version as Helm takes it: three numbers, and that of a prerelease."""
    if not text:
        return ""
    version, plain = Version(text), text.strip().removeprefix("v")
    if version.pre and _PRERELEASE.fullmatch(plain):  # 1.0-1 is later than 1.0 for Python
        return plain
    before = f"-{version.pre[0]}.{version.pre[1]}" if version.pre else ""
    return f"{version.major}.{version.minor}.{version.micro}{before}"
