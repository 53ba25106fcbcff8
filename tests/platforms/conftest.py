"""The images of a release, for every platform that its bundle promises."""

from dataclasses import replace

import pytest

from hack.pack import bundle
from hack.pack.bundle import Release
from hack.rig import base_images, platforms, registry
from tests.make.commands import CHECKOUT, Make


@pytest.fixture(scope="session")
def shipped() -> Release:
    """Build and push the images, the operator's as the README says; return the release."""
    name, version = bundle.NAME, bundle.current().version
    reference = f"{registry.ADDRESS}/all-platforms/{name}:{version}"
    make = Make(CHECKOUT, IMG=reference, PLATFORMS=",".join(platforms.SUPPORTED))
    make("docker-build", "docker-push", timeout=1200)
    pods = {"message": _pinned(base_images.busybox_for(platforms.SUPPORTED))}
    return replace(bundle.current(), image=_pinned(reference), pod_images=pods)


def _pinned(reference: str) -> str:
    digest = registry.digest(reference.removeprefix(f"{registry.ADDRESS}/"))
    return f"{reference.rpartition(':')[0]}@{digest}" if digest else reference
