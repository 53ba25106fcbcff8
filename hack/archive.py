"""Image archives, as `docker save` writes them, made without an engine.

Used by `hack.node_image` for the control plane: a program, or a root file system with a
program on top, becomes an image in the time it takes to write the file.
"""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Image:
    """An image: a program in /usr/local/bin, if need be on a root file system."""

    reference: str
    program: Path
    base: Path | None = None
    #: Whether the program runs by itself, or is named by whoever uses the image.
    entrypoint: bool = False


def write(target: Path, images: Iterable[Image]) -> None:
    """Write one archive with all the images."""
    manifest = []
    with tarfile.open(target, "w") as archive:
        for image in images:
            layers = [image.base] if image.base else []
            layers.append(_layer(image.program, target.parent))
            config = _config(image, layers)
            name = f"{hashlib.sha256(config).hexdigest()}.json"
            _add(archive, name, config)
            names: list[str] = []
            for layer in layers:
                names.append(f"{name}-{len(names)}.tar")
                archive.add(layer, names[-1])
            layers[-1].unlink()
            manifest.append({"Config": name, "RepoTags": [image.reference], "Layers": names})
        _add(archive, "manifest.json", json.dumps(manifest).encode())


def _layer(program: Path, folder: Path) -> Path:
    """Write the layer that holds a program; the same program gives the same bytes."""
    layer = folder / f"{program.name}.layer"
    with tarfile.open(layer, "w") as file:
        entry = file.gettarinfo(program, f"usr/local/bin/{program.name}")
        entry.mode, entry.mtime = 0o755, 0
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        with program.open("rb") as content:
            file.addfile(entry, content)
    return layer


def _config(image: Image, layers: list[Path]) -> bytes:
    config: dict[str, object] = {"Env": ["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}
    if image.entrypoint:
        config["Entrypoint"] = [f"/usr/local/bin/{image.program.name}"]
    machine = platform.machine()
    return json.dumps(
        {
            "os": "linux",
            "architecture": _ARCHITECTURE.get(machine, machine),
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_sum(file)}" for file in layers]},
        }
    ).encode()


def _sum(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))
