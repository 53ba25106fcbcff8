"""What this repository adds to its generated files: PROJECT names this module."""

from pathlib import Path

from hack import reasons, reference


def files() -> dict[Path, str]:
    """Return the texts of its generated pages, by path."""
    return {**reasons.files(), **reference.files()}
