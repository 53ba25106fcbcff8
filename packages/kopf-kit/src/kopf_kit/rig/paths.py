"""Paths of folders and files; used by every module of the kit."""

import contextlib
import os
from pathlib import Path

from kopf_kit.rig import names

CHECKOUT = names.CHECKOUT

#: Files of this checkout that are never committed, such as the cluster's kubeconfig.
BUILD = CHECKOUT / "build"

#: The Python packages of all that is here, each with its hashes; `kopf_kit.rig.locked` takes parts.
LOCK = CHECKOUT / "requirements.txt"

#: The kit itself.
KIT = Path(__file__).resolve().parents[1]


def cache() -> Path:
    """Return the folder of the parts shared by all checkouts; create it if it is missing.

    All operators share it: a part is named after its recipe.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "kopf-kit"
    # Before 0.1.0 it had the checkout's name; to build all parts again would take minutes.
    if names.has_project() and (base / names.prefix()).is_dir() and not folder.exists():
        with contextlib.suppress(FileExistsError):  # another process has just done it
            folder.symlink_to(names.prefix())
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def sources(root: Path, package: str) -> Path:
    """Return the folder of a repository that a package, or a module of one file, is in."""
    folders = (root / "operator", root / "src", root)
    return next(
        (
            folder
            for folder in folders
            if (folder / package).is_dir() or (folder / f"{package}.py").is_file()
        ),
        root,
    )


def log(name: str) -> Path:
    """Return the log file of a step; create its folder if it is missing."""
    folder = cache() / "log"
    folder.mkdir(exist_ok=True)
    return folder / f"{name}.log"


def python_path(checkout: Path) -> str:
    """Return the PYTHONPATH with which a copy of a checkout runs its own sources."""
    folders = (*sorted(checkout.glob("packages/*/src")), checkout / "operator", checkout)
    return os.pathsep.join(map(str, folders))
