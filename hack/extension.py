"""What this repository adds to its generated files and to a release: PROJECT names this module."""

from pathlib import Path

from hack import packing, reference


def files() -> dict[Path, str]:
    """Return the texts of its generated pages, by path."""
    return {**packing.files(), **reference.files()}


def write_release(folder: Path) -> None:
    """Write kubectl's plugin to the files of a release."""
    packing.write(folder)
