"""The author's code: its import, and which files of a repository belong to it."""

import importlib
import sys
import traceback
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from kopf_kit.rig import reading
from kopf_kit.rig.run import KitError, answer


def module(name: str, sources: Path, root: Path) -> ModuleType:
    """Return a module of a repository; raise KitError where it cannot be imported.

    `sources` is the folder of the operator's package; other modules may be in `root`.
    """
    for folder in map(str, (sources, root)):
        if folder not in sys.path:
            sys.path.append(folder)
    try:
        return importlib.import_module(name)
    except KitError:
        raise
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            raise KitError(f"{root / 'PROJECT'}: there is no module {name}") from error
        words = error.msg if isinstance(error, SyntaxError) else str(error)
        raise KitError(
            f"{_line(error, sources)}: {type(error).__name__}: {' '.join(words.split())}; "
            "correct it, then repeat this command"
        ) from error


def value(name: str, attribute: str, sources: Path, root: Path) -> object:
    """Return what a module declares under a name; raise KitError if it does not."""
    try:
        return getattr(module(name, sources, root), attribute)
    except AttributeError as error:
        raise KitError(f"{name} declares no `{attribute}`; add it there") from error


def _line(error: Exception, folder: Path) -> str:
    """Return the author's line at which an import failed, or else the last one."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    lines = [
        (Path(frame.filename), f"{frame.filename}:{frame.lineno}")
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<frozen")
    ]
    theirs = [line for file, line in lines if file.is_relative_to(folder)] or [lines[-1][1]]
    return theirs[-1]


#: Folders and files of a repository that no handler opens.
_FOLDERS = {"build", "dist", "node_modules", "venv", "tests", "test", "charts", "olm", "deploy"}
_FOLDERS_OF_THE_ROOT = {"bundle", "catalog", "docs", "examples"}
_FILES = ("Dockerfile*", "PROJECT", "*.md", "*.lock", "LICENSE*", "Makefile", "pyproject.toml")


def is_package(root: Path) -> bool:
    """Return whether a build backend makes a package of a repository."""
    # A setup.cfg alone may be of a linter, and uv refuses it.
    return (root / "setup.py").is_file() or says_project(root, {"build-system"})


def says_project(root: Path, tables: Collection[str] = ("build-system", "project")) -> bool:
    """Return whether a repository's pyproject.toml has one of these tables, not tools' alone."""
    with suppress(KitError):
        return not reading.toml(root / "pyproject.toml").keys().isdisjoint(tables)
    return False


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
