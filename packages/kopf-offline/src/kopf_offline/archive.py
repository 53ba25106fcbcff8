"""Image archives, as `docker save` writes them, made without an engine.

Used by `kopf_offline.node_image` for the control plane: a program, or a root file system with a
program on top, becomes an image in the time it takes to write the file.
"""

import functools
import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kopf_kit.rig import dockerfiles


@dataclass(frozen=True)
class Image:
    """An image: a program in /usr/local/bin, if need be with a root file system.

    Images of the same program and links share the layer that holds it.
    """

    reference: str
    program: Path
    #: Further names of the program, for one that does what its name says.
    links: tuple[str, ...] = ()
    base: Path | None = None
    #: Whether the program runs by itself, or is named by the user of the image.
    entrypoint: bool = False


def write(target: Path, images: Iterable[Image]) -> None:
    """Write one archive with all the images."""
    manifest = []
    with (
        tempfile.TemporaryDirectory(dir=target.parent) as folder,
        tarfile.open(target, "w") as archive,
    ):
        pack = functools.cache(functools.partial(_pack, Path(folder)))
        add_layer = functools.cache(functools.partial(_add_layer, archive))
        for image in images:
            # The program is the lowest: so it is unpacked once for all images that have it.
            files = [pack(image.program, image.links), *filter(None, [image.base])]
            sums = [add_layer(file) for file in files]
            config = _config(image, sums)
            name = f"{hashlib.sha256(config).hexdigest()}.json"
            _add(archive, name, config)
            layers = [f"{checksum}.tar" for checksum in sums]
            manifest.append({"Config": name, "RepoTags": [image.reference], "Layers": layers})
        _add(archive, "manifest.json", json.dumps(manifest).encode())


def _pack(folder: Path, program: Path, links: tuple[str, ...]) -> Path:
    """Write the layer that holds a program; the same program gives the same bytes."""
    layer = folder / f"{'-'.join((program.name, *links))}.tar"
    with tarfile.open(layer, "w") as file, program.open("rb") as content:
        entry = _entry(program.name)
        entry.size = program.stat().st_size
        file.addfile(entry, content)
        for name in links:
            link = _entry(name)
            link.type, link.linkname = tarfile.SYMTYPE, program.name
            file.addfile(link)
    return layer


def _add_layer(archive: tarfile.TarFile, layer: Path) -> str:
    """Add a layer, and return the checksum that names it."""
    with layer.open("rb") as content:
        checksum = hashlib.file_digest(content, "sha256").hexdigest()
    archive.add(layer, f"{checksum}.tar")
    return checksum


def _entry(name: str) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(f"usr/local/bin/{name}")
    entry.mode = 0o755
    return entry


def _config(image: Image, sums: list[str]) -> bytes:
    config: dict[str, object] = {"Env": ["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}
    if image.entrypoint:
        config["Entrypoint"] = [f"/usr/local/bin/{image.program.name}"]
    return json.dumps(
        {
            "os": "linux",
            "architecture": dockerfiles.architecture(dockerfiles.host()),
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{checksum}" for checksum in sums]},
        }
    ).encode()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))
