"""A run of Go's compiler that reports its progress; used by `kopf_offline.golang`."""

import os
from collections.abc import Sequence
from pathlib import Path

from kopf_kit.rig.run import Argument, output
from kopf_kit.rig.steps import Step

_ENVIRONMENT = {
    "CGO_ENABLED": "0",
    "GOFLAGS": "-mod=readonly -buildvcs=false",
    "GOTOOLCHAIN": "local",
    "GOWORK": "off",
}
#: Lists the packages still to be compiled, one per line, with the folder and names of its files.
_STALE = '{{if .Stale}}{{.ImportPath}}\t{{.Dir}}{{range .GoFiles}}\t{{.}}{{end}}{{"\\n"}}{{end}}'

#: Bytes of source that take as long to compile as a package's imports take to read; measured.
_IMPORTS = 100_000

#: Bytes of memory per processor from which on the compiler need not collect garbage.
_PLENTY = 2 << 30


def build(
    work: Step,
    go: Path,
    folder: Path,
    flags: Sequence[str],
    packages: Sequence[str],
    target: Path,
    architecture: str | None = None,
) -> None:
    """Build the programs of packages of a module, which is in `folder`, into the folder target.

    They are for this machine, or for another architecture of Linux, as Go names it.
    """
    environment = _ENVIRONMENT | _collecting()
    if architecture:
        environment |= {"GOOS": "linux", "GOARCH": architecture}
    # A low priority, because tests may run at the same time.
    listing: list[Argument] = ["nice", go, "list", "-deps", *flags, "-f", _STALE, *packages]
    stale = output(listing, timeout=20 * 60, cwd=folder, env=environment)
    work.fraction = _Compiled(stale, work.log).fraction
    work.run(
        ["nice", go, "build", "-v", *flags, "-o", f"{target}/", *packages],
        timeout=60 * 60,
        cwd=folder,
        env=environment,
    )


class _Compiled:
    """Estimates the progress from the sizes of the packages that the compiler has begun."""

    def __init__(self, stale: str, log: Path) -> None:
        self._log = log
        self._sizes: dict[str, int] = {}
        for line in stale.splitlines():
            package, folder, *files = line.split("\t")
            self._sizes[package] = _IMPORTS + sum(
                Path(folder, file).stat().st_size for file in files
            )

    def fraction(self) -> float | None:
        """Return the fraction that is done, from 0 to 1, or None if it is too early to say."""
        begun = set(self._log.read_text(errors="replace").splitlines()) & self._sizes.keys()
        done = sum(self._sizes[package] for package in begun)
        total = sum(self._sizes.values())
        return done / total if done > total / 100 else None


def _collecting() -> dict[str, str]:
    """Return variables that make the compiler collect garbage late, or never if memory suffices."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    share = memory // 2 // (os.cpu_count() or 1)
    if share < _PLENTY:
        return {"GOGC": "400"}
    return {"GOGC": "off", "GOMEMLIMIT": str(share)}
