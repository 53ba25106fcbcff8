"""The platforms that images are built for, as Docker and Go name them; read from PLATFORMS.

Used by `hack.rig.dockerfiles` and by all that builds with it.
"""

import os
import platform
from collections.abc import Sequence

from hack.rig.run import HackError

#: What the bundle promises; each has wheels of all that the operator needs.
SUPPORTED = ("linux/amd64", "linux/arm64")

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def requested() -> tuple[str, ...]:
    """Return the platforms that PLATFORMS lists; none where only this machine's is meant."""
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
    """Return a platform's architecture, as Debian and Go name it: arm64 of linux/arm64."""
    return name.partition("/")[2]


def images(reference: str, names: Sequence[str]) -> dict[str, str]:
    """Return the image of each platform, by the platform: REFERENCE-amd64, REFERENCE-arm64."""
    tag = "" if ":" in reference.rpartition("/")[2] else ":latest"
    return {name: f"{reference}{tag}-{architecture(name)}" for name in names}
