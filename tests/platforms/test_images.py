"""What is shipped runs on every platform that the bundle promises, and is the same on each."""

import os
import re
import shutil
from pathlib import Path

import pytest

from bundle.package import write
from kopf_kit.olm import bundle
from kopf_kit.olm.rules import findings
from kopf_kit.project.releases import Release
from kopf_kit.rig import dockerfiles, engine
from tests.e2e.waiting import wait_until
from tests.make.commands import CHECKOUT, Make
from tests.platforms import containers
from tests.platforms.conftest import Shipped

PLATFORMS = sorted(dockerfiles.SUPPORTED)
OPERATOR = ("/usr/bin/python3", "-m", "message_operator")
#: The machine that a library is for, as its ELF header has it.
MACHINES = {"linux/amd64": 0x3E, "linux/arm64": 0xB7}
#: In a wheel these say for which platform it is.
OF_WHEEL = re.compile(r"\.dist-info/(WHEEL|RECORD)$")


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_the_operator_answers_alike_on_all_platforms(option: str, shipped: Shipped) -> None:
    image = shipped.release.image
    first, *others = (containers.run(image, each, *OPERATOR, option) for each in PLATFORMS)

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

    said = containers.run(shipped.release.image, platform, "/usr/bin/python3", "-c", code)

    assert said.split() == [{"linux/amd64": "x86_64", "linux/arm64": "aarch64"}[platform], "[]"]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_library_of_the_operator_is_for_its_platform(platform: str, shipped: Shipped) -> None:
    files = containers.files(shipped.release.image, platform)
    libraries = {path: data for path, data in files.items() if re.match(r"app/.*\.so$", path)}

    assert len(libraries) > 5
    assert {data[18] for data in libraries.values()} == {MACHINES[platform]}


def test_but_for_its_libraries_the_operator_is_the_same_on_all_platforms(shipped: Shipped) -> None:
    first, *others = (
        {
            path: data
            for path, data in containers.files(shipped.release.image, platform).items()
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
    said = containers.run(
        shipped.release.pod_images["message"],
        platform,
        "/bin/sh",
        "-c",
        'printf "%s\n" "$0"',
        "안녕하세요",
    )

    assert said == "안녕하세요\n"


def test_the_bundle_is_the_same_on_all_platforms(shipped: Shipped) -> None:
    first, *others = (
        containers.files(shipped.release.bundle_image, platform) for platform in PLATFORMS
    )

    assert any(path.endswith(".clusterserviceversion.yaml") for path in first)
    assert all(other == first for other in others)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_catalog_serves_from_the_cache_that_it_was_built_with(
    platform: str, shipped: Shipped
) -> None:
    serve = ("/bin/opm", "serve", "/configs", "--cache-dir=/tmp/cache", "--cache-enforce-integrity")
    container = containers.start(shipped.catalog, platform, *serve)
    try:
        said = wait_until(
            "the catalog to serve",
            lambda: containers.printed(container),
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


def test_a_platform_that_nothing_is_built_for_is_refused() -> None:
    said = Make(CHECKOUT, PLATFORMS="linux/amd64,linux/riscv64").refused("docker-build")

    assert "images cannot be built for linux/riscv64" in said
    assert "PLATFORMS=linux/amd64,linux/arm64" in said
