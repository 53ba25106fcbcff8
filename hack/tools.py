"""kind, kubectl and helm, 3 and 4: from the PATH where their version fits, else built, pinned.

Used by `hack.cluster`, by the tests, and by people as `python -m hack tool helm`.
"""

import functools
import re
import shutil
from pathlib import Path

from hack import golang, versions
from hack.run import answer

NAMES = tuple(versions.FITTING)

_VERSION = {
    "kind": ["version"],
    "kubectl": ["version", "--client"],
    "helm": ["version", "--short"],
    "helm4": ["version", "--short"],
}


@functools.cache
def path(name: str) -> Path:
    """Return where a tool is; it is built, which takes a minute, where none fits."""
    found = shutil.which(name)
    if found and fits(name, answer([found, *_VERSION[name]])):
        return Path(found)
    return golang.program(name)


def fits(name: str, said: str | None) -> bool:
    """Tell whether a tool that says this of its version is good enough."""
    match = re.search(r"v(\d+)\.(\d+)\.\d", said or "")
    least, below = versions.FITTING[name]
    return match is not None and least <= (int(match[1]), int(match[2])) < below
