"""Debian packages, installed on this machine, such as the Docker engine's."""

import os
import platform
import shutil
import time
from collections.abc import Sequence

from kopf_kit.rig import tools
from kopf_kit.rig.run import KitError
from kopf_kit.rig.steps import say, step

#: Variables with which the package manager asks nothing.
QUIET = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}

# Another program, such as an unattended upgrade, may be at work; a mirror may fail for a moment.
_PATIENT = ("-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=5")

# Seconds before the second and the third attempt.
_PAUSES = (3.0, 15.0)


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
    if os.geteuid() != 0 or not is_debian():
        raise KitError(
            f"{what}: {', '.join(needs)} is missing. On Debian run this as root, or install:\n"
            f"    apt-get install {' '.join(packages)}"
        )
    for after in (*_PAUSES, None):
        update()
        try:
            with tools.lock("apt"), step(f"{what}: Debian packages") as work:
                work.run(
                    ["apt-get", *_PATIENT, "install", "-qy", "--no-install-recommends", *packages],
                    timeout=10 * 60,
                    env=QUIET,
                )
            return
        except KitError as error:
            if after is None:
                raise
            say(f"    {error}\n    The mirror may have changed in between: again in {after:.0f} s")
            time.sleep(after)


def update() -> None:
    """Update apt's package lists.

    A source that keeps failing, such as a vendor's, is ignored: a missing package is reported
    later. Without its error mode apt would be content with an old list at the first failure.
    """
    command = ["apt-get", *_PATIENT, "-o", "APT::Update::Error-Mode=any", "update", "-q"]
    with tools.lock("apt"), step("Debian package lists") as work:
        for after in (*_PAUSES, None):
            try:
                work.run(command, timeout=5 * 60, env=QUIET)
                return
            except KitError:
                if after is not None:
                    time.sleep(after)
        say(f"    `apt-get update` printed warnings, see {work.log}; continuing")
