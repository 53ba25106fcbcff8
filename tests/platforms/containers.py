"""Images of several platforms: what they hold, and what their programs say.

A program of another platform runs under QEMU, which is started in the program's place: the kernel
need not be told of QEMU, so nothing on this machine is changed for it.
"""

import functools
import io
import tarfile
import tempfile
from pathlib import Path

from kopf_kit.rig import dockerfiles, engine, tools, versions
from kopf_kit.rig.run import output
from kopf_offline.rootfs import RootFs

_INSIDE = "/qemu"


@functools.cache
def pulled(reference: str, platform: str) -> str:
    """Pull the image for a platform, as a node of that platform does; return its name."""
    image = dockerfiles.listed(reference)[platform]
    engine.docker("pull", "--platform", platform, image, timeout=300)
    return image


def run(reference: str, platform: str, *command: str) -> str:
    """Return what a program says in the image for a platform, with the image's own settings."""
    image = pulled(reference, platform)
    return engine.docker("run", "--rm", *_started(image, platform, *command), timeout=300)


def start(reference: str, platform: str, *command: str) -> str:
    """Start a program in the image for a platform; return the container's name."""
    image = pulled(reference, platform)
    return engine.docker("run", "--detach", *_started(image, platform, *command)).strip()


def printed(container: str) -> str:
    """Return all that a container has printed."""
    return output(["sh", "-c", f"docker logs {container} 2>&1"])


def _started(image: str, platform: str, program: str, *arguments: str) -> tuple[str, ...]:
    options = ("--platform", platform, "--entrypoint")
    if platform == dockerfiles.host():
        return (*options, program, image, *arguments)
    emulator = (_INSIDE, "--volume", f"{_emulator(platform)}:{_INSIDE}:ro")
    return (*options, *emulator, image, program, *arguments)


def files(reference: str, platform: str) -> dict[str, bytes]:
    """Return the files of the image for a platform, by their paths."""
    container = engine.docker(
        "create", "--platform", platform, pulled(reference, platform), "none"
    ).strip()
    try:
        with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
            engine.docker("export", "--output", archive.name, container)
            with tarfile.open(archive.name) as packed:
                return {
                    entry.name: (packed.extractfile(entry) or io.BytesIO()).read()
                    for entry in packed
                    if entry.isfile()
                }
    finally:
        engine.remove_container(container)


@functools.cache
def _emulator(platform: str) -> Path:
    """Return the program that runs those of a platform here, from Debian's QEMU."""
    name = {"linux/amd64": "qemu-x86_64", "linux/arm64": "qemu-aarch64"}[platform]
    root = RootFs(
        name=name,
        suite=versions.DEBIAN_IMAGES,
        packages=("qemu-user",),
        hooks=(f'find "$1/usr/bin" ! -type d ! -name {name} -delete',),
    )

    def unpack(part: Path) -> None:
        with tarfile.open(root.tar()) as packed:
            packed.extract(f"./usr/bin/{name}", part, filter="data")

    return tools.part(f"{name}-program", root.suite, root.recipe, unpack) / "usr" / "bin" / name
