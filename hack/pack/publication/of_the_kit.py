"""What only the kit's own repository publishes: the runtime as packages, and the plugin of kubectl.

A repository that `make new` wrote has the runtime as source. Used by `hack.pack.publication.files`.
"""

from pathlib import Path

from hack.pack import plugin
from hack.pack.publication import distribution


def write(folder: Path) -> None:
    """Write these files of a release into a folder."""
    distribution.build(folder)
    (folder / plugin.MANIFEST).write_text(plugin.manifest())
    (folder / plugin.ARCHIVE).write_bytes(plugin.archive())
    (folder / plugin.PROGRAM).write_bytes(plugin.program())
