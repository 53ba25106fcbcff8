"""What is shipped runs on every platform that the bundle promises, and is the same on each.

A program of another platform runs under QEMU, which is started in the program's place: the kernel
need not be told of QEMU, so nothing on this machine is changed for it.
"""

import functools
import io
import os
import re
import shutil
import tarfile
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bundle.package import write
from kopf_kit.image.build import pinned
from kopf_kit.olm import bundle
from kopf_kit.olm.bundle import findings
from kopf_kit.project.releases import NAME, Release, in_registry
from kopf_kit.rig import dockerfiles, engine, registry, tools, versions
from kopf_kit.rig.run import output
from kopf_kit.testing.requests import wait_until
from kopf_offline.rootfs import RootFs
from tests.make.commands import CHECKOUT, Make


@dataclass(frozen=True)
class Shipped:
    """A release in the local registry, whose images are for all platforms."""

    release: Release
    catalog: str


@pytest.fixture(scope="session")
def shipped() -> Shipped:
    """Build and push it all by the command of docs/olm.md."""
    here = f"{registry.ADDRESS}/all-platforms"
    push = Make(CHECKOUT, REGISTRY=here, PLATFORMS=",".join(dockerfiles.SUPPORTED))
    push("push", "ARGS=bundle catalog", timeout=1800)
    pushed = in_registry(here)
    release = replace(
        pushed,
        image=pinned(pushed.image),
        pod_images={name: pinned(ref) for name, ref in pushed.pod_images.items()},
        bundle_image=pinned(pushed.bundle_image),
    )
    return Shipped(release, pinned(f"{here}/{NAME}-catalog:v{pushed.version}"))


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


def files_of(reference: str, platform: str) -> dict[str, bytes]:
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


PLATFORMS = sorted(dockerfiles.SUPPORTED)
OPERATOR = ("/usr/bin/python3", "-m", "message_operator")
#: The machine that a library is for, as its ELF header has it.
MACHINES = {"linux/amd64": 0x3E, "linux/arm64": 0xB7}
#: In a wheel these say for which platform it is.
OF_WHEEL = re.compile(r"\.dist-info/(WHEEL|RECORD)$")


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_the_operator_answers_alike_on_all_platforms(option: str, shipped: Shipped) -> None:
    image = shipped.release.image
    first, *others = (run(image, each, *OPERATOR, option) for each in PLATFORMS)

    assert "message-operator" in first
    assert all(other == first for other in others)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_operator_loads_all_of_itself_without_compiling(
    platform: str, shipped: Shipped
) -> None:
    code = (
        "import sys, os, platform, message_operator.operator, aiohttp._http_parser; "
        "print(platform.machine(), [s.origin for m in list(sys.modules.values()) "
        "if (s := getattr(m, '__spec__', None)) and s.has_location "
        "and s.origin.endswith('.py') and not os.path.exists(s.cached)])"
    )

    said = run(shipped.release.image, platform, "/usr/bin/python3", "-c", code)

    assert said.split() == [{"linux/amd64": "x86_64", "linux/arm64": "aarch64"}[platform], "[]"]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_library_of_the_operator_is_for_its_platform(platform: str, shipped: Shipped) -> None:
    files = files_of(shipped.release.image, platform)
    libraries = {path: data for path, data in files.items() if re.match(r"app/.*\.so$", path)}

    assert len(libraries) > 5
    assert {data[18] for data in libraries.values()} == {MACHINES[platform]}


def test_but_for_its_libraries_the_operator_is_the_same_on_all_platforms(shipped: Shipped) -> None:
    first, *others = (
        {
            path: data
            for path, data in files_of(shipped.release.image, platform).items()
            if (path.startswith("app/") and not path.endswith(".so") and not OF_WHEEL.search(path))
            or path.endswith(".pyc")
        }
        for platform in PLATFORMS
    )

    assert "app/message_operator/__main__.py" in first
    for other in others:
        assert other.keys() == first.keys()
        assert [path for path in first if other[path] != first[path]] == []


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_message_pods_shell_prints(platform: str, shipped: Shipped) -> None:
    said = run(
        shipped.release.pod_images["message"],
        platform,
        "/bin/sh",
        "-c",
        'printf "%s\n" "$0"',
        "안녕하세요",
    )

    assert said == "안녕하세요\n"


def test_the_bundle_is_the_same_on_all_platforms(shipped: Shipped) -> None:
    first, *others = (files_of(shipped.release.bundle_image, platform) for platform in PLATFORMS)

    assert any(path.endswith(".clusterserviceversion.yaml") for path in first)
    assert all(other == first for other in others)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_catalog_serves_from_the_cache_that_it_was_built_with(
    platform: str, shipped: Shipped
) -> None:
    serve = ("/bin/opm", "serve", "/configs", "--cache-dir=/tmp/cache", "--cache-enforce-integrity")
    container = start(shipped.catalog, platform, *serve)
    try:
        said = wait_until(
            "the catalog to serve",
            lambda: printed(container),
            lambda said: "serving registry" in said or "level=fatal" in said,
        )
    finally:
        engine.remove_container(container)

    assert "level=fatal" not in said
    assert "found existing cache contents" in said


def inspected(release: Release, folder: Path) -> list[str]:
    """Return what OLM's validator finds in a release whose images it asks the registry for.

    It calls docker, which asks a registry without HTTPS only if it is told to.
    """
    docker = shutil.which("docker")
    write(
        {
            "bin/docker": "#!/bin/sh\n"
            f'[ "$1 $2" = "manifest inspect" ] || exec {docker} "$@"\n'
            f'exec {docker} manifest inspect --insecure "$3"\n'
        },
        folder,
    )
    (folder / "bin" / "docker").chmod(0o755)
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    return findings(write(bundle.bundle(release), folder / "bundle"), "docker", env={"PATH": path})


def test_olm_s_validator_finds_nothing_in_images_for_all_platforms(
    shipped: Shipped, tmp_path: Path
) -> None:
    assert inspected(shipped.release, tmp_path) == []
