"""Programs from the PATH if their version fits, otherwise built in a pinned one by kopf-offline.

Both Helm 3 and Helm 4 can serve as `helm`; code that depends on one asks for `helm3` or `helm4`.
Programs that have to be of exactly one version are always built: only `versions.PROGRAMS` names
them. Used by all that runs a program, and by people as `python -m kopf_kit tool helm`.
"""

import functools
import re
import shutil
from pathlib import Path

from kopf_kit.rig import offline, versions
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
#: Where each is to be had.
_PAGES = {
    "kind": "https://kind.sigs.k8s.io/docs/user/quick-start",
    "kubectl": "https://kubernetes.io/docs/tasks/tools",
    "helm": "https://helm.sh/docs/intro/install",
    "helm4": "https://helm.sh/docs/intro/install",
    "crane": "https://github.com/google/go-containerregistry/releases",
    "cosign": "https://docs.sigstore.dev/cosign/system_config/installation",
}
#: Other names of a tool on the PATH.
_ALIASES = {"helm3": ("helm",), "helm4": ("helm",)}
#: The program to build if none fits, if its name is not the tool's.
_BUILT = {"helm3": "helm"}


def path(name: str) -> Path:
    """Return the path of a program; if none on the PATH fits, build it, which takes a minute."""
    return paths(name)[0]


def paths(*names: str) -> list[Path]:
    """Return the paths of programs; build those together of which none on the PATH fits."""
    programs = {name: program for name in names if (program := _found(name))}
    missing = [name for name in names if name not in programs]
    programs |= dict(zip(missing, built(*missing), strict=True))
    return [programs[name] for name in names]


def built(*names: str) -> list[Path]:
    """Return the paths of programs in the pinned version; build those that are missing.

    Raise HackError where kopf-offline is not there.
    """
    if not names:
        return []
    lacks = f"this needs {' and '.join(map(wanted, names))}:"
    if set(names) <= _VERSION.keys():
        pages = " and ".join(dict.fromkeys(_PAGES[_BUILT.get(name, name)] for name in names))
        lacks += f" put it on the PATH ({pages}), or"
    elif set(names) <= {"etcd", *versions.CONTROL_PLANE}:  # see `control_plane.installed_program`
        lacks += " put it on the PATH or into the folder in KUBEBUILDER_ASSETS, or"
    return offline.builder(lacks).programs([_BUILT.get(name, name) for name in names])


def kubernetes(minor: str, *names: str) -> list[Path]:
    """Return the paths of programs of a supported Kubernetes, in the pinned version."""
    suffix = "" if minor == versions.NEWEST else f"-{minor}"
    return built(*(name + suffix for name in names))


def etcd(minor: str, *names: str) -> list[Path]:
    """Return the paths of `etcd` or `etcdutl` of a minor version, such as 3.6."""
    suffix = "" if minor == versions.NEWEST_ETCD else f"-{minor}"
    return built(*(name + suffix for name in names))


def missing() -> list[str]:
    """Return the tools of a cluster that are not on the PATH in a version that fits."""
    return [name for name in NAMES if _found(name) is None]


def wanted(name: str) -> str:
    """Return a program with the version that is needed, and the one that does not fit."""
    if name not in versions.FITTING:
        return f"{name} {versions.PROGRAMS[name]}"
    least, below = (".".join(map(str, bound)) for bound in versions.FITTING[name])
    requirement = f"{name} {least} or newer, below {below}"
    for program in _on_path(name):
        version = _version(answer([program, *_VERSION[name]]))
        return f"{requirement} ({program} is {version[0] if version else 'no such program'})"
    return requirement


@functools.cache
def _found(name: str) -> Path | None:
    for program in _on_path(name):
        if fits(name, answer([program, *_VERSION[name]])):
            return program
    return None


def _on_path(name: str) -> list[Path]:
    """Return the programs on the PATH that may be a tool."""
    names = (name, *_ALIASES.get(name, ())) if name in _VERSION else ()
    return [Path(program) for alias in names if (program := shutil.which(alias))]


def fits(name: str, printed: str | None) -> bool:
    """Return whether a tool with this output of its version command can be used."""
    match = _version(printed)
    least, below = versions.FITTING[name]
    return match is not None and least <= (int(match[1]), int(match[2])) < below


def _version(printed: str | None) -> re.Match[str] | None:
    return re.search(r"v?(\d+)\.(\d+)\.\d+", printed or "")
