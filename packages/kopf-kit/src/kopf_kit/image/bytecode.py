"""Compiles what the image's Python loads, into a folder that is laid over the image.

The file system is read-only there, and Debian leaves its library uncompiled in such an image: each
start would compile it again, for more CPU than all the rest of the start. Called by the Dockerfile
as ``python3 bytecode.py FOLDER OPERATOR``, by the Python that will run it; with ``--alone``, if the
modules beside OPERATOR are not all for the image, such as a conftest. Compiled by hash and with one
time stamp, so that the same sources make the same files.
"""

import importlib
import importlib.util
import os
import pkgutil
import py_compile
import sys
from pathlib import Path

#: What is loaded while it runs, and not when it starts.
LATE = ("encodings.idna", "traceback", "linecache", "tokenize")


def main(out: Path, operator: str, *, alone: bool) -> None:
    """Load the operator, and compile the source of every module that came with it."""
    try:
        package = importlib.import_module(operator)
    except BaseException:
        if not alone:
            raise
        package = (
            None  # the kit starts the image afterwards, as its Pod does, and tells what it lacks
        )
    folders = () if alone else getattr(package, "__path__", ())
    for submodule in pkgutil.iter_modules(folders, f"{operator}."):
        importlib.import_module(submodule.name)
    for name in LATE:
        importlib.import_module(name)
    for module in list(sys.modules.values()):
        spec = getattr(module, "__spec__", None)
        if spec is not None and spec.has_location and spec.origin.endswith(".py"):
            _compile(spec.origin, out)
    for path in (out, *out.rglob("*")):
        os.utime(path, (0, 0))


def _compile(source: str, out: Path) -> None:
    target = out / importlib.util.cache_from_source(source).lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    by_hash = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(source, str(target), doraise=True, invalidation_mode=by_hash)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], alone="--alone" in sys.argv)
