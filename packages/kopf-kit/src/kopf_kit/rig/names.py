"""The names of everything that the rig creates on a machine: clusters, containers, images, cache.

They begin with the checkout's `projectName`, so that several operators can share a machine.
Used by `kopf_kit.rig.paths` and by all modules that name something. `kopf_kit.pack.project` reads
the rest of the file PROJECT, and checks it.
"""

import functools
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from kopf_kit.rig import reading


def _checkout() -> Path:
    """Return the repository that is worked in: the folder with a PROJECT here, or above."""
    here = Path.cwd()
    return next(
        (folder for folder in (here, *here.parents) if (folder / "PROJECT").is_file()), here
    )


CHECKOUT = _checkout()

#: A DNS label, as the API server defines it.
Label = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
_Content = TypeVar("_Content")
#: Our key in `plugins`, which is also the value of `layout`.
PLUGIN = "kopf-runtime.myorg.dev/v1"
#: The same for an operator on plain kopf, which `kopf-kit adopt` packages as it is.
PLAIN = "plain-kopf.myorg.dev/v1"


class _Plugin(msgspec.Struct, frozen=True, rename="camel"):
    registry_port: int = 0


class _Plugins(msgspec.Struct, frozen=True):
    own: _Plugin = msgspec.field(name=PLUGIN, default=_Plugin())
    adopted: _Plugin | None = msgspec.field(name=PLAIN, default=None)


class _File(msgspec.Struct, frozen=True, rename="camel"):
    project_name: Label
    plugins: _Plugins = _Plugins()


def has_project() -> bool:
    """Return whether the repository that is worked in has the file PROJECT."""
    return (CHECKOUT / "PROJECT").is_file()


def is_adopted() -> bool:
    """Return whether that repository is of an operator on plain kopf."""
    return has_project() and read(CHECKOUT, _File).plugins.adopted is not None


@functools.cache
def prefix() -> str:
    """Return the prefix of the names; raise HackError if PROJECT does not contain it."""
    return read(CHECKOUT, _File).project_name


def registry_port() -> int:
    """Return the port that PROJECT chooses for the registry, or zero."""
    plugins = read(CHECKOUT, _File).plugins
    return (plugins.adopted or plugins.own).registry_port


def registry() -> str:
    """Return the name of the registry's container, under which other containers reach it."""
    return f"{prefix()}-registry"


def read(folder: Path, content: type[_Content]) -> _Content:
    """Return the contents of a folder's PROJECT file; raise HackError if they are wrong."""
    path = folder / "PROJECT"
    written = reading.load(reading.text(path, "each operator has this file"), path)
    return reading.converted(written, content, path)
