"""Programs from the PATH if their version fits, otherwise built in a pinned one by kopf-offline.

Both Helm 3 and Helm 4 can serve as `helm`; code that depends on one asks for `helm3` or `helm4`.
Programs that have to be of exactly one version are always built: only `versions.PROGRAMS` names
them. What is built is a part: a folder in the cache, outside the checkout, named
`<name>-<version>-<hash of its recipe>`. It is built under another name and renamed when it is
complete, so an existing part is always complete. A lock makes a second run wait for the first.
"""

import contextlib
import fcntl
import functools
import hashlib
import importlib
import importlib.util
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Protocol, cast

from kopf_kit.rig import paths, versions
from kopf_kit.rig.run import KitError, answer, check_not_stopping, elapsed
from kopf_kit.rig.steps import say

#: Seconds between two attempts to acquire a lock.
_POLL = 0.5
#: Bytes of a file that is part of a recipe.
_LARGEST = 32 * 2**20


def digest(*recipe: str | bytes | Path) -> str:
    """Return a short hash of a recipe: texts, files, and folders with their contents."""
    total = hashlib.sha256()
    for piece in recipe:
        if isinstance(piece, Path):
            for file in sorted(piece.rglob("*")) if piece.is_dir() else [piece]:
                if file.is_file() and "__pycache__" not in file.parts:
                    total.update(file.relative_to(piece.parent).as_posix().encode() + b"\0")
                    total.update(hashlib.sha256(_content(file)).digest())
        else:
            text = piece.encode() if isinstance(piece, str) else piece
            total.update(hashlib.sha256(text).digest())
    return total.hexdigest()[:10]


def _content(file: Path) -> bytes:
    """Return what tells a file's content: of data of a repository, when it was written."""
    status = file.stat()
    large = status.st_size > _LARGEST
    return f"{status.st_size} {status.st_mtime_ns}".encode() if large else file.read_bytes()


@contextlib.contextmanager
def lock(name: str, patience: float = 60 * 60) -> Iterator[None]:
    """Hold a lock, so that no other run, in this or another process, does the same work.

    A run that has to wait prints a message, and raises KitError after `patience` seconds.
    """
    folder = paths.cache() / "lock"
    folder.mkdir(exist_ok=True)
    began = time.monotonic()
    with (folder / name).open("w") as file:
        while not _taken(file):
            check_not_stopping()
            waited = time.monotonic() - began
            if waited > patience:
                raise KitError(
                    f"another run has been working on {name} for {elapsed(waited)}; "
                    f"it holds the lock {file.name}. Wait for it or stop it, then try again"
                )
            if waited < _POLL:
                say(f"    another run is working on {name}; waiting for it")
            time.sleep(_POLL)
        yield


def _taken(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def part(name: str, version: str, recipe: str, make: Callable[[Path], None]) -> Path:
    """Return the folder of a part; if it is missing, `make` fills it once."""
    folder = paths.cache() / f"{name}-{version}-{recipe}"
    if folder.is_dir():
        return folder
    with lock(f"part-{name}"):
        if folder.is_dir():  # another run has built it while this one waited
            return folder
        prefix = f".{folder.name}."
        for left_over in folder.parent.glob(f"{prefix}*"):
            shutil.rmtree(left_over)  # left by a killed run: we hold the lock now
        unfinished = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
        try:
            make(unfinished)
            unfinished.chmod(0o755)
            unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return folder


_ENTRY = "kopf_offline.entry"


class Builder(Protocol):
    """The functions of `kopf_offline.entry`, which describes them."""

    def programs(self, names: Sequence[str]) -> list[Path]: ...  # noqa: D102

    def module(self, name: str) -> Path: ...  # noqa: D102

    def image(  # noqa: D102
        self, name: str, packages: Sequence[str] = (), targets: Sequence[str] = ()
    ) -> str: ...

    def node(self, tools: Sequence[str] = ()) -> str: ...  # noqa: D102


def is_installed() -> bool:
    """Return whether kopf-offline is installed."""
    return importlib.util.find_spec("kopf_offline") is not None


def builder(lacks: str) -> Builder:
    """Return kopf-offline's functions; without it, raise KitError, which begins with `lacks`."""
    if not is_installed():
        raise KitError(
            f"{lacks} install kopf-offline (`uv add --dev kopf-offline`, or with pip), "
            "which builds it with Go"
        )
    return cast("Builder", importlib.import_module(_ENTRY))


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
    return paths_of(name)[0]


def paths_of(*names: str) -> list[Path]:
    """Return the paths of programs; build those together of which none on the PATH fits."""
    programs = {name: program for name in names if (program := _fitting(name))}
    missing = [name for name in names if name not in programs]
    programs |= dict(zip(missing, built(*missing), strict=True))
    return [programs[name] for name in names]


def built(*names: str) -> list[Path]:
    """Return the paths of programs in the pinned version; build those that are missing.

    Raise KitError where kopf-offline is not there.
    """
    if not names:
        return []
    lacks = f"this needs {' and '.join(map(wanted, names))}:"
    if set(names) <= _VERSION.keys():
        pages = " and ".join(dict.fromkeys(_PAGES[_BUILT.get(name, name)] for name in names))
        lacks += f" put it on the PATH ({pages}), or"
    elif set(names) <= {"etcd", *versions.CONTROL_PLANE}:  # see `control_plane.installed_program`
        lacks += " put it on the PATH or into the folder in KUBEBUILDER_ASSETS, or"
    return builder(lacks).programs([_BUILT.get(name, name) for name in names])


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
    return [name for name in NAMES if _fitting(name) is None]


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
def _fitting(name: str) -> Path | None:
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
