"""One run of Go's compiler, which tells how far it is; used by `hack.rig.golang`."""

import os
from collections.abc import Sequence
from pathlib import Path

from hack.rig.run import Argument, output
from hack.rig.steps import Step

_ENVIRONMENT = {
    "CGO_ENABLED": "0",
    "GOFLAGS": "-mod=readonly -buildvcs=false",
    "GOTOOLCHAIN": "local",
    "GOWORK": "off",
}
#: What is still to be compiled: a package a line, with the folder and the names of its files.
_STALE = '{{if .Stale}}{{.ImportPath}}\t{{.Dir}}{{range .GoFiles}}\t{{.}}{{end}}{{"\\n"}}{{end}}'

#: Bytes of source that take the compiler as long as reading what a package imports; measured.
_IMPORTS = 100_000

#: Bytes of memory for each processor with which the compiler need not collect its garbage.
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
    # It gives way to tests, which may run beside it.
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
    """How much has been compiled, by the size of what the compiler says that it began."""

    def __init__(self, stale: str, log: Path) -> None:
        self._log = log
        self._sizes: dict[str, int] = {}
        for line in stale.splitlines():
            package, folder, *files = line.split("\t")
            self._sizes[package] = _IMPORTS + sum(
                Path(folder, file).stat().st_size for file in files
            )

    def fraction(self) -> float | None:
        """Return the part that is done, from 0 to 1; None where little can be told from it."""
        begun = set(self._log.read_text(errors="replace").splitlines()) & self._sizes.keys()
        done = sum(self._sizes[package] for package in begun)
        total = sum(self._sizes.values())
        return done / total if done > total / 100 else None


def _collecting() -> dict[str, str]:
    """Let the compiler collect its garbage late, or not at all where there is memory enough."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    share = memory // 2 // (os.cpu_count() or 1)
    if share < _PLENTY:
        return {"GOGC": "400"}
    return {"GOGC": "off", "GOMEMLIMIT": str(share)}
