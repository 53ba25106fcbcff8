"""What only the kit's own repository publishes: the plugin of kubectl.

Used by `kopf_kit.pack.publication.files`.
"""

from pathlib import Path

from kopf_kit.pack import plugin


def write(folder: Path) -> None:
    """Write these files of a release into a folder."""
    (folder / plugin.MANIFEST).write_text(plugin.manifest())
    (folder / plugin.ARCHIVE).write_bytes(plugin.archive())
    (folder / plugin.PROGRAM).write_bytes(plugin.program())
