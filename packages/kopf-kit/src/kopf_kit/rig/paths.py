"""Paths of folders and files; used by every module of the kit."""

import os
from pathlib import Path

from kopf_kit.rig import names

CHECKOUT = names.CHECKOUT

#: Files of this checkout that are never committed, such as the cluster's kubeconfig.
BUILD = CHECKOUT / "build"

#: The Python packages of all that is here, each with its hashes; `kopf_kit.rig.locked` takes parts.
LOCK = CHECKOUT / "requirements.txt"

#: Recipes that are not in Python: Go modules, and the files of the kind node.
RECIPES = Path(__file__).resolve().parent

#: The kit itself.
KIT = RECIPES.parent


def cache() -> Path:
    """Return the folder of the parts shared by all checkouts; create it if it is missing.

    Operators that have the same kit share it, too: a part is named after its recipe.
    """
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / names.kit()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def log(name: str) -> Path:
    """Return the log file of a step; create its folder if it is missing."""
    folder = cache() / "log"
    folder.mkdir(exist_ok=True)
    return folder / f"{name}.log"


def python_path(checkout: Path) -> str:
    """Return the PYTHONPATH with which a copy of a checkout runs its own sources."""
    folders = (*sorted(checkout.glob("packages/*/src")), checkout / "operator", checkout)
    return os.pathsep.join(map(str, folders))
