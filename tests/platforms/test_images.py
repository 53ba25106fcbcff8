"""What is shipped is there for every platform that the bundle promises, and is the same on each."""

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
from kopf_kit.rig import dockerfiles, engine, registry
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


@functools.cache
def pulled(reference: str, platform: str) -> str:
    """Pull the image for a platform, as a node of that platform does; return its name."""
    image = registry.platforms(reference)[platform]
    engine.docker("pull", "--platform", platform, image, timeout=300)
    return image


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


PLATFORMS = sorted(dockerfiles.SUPPORTED)
#: The machine that a library is for, as its ELF header has it.
MACHINES = {"linux/amd64": 0x3E, "linux/arm64": 0xB7}
#: In a wheel these say for which platform it is.
OF_WHEEL = re.compile(r"\.dist-info/(WHEEL|RECORD)$")


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


def test_the_bundle_is_the_same_on_all_platforms(shipped: Shipped) -> None:
    first, *others = (files_of(shipped.release.bundle_image, platform) for platform in PLATFORMS)

    assert any(path.endswith(".clusterserviceversion.yaml") for path in first)
    assert all(other == first for other in others)


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
