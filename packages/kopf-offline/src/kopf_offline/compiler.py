"""A run of Go's compiler; used by `kopf_offline.golang`."""

import os
from collections.abc import Sequence
from pathlib import Path

from kopf_kit.rig.steps import Step

_ENVIRONMENT = {
    "CGO_ENABLED": "0",
    "GOFLAGS": "-mod=readonly -buildvcs=false",
    "GOTOOLCHAIN": "local",
    "GOWORK": "off",
}
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
    work.run(
        ["nice", go, "build", "-v", *flags, "-o", f"{target}/", *packages],
        timeout=60 * 60,
        cwd=folder,
        env=environment,
    )


def _collecting() -> dict[str, str]:
    """Return variables that make the compiler collect garbage late, or never if memory suffices."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    share = memory // 2 // (os.cpu_count() or 1)
    if share < _PLENTY:
        return {"GOGC": "400"}
    return {"GOGC": "off", "GOMEMLIMIT": str(share)}
