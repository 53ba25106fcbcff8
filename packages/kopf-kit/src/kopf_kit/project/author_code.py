"""Imports the author's code; what that fails at is told with the line in the repository."""

import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType

from kopf_kit.rig.run import KitError


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
