"""The platforms that images are built for, in Docker's and Go's spelling; read from PLATFORMS.

Used by `kopf_kit.rig.dockerfiles` and by the modules that build with it.
"""

import os
import platform
from collections.abc import Sequence

from kopf_kit.rig.run import HackError

#: The platforms that the bundle promises; all dependencies have wheels for each.
SUPPORTED = ("linux/amd64", "linux/arm64")

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def requested() -> tuple[str, ...]:
    """Return the platforms that PLATFORMS lists; none means only this machine's."""
    names = os.environ.get("PLATFORMS", "").replace(",", " ").split()
    for name in names:
        if name not in SUPPORTED:
            raise HackError(
                f"PLATFORMS: images cannot be built for {name}; use {' and '.join(SUPPORTED)} "
                f"or one of them, for example PLATFORMS={','.join(SUPPORTED)}"
            )
    return tuple(dict.fromkeys(names))


def host() -> str:
    """Return the platform of this machine's containers."""
    return f"linux/{_MACHINES.get(platform.machine(), platform.machine())}"


def architecture(name: str) -> str:
    """Return a platform's architecture in Debian's and Go's spelling: arm64 for linux/arm64."""
    return name.partition("/")[2]


def images(reference: str, names: Sequence[str]) -> dict[str, str]:
    """Return the image name for each platform: REFERENCE-amd64, REFERENCE-arm64."""
    tag = "" if ":" in reference.rpartition("/")[2] else ":latest"
    return {name: f"{reference}{tag}-{architecture(name)}" for name in names}
