"""Debian packages: installed on this machine, or unpacked into root file systems for images.

Used by `kopf_kit.rig.engine`, and, if no image registry can be reached, by
`kopf_kit.rig.base_images`, `kopf_kit.rig.node_image` and `kopf_kit.rig.registry`. The mirror is the
one configured for this machine's apt.
"""

import os
import platform
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kopf_kit.rig import cache
from kopf_kit.rig.run import HackError, output
from kopf_kit.rig.steps import say, step

_QUIET = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}

# Another program, such as an unattended upgrade, may be at work.
_WAIT = ("-o", "DPkg::Lock::Timeout=300")

# Documentation and translations are of no use in a container.
_SLIM = [
    f"--dpkgopt=path-exclude=/usr/share/{folder}/*"
    for folder in ("doc", "info", "locale", "man", "lintian", "bash-completion", "zsh")
]


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
        raise HackError(
            f"{what}: {', '.join(needs)} is missing. On Debian run this as root, or install:\n"
            f"    apt-get install {' '.join(packages)}"
        )
    update()
    with cache.lock("apt"), step(f"{what}: Debian packages") as work:
        work.run(
            ["apt-get", *_WAIT, "install", "-qy", "--no-install-recommends", *packages],
            timeout=10 * 60,
            env=_QUIET,
        )


@dataclass(frozen=True)
class RootFs:
    """A root file system made of Debian packages; `tar()` gives it as a file.

    With variant `extract` the packages are only unpacked: none of their scripts runs, so no
    shell is needed in it. `hooks` are shell commands, run at the end, with the folder in $1.
    """

    name: str
    suite: str
    packages: tuple[str, ...]
    variant: str = "extract"
    hooks: tuple[str, ...] = ()
    #: As Debian names it; None: this machine's. Nothing of another one runs here: it has to be of
    #: the variant `extract`, and its hooks run none of its programs.
    architecture: str | None = None

    @property
    def recipe(self) -> str:
        """The hash of everything that it is built from."""
        return cache.digest(
            *(self.suite, self.variant, " ".join(self.packages), *self.hooks),
            *([self.architecture] if self.architecture else []),
        )

    def tar(self) -> Path:
        """Return the file; build it if it is missing."""
        folder = cache.part(self.name, self.suite, self.recipe, self._make)
        return folder / "rootfs.tar"

    def _make(self, part: Path) -> None:
        # Only unpacked, a system has no time to be customised: the hooks have another name.
        stage = "extract" if self.variant == "extract" else "customize"
        install("Root file systems", ["mmdebstrap"], needs=("mmdebstrap",))
        with step(f"{self.name} from Debian {self.suite}") as work:
            work.run(
                [
                    *("mmdebstrap", f"--variant={self.variant}"),
                    *([f"--architectures={self.architecture}"] if self.architecture else []),
                    *(f"--include={','.join(self.packages)}", *_SLIM),
                    *(f"--{stage}-hook={hook}" for hook in self.hooks),
                    self.suite,
                    part / "rootfs.tar",
                    *mirrors(self.suite),
                ],
                timeout=15 * 60,
                env=_QUIET,
            )


def update() -> None:
    """Update apt's package lists.

    A source that fails, such as a vendor's, is ignored: a missing package is reported later.
    """
    with cache.lock("apt"), step("Debian package lists") as work:
        try:
            work.run(["apt-get", *_WAIT, "update", "-q"], timeout=5 * 60, env=_QUIET)
        except HackError:
            say(f"    `apt-get update` printed warnings, see {work.log}; continuing")


def _targets() -> tuple[tuple[str, str], ...]:
    """Return the sources in this machine's apt configuration, as (label, address) pairs."""
    command = ["apt-get", "indextargets", "--format", "$(LABEL)\t$(SITE)", "Identifier: Packages"]
    lines = (line.partition("\t") for line in output(command).splitlines())
    return tuple(dict.fromkeys((label, site.rstrip("/")) for label, _, site in lines))


def mirrors(suite: str) -> list[str]:
    """Return the sources of a Debian release, on the mirrors configured for this machine's apt."""
    targets = _targets()
    if not targets and os.geteuid() == 0:  # a slim machine has no package lists yet
        update()
        targets = _targets()
    sources = []
    for label, site in targets:
        if label == "Debian":
            sources.append(f"deb {site} {suite} main")
        elif label == "Debian-Security":
            sources.append(f"deb {site} {suite}-security main")
    if not sources:
        raise HackError(
            "apt has no Debian mirror configured, so no packages can be downloaded. Check "
            "/etc/apt/sources.list and /etc/apt/sources.list.d, then run apt-get update"
        )
    return sources
