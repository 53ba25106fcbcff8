"""A release builds its images itself, by a container engine: the same ones of the same commit."""

import os
from pathlib import Path

import pytest

from kopf_kit.release import signatures
from kopf_kit.release.signatures import Keys
from kopf_kit.rig import dockerfiles, engine, steps
from kopf_kit.rig import registry as oci
from message_operator import __version__
from tests.release.conftest import SCRUBBED
from tests.release.releasing import CHECKOUT, Clone

OPERATOR, CATALOG = "message-operator", "message-operator-catalog"


class Built:
    """A release whose images nobody had built before."""

    def __init__(self, clone: Clone, prefix: str) -> None:
        clone.release(__version__, REGISTRY=prefix)
        lines = (clone.files(__version__) / "images.txt").read_text().splitlines()
        #: All that is published, by its digest.
        self.refs: dict[str, str] = dict(line.split() for line in lines)

    def layers(self, name: str) -> dict[str, list[str]]:
        """Return the digests of an image's layers, by platform."""
        return {
            platform: [layer["digest"] for layer in oci.manifest(image)["layers"]]
            for platform, image in oci.platforms(self.refs[name]).items()
        }


@pytest.fixture(scope="session", autouse=True)
def environment() -> None:
    """Keep pip's settings, by which the images are built."""
    steps.scrub_for_tests(SCRUBBED)


@pytest.fixture(scope="module")
def built(scratch: Path, keys: Keys, address: str) -> Built:
    clone = Clone.of(CHECKOUT, scratch / "builds", KEYS=str(keys.folder))
    return Built(clone, f"{address}/first")


@pytest.fixture(scope="module")
def again(built: Built, scratch: Path, keys: Keys, address: str) -> Built:
    """The same commit, at another path and of another time, with nothing kept of the first."""
    folder = scratch / "of" / "another-checkout"
    clone = Clone.of(CHECKOUT, folder, KEYS=str(keys.folder), PATH=_without_cache(scratch))
    for file in folder.rglob("*"):
        if ".git" not in file.parts:
            os.utime(file, (1_000_000_000, 1_000_000_000))
    return Built(clone, f"{address}/second")


def _without_cache(scratch: Path) -> str:
    """Return a PATH with a docker that takes nothing from its cache."""
    docker = scratch / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = build ]; then shift; set -- build --no-cache "$@"; fi\n'
        f'exec {engine.builder()} "$@"\n'
    )
    docker.chmod(0o755)
    return f"{docker.parent}:{os.environ['PATH']}"


def test_all_that_it_builds_is_for_both_platforms_and_signed(built: Built, keys: Keys) -> None:
    for name in (OPERATOR, "message", f"{OPERATOR}-bundle", CATALOG):
        images = oci.platforms(built.refs[name])
        assert tuple(images) == dockerfiles.SUPPORTED, name
        for image in (built.refs[name], *images.values()):
            assert signatures.signed(keys, image), name


def test_its_catalog_offers_the_bundle_and_that_the_image_that_were_built(built: Built) -> None:
    catalog = oci.files(built.refs[CATALOG], "configs/")
    bundle = oci.files(built.refs[f"{OPERATOR}-bundle"], "manifests/")

    offered = catalog[f"bundles/v{__version__}.yaml"].decode()
    assert f"image: {built.refs[f'{OPERATOR}-bundle']}\n" in offered
    csv = bundle["message-operator.clusterserviceversion.yaml"].decode()
    assert f"image: {built.refs[OPERATOR]}\n" in csv


def test_the_operator_s_image_is_the_same_bit_for_bit(built: Built, again: Built) -> None:
    assert built.layers(OPERATOR) == again.layers(OPERATOR)
    digests = [each.refs[OPERATOR].partition("@")[2] for each in (built, again)]
    assert digests[0] == digests[1], "the layers are the same, the settings or the index are not"
