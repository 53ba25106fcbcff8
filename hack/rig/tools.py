"""kind, kubectl and helm: from the PATH where their version fits, else built, pinned.

Helm 3 and Helm 4 serve alike as `helm`; what depends on one of them asks for `helm3` or `helm4`.
Used by `hack.rig.cluster`, by the tests, and by people as `python -m hack tool helm`.
"""

import functools
import re
import shutil
from pathlib import Path

from hack.rig import golang, versions
from hack.rig.run import answer

#: What a cluster is made and used with.
NAMES = ("kind", "kubectl", "helm")

_HELM_VERSION = ["version", "--short"]
_VERSION = {
    "kind": ["version"],
    "kubectl": ["version", "--client"],
    "helm": _HELM_VERSION,
    "helm3": _HELM_VERSION,
    "helm4": _HELM_VERSION,
}
#: What a tool may be called on the PATH beside its own name.
_ALIASES = {"helm3": ("helm",), "helm4": ("helm",)}
#: What is built where none fits; else the program of the same name.
_BUILT = {"helm3": "helm"}


def path(name: str) -> Path:
    """Return where a tool is; it is built, which takes a minute, where none fits."""
    return _found(name) or golang.program(_BUILT.get(name, name))


def missing() -> list[str]:
    """Return which tools of a cluster are not on the PATH in a version that fits."""
    return [name for name in NAMES if _found(name) is None]


@functools.cache
def _found(name: str) -> Path | None:
    for candidate in (name, *_ALIASES.get(name, ())):
        program = shutil.which(candidate)
        if program and fits(name, answer([program, *_VERSION[name]])):
            return Path(program)
    return None


def fits(name: str, said: str | None) -> bool:
    """Tell whether a tool that says this of its version is good enough."""
    match = re.search(r"v(\d+)\.(\d+)\.\d", said or "")
    least, below = versions.FITTING[name]
    return match is not None and least <= (int(match[1]), int(match[2])) < below
