"""Programs from the PATH if their version fits, otherwise built in a pinned version.

Both Helm 3 and Helm 4 can serve as `helm`; code that depends on one asks for `helm3` or `helm4`.
Used by `kopf_kit.rig.cluster`, by the tests, and by people as `python -m kopf_kit tool helm`.
"""

import functools
import re
import shutil
from pathlib import Path

from kopf_kit.rig import golang, versions
from kopf_kit.rig.run import answer

#: The tools that create and use a cluster.
NAMES = ("kind", "kubectl", "helm")

_HELM_VERSION = ["version", "--short"]
_VERSION = {
    "kind": ["version"],
    "kubectl": ["version", "--client"],
    "helm": _HELM_VERSION,
    "helm3": _HELM_VERSION,
    "helm4": _HELM_VERSION,
    "crane": ["version"],
    "cosign": ["version"],
}
#: Other names of a tool on the PATH.
_ALIASES = {"helm3": ("helm",), "helm4": ("helm",)}
#: The program to build if none fits, if its name is not the tool's.
_BUILT = {"helm3": "helm"}


def path(name: str) -> Path:
    """Return the path of a tool; if none fits, build it, which takes a minute."""
    return _found(name) or golang.program(_BUILT.get(name, name))


def missing() -> list[str]:
    """Return the tools of a cluster that are not on the PATH in a version that fits."""
    return [name for name in NAMES if _found(name) is None]


@functools.cache
def _found(name: str) -> Path | None:
    for candidate in (name, *_ALIASES.get(name, ())):
        program = shutil.which(candidate)
        if program and fits(name, answer([program, *_VERSION[name]])):
            return Path(program)
    return None


def fits(name: str, said: str | None) -> bool:
    """Return whether a tool with this output of its version command can be used."""
    match = re.search(r"v?(\d+)\.(\d+)\.\d", said or "")
    least, below = versions.FITTING[name]
    return match is not None and least <= (int(match[1]), int(match[2])) < below
