"""What a machine must have before work begins, and the sentence that says how to get it.

`ENGINE` is needed for any cluster, `FROM_SOURCE` and `ROOM` if all images have to be built here. A
check takes well under a second, and reports what is missing before minutes are spent.
"""

import os
import platform
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from kopf_kit.rig import paths, tools
from kopf_kit.rig.run import KitError, answer, output
from kopf_kit.rig.steps import say, step

#: Variables with which the package manager asks nothing.
QUIET = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}

# Another program, such as an unattended upgrade, may be at work; a mirror may fail for a moment.
_PATIENT = ("-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=5")


def is_debian() -> bool:
    """Return whether this machine runs Debian."""
    try:
        return platform.freedesktop_os_release().get("ID") == "debian"
    except OSError:
        return False


def can_unpack() -> bool:
    """Return whether packages can be downloaded and unpacked here, which does not need root.

    This is the case on Debian and its derivatives, such as Ubuntu.
    """
    return all(map(shutil.which, ("apt-get", "apt-cache", "dpkg-deb")))


def install(what: str, packages: Sequence[str], needs: Sequence[str]) -> None:
    """Install packages, unless all programs that are needed from them exist."""
    if all(shutil.which(program) for program in needs):
        return
    if not may_install():
        raise KitError(
            f"{what}: {', '.join(needs)} is missing. On Debian run this as root, or install:\n"
            f"    apt-get install {' '.join(packages)}"
        )
    update()
    with tools.lock("apt"), step(f"{what}: Debian packages") as work:
        work.run(
            ["apt-get", *_PATIENT, "install", "-qy", "--no-install-recommends", *packages],
            timeout=10 * 60,
            env=QUIET,
        )


def update() -> None:
    """Update apt's package lists.

    A source that fails, such as a vendor's, is ignored: a missing package is reported later.
    """
    with tools.lock("apt"), step("Debian package lists") as work:
        try:
            work.run(["apt-get", *_PATIENT, "update", "-q"], timeout=5 * 60, env=QUIET)
        except KitError:
            say(f"    `apt-get update` printed warnings, see {work.log}; continuing")


#: Disk space in bytes for building everything: sources, compiler caches, programs and images.
_ROOM = 15 * 10**9

_DEBIANS_DOCKER = "/usr/bin/docker"

_EXISTING = "To use a cluster that is there already, set CLUSTER=existing."


class Need(NamedTuple):
    """A requirement of a machine."""

    #: The missing thing, which completes the sentence "This machine lacks …".
    name: str
    is_met: Callable[[], bool]
    #: How to get it.
    advice: str
    #: A program's message about it, to be quoted.
    reason: Callable[[], str] = str


def check(needs: Sequence[Need]) -> None:
    """Raise KitError for the first need that is not met; the later ones depend on it."""
    for need in needs:
        if not need.is_met():
            quoted = "".join(f"\n    {line}" for line in need.reason().splitlines()[-1:])
            raise KitError(f"this machine lacks {need.name}. {need.advice}{quoted}")


def are_met(needs: Sequence[Need]) -> bool:
    """Return whether the machine meets all needs."""
    return all(need.is_met() for need in needs)


# --- the Docker engine ------------------------------------------------------------------------


def engine_answers() -> bool:
    """Return whether a Docker engine answers."""
    return not _engine_error()


def may_install() -> bool:
    """Return whether we can install missing packages ourselves: as root, on Debian."""
    return os.geteuid() == 0 and is_debian()


def builder() -> str | None:
    """Return a docker command that can build with BuildKit, or None.

    Since version 23 the command needs the plugin buildx for that; in older ones it is built in. So
    the command on the PATH may be unable to build although Debian's own is able.
    """
    for candidate in (shutil.which("docker"), _DEBIANS_DOCKER):
        if not candidate or not Path(candidate).exists():
            continue
        version = answer([candidate, "version", "-f", "{{.Client.Version}}"]) or "0"
        if int(version.split(".")[0]) < 23 or answer([candidate, "buildx", "version"]):
            return candidate
    return None


def _engine_error() -> str:
    """Return the docker command's error message, or an empty text if the engine answers."""
    try:
        output(["docker", "version", "-f", "{{.Server.Version}}"])
    except KitError as error:
        return str(error)
    return ""


_INSTALL_ENGINE = (
    "Install it: https://docs.docker.com/engine/install (on Debian, the same command run as root "
    f"does it). {_EXISTING}"
)
ENGINE = (
    Need("the command docker", lambda: shutil.which("docker") is not None, _INSTALL_ENGINE),
    Need(
        "a Docker engine that answers",
        engine_answers,
        "Start it (`sudo systemctl start docker`; on macOS and WSL Docker Desktop, or `colima "
        "start`), or get the right to use it (`sudo usermod -aG docker $USER`, then log in again). "
        f"{_EXISTING}",
        reason=lambda: _engine_error().strip(),
    ),
    Need(
        "Docker's plugin buildx, which builds images",
        lambda: builder() is not None,
        "Install it: https://github.com/docker/buildx#installing (Debian: docker-buildx).",
    ),
)


# --- all images built here --------------------------------------------------------------------


_REACH = (
    "let the Docker engine reach an image registry (`docker pull busybox` says why it does not)"
)
FROM_SOURCE = (
    Need(
        "Debian's packages, of which images are built where none can be pulled",
        is_debian,
        f"Either {_REACH}, or set CLUSTER=existing to use a cluster that is there already.",
    ),
    Need(
        "kopf-offline, which builds images where none can be pulled",
        lambda: tools.is_installed(),
        f"Install it with: uv add --dev kopf-offline, or {_REACH}.",
    ),
    Need(
        "mmdebstrap and newuidmap, which build images where none can be pulled",
        lambda: os.geteuid() == 0 or all(map(shutil.which, ("mmdebstrap", "newuidmap"))),
        "Install them with: sudo apt-get install mmdebstrap uidmap.",
    ),
)

#: This much is not needed again once everything is built.
ROOM = (
    Need(
        f"{_ROOM // 10**9} GB of free disk space, which building all images takes",
        lambda: shutil.disk_usage(paths.cache()).free >= _ROOM,
        "Free some on the disk of ~/.cache, or set XDG_CACHE_HOME to a folder on another.",
    ),
)
