"""What of an adopted operator's repository is in an image of the kit's: its package, or its files.

A repository that a build backend makes a package of is installed as that says, with the package's
metadata. Of any other, all that is beside the handlers' module is there: other modules, and files
that handlers open.
"""

import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path

from kopf_kit.rig.run import answer

#: Folders and files of a repository that no handler opens.
_FOLDERS = {"build", "dist", "node_modules", "venv", "tests", "test", "charts", "olm", "deploy"}
_FOLDERS_OF_THE_ROOT = {"bundle", "catalog", "docs", "examples"}
_FILES = ("Dockerfile*", "PROJECT", "*.md", "*.lock", "LICENSE*", "Makefile", "pyproject.toml")


def is_package(root: Path) -> bool:
    """Return whether a build backend makes a package of a repository."""
    file = root / "pyproject.toml"
    if (root / "setup.py").is_file():  # a setup.cfg alone may be of a linter, and uv refuses it
        return True
    try:
        content = tomllib.loads(file.read_text()) if file.is_file() else {}
    except (UnicodeError, tomllib.TOMLDecodeError):
        return False
    return "build-system" in content


def hiding(folder: Path, loaded: Collection[str]) -> set[Path]:
    """Return the modules in a folder with the names of modules that kopf loads from Python's own.

    `kopf run` looks into the folder after that, so that no handler imports these. Where the folder
    is on PYTHONPATH, Python itself would.
    """
    places = (folder / place for name in loaded for place in (f"{name}.py", f"{name}/__init__.py"))
    return {place for place in places if place.is_file()}


def modules_beside(folder: Path, root: Path, loaded: Collection[str]) -> Iterator[Path]:
    """Yield the files in the folder of the handlers' module that belong into the image.

    What git ignores does not, such as a kubeconfig or a key, nor does what hides Python's own
    modules, of which kopf has loaded some.
    """
    hidden = hiding(folder, loaded)
    for file in _files(folder):
        parts = file.relative_to(folder).parts
        left_out = _FOLDERS | (_FOLDERS_OF_THE_ROOT if folder == root else set())
        if any(part in left_out or part.startswith(".") or part == "__pycache__" for part in parts):
            continue
        if folder == root and len(parts) == 1 and any(map(file.match, _FILES)):
            continue
        if file not in hidden:
            yield file


def _files(folder: Path) -> list[Path]:
    options = ("-z", "--cached", "--others", "--exclude-standard")
    listed = answer(["git", "-C", folder, "ls-files", *options])
    if listed is None:
        return [file for file in sorted(folder.rglob("*")) if file.is_file()]
    return [folder / name for name in sorted(listed.split("\0")) if (folder / name).is_file()]
