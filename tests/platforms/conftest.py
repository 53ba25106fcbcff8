"""All that a release consists of, for every platform that its bundle promises."""

from dataclasses import dataclass, replace

import pytest

from kopf_kit.image.build import pinned
from kopf_kit.project.releases import NAME, Release, in_registry
from kopf_kit.rig import dockerfiles, registry
from tests.make.commands import CHECKOUT, Make


@dataclass(frozen=True)
class Shipped:
    """A release in the local registry, whose images are for all platforms."""

    release: Release
    catalog: str

    @property
    def images(self) -> dict[str, str]:
        """The images, by what they are."""
        return {
            "operator": self.release.image,
            "message Pods": self.release.pod_images["message"],
            "bundle": self.release.bundle_image,
            "catalog": self.catalog,
        }


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
