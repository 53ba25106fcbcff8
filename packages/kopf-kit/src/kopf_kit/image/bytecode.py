"""Compiles what the image's Python loads, into a folder that is laid over the image.

The file system is read-only there, and Debian leaves its library uncompiled in such an image: each
start would compile it again, for more CPU than all the rest of the start. Called by the Dockerfile
as ``python3 bytecode.py FOLDER OPERATOR``, by the Python that will run it; with ``--alone``, if the
modules beside OPERATOR are not all for the image, such as a conftest. Compiled by hash and with one
time stamp, so that the same sources make the same files. The licences of all that is in the image
are laid out in /licenses, too, where those who certify or scan images look for them.
"""

import importlib
import importlib.metadata
import importlib.util
import os
import pkgutil
import py_compile
import re
import shutil
import sys
from pathlib import Path

#: What is loaded while it runs, and not when it starts.
LATE = ("encodings.idna", "traceback", "linecache", "tokenize", "yaml", "iso8601", "jsonpatch")
#: Where the operator's dependencies are, and where the Dockerfile has its own licence.
APP, OWN = Path("/app"), Path("/own-licenses")
_LICENCE = re.compile(r"(licen[cs]e|copying|notice|authors)", re.IGNORECASE)


def main(out: Path, operator: str, *, alone: bool) -> None:
    """Load the operator, and compile the source of every module that came with it."""
    try:
        package = importlib.import_module(operator)
    except BaseException:
        if not alone:
            raise
        package = None  # the kit starts the image afterwards, and tells what it lacks
    folders = () if alone else getattr(package, "__path__", ())
    for submodule in pkgutil.iter_modules(folders, f"{operator}."):
        importlib.import_module(submodule.name)
    for name in LATE:
        importlib.import_module(name)
    for module in list(sys.modules.values()):
        spec = getattr(module, "__spec__", None)
        if spec is not None and spec.has_location and spec.origin.endswith(".py"):
            _compile(spec.origin, out)
    licences(out / "licenses")
    for path in (out, *out.rglob("*")):
        os.utime(path, (0, 0))


def _compile(source: str, out: Path) -> None:
    target = out / importlib.util.cache_from_source(source).lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    by_hash = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(source, str(target), doraise=True, invalidation_mode=by_hash)


def licences(target: Path) -> None:
    """Write the licence of each distribution into a folder of its name, and the operator's own."""
    if OWN.is_dir():
        shutil.copytree(OWN, target, dirs_exist_ok=True)
    for found in importlib.metadata.distributions(path=[str(APP)]):
        folder = target / found.metadata["Name"]
        folder.mkdir(parents=True, exist_ok=True)
        for file in found.files or ():
            text = Path(str(found.locate_file(file)))
            is_theirs = any(part.endswith(".dist-info") for part in file.parts)
            if is_theirs and _LICENCE.match(file.name) and text.is_file():
                shutil.copy(text, folder)
        if not any(folder.iterdir()):  # some name their licence, and do not bring it
            named = (name for name in ("License-Expression", "License") if name in found.metadata)
            said = [found.metadata[name] for name in named]
            (folder / "LICENSE").write_text("\n".join(said or ["Its metadata name no licence."]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], alone="--alone" in sys.argv)
