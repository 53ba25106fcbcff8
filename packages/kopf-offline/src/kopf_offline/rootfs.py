"""Root file systems from Debian packages, and images of them.

The mirror is the one configured for this machine's apt.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from kopf_kit.rig import engine, preflight, tools
from kopf_kit.rig.run import KitError, output
from kopf_kit.rig.steps import step

# Documentation and translations are of no use in a container.
_SLIM = [
    f"--dpkgopt=path-exclude=/usr/share/{folder}/*"
    for folder in ("doc", "info", "locale", "man", "lintian", "bash-completion", "zsh")
]


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
    #: As Debian names it; None: this machine's. Programs of another one do not run here, so it
    #: needs the variant `extract`, and hooks that run none of them.
    architecture: str | None = None

    @property
    def recipe(self) -> str:
        """The hash of everything that it is built from."""
        return tools.digest(
            *(self.suite, self.variant, " ".join(self.packages), *self.hooks),
            *([self.architecture] if self.architecture else []),
        )

    def tar(self) -> Path:
        """Return the file; build it if it is missing."""
        folder = tools.part(self.name, self.suite, self.recipe, self._make)
        return folder / "rootfs.tar"

    def image(self, reference: str, *changes: str) -> str:
        """Return an image of it in the engine, named after the recipe; build it if it is missing.

        `changes` are lines of a Dockerfile that configure it, such as `ENV` and `CMD`.
        """
        name = f"{reference}:{self.suite}-{tools.digest(self.recipe, *changes)}"
        if not engine.has_image(name):
            options = [option for change in changes for option in ("--change", change)]
            engine.docker("import", *options, self.tar(), name, timeout=300)
        return name

    def _make(self, part: Path) -> None:
        # Only unpacked, a system has no time to be customised: the hooks have another name.
        stage = "extract" if self.variant == "extract" else "customize"
        preflight.install("Root file systems", ["mmdebstrap"], needs=("mmdebstrap",))
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
                env=preflight.QUIET,
            )


def _targets() -> tuple[tuple[str, str], ...]:
    """Return the sources in this machine's apt configuration, as (label, address) pairs."""
    command = ["apt-get", "indextargets", "--format", "$(LABEL)\t$(SITE)", "Identifier: Packages"]
    lines = (line.partition("\t") for line in output(command).splitlines())
    return tuple(dict.fromkeys((label, site.rstrip("/")) for label, _, site in lines))


def mirrors(suite: str) -> list[str]:
    """Return the sources of a Debian release, on the mirrors configured for this machine's apt."""
    targets = _targets()
    if not targets and os.geteuid() == 0:  # a slim machine has no package lists yet
        preflight.update()
        targets = _targets()
    sources = []
    for label, site in targets:
        if label == "Debian":
            sources.append(f"deb {site} {suite} main")
        elif label == "Debian-Security":
            sources.append(f"deb {site} {suite}-security main")
    if not sources:
        raise KitError(
            "apt has no Debian mirror configured, so no packages can be downloaded. Check "
            "/etc/apt/sources.list and /etc/apt/sources.list.d, then run apt-get update"
        )
    return sources
