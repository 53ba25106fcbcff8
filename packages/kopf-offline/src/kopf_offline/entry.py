"""The functions that `kopf_kit` calls, only through `kopf_kit.rig.tools`.

Programs can be built anywhere, images only in the repository of an operator.
"""

from collections.abc import Sequence
from pathlib import Path

from kopf_offline import golang


def programs(names: Sequence[str]) -> list[Path]:
    """Return the paths of programs in Go; build those that are missing."""
    return golang.programs(names)


def module(name: str) -> Path:
    """Return the folder of a Go module's sources, in the pinned version."""
    return golang.module(name)


def image(name: str, packages: Sequence[str] = (), targets: Sequence[str] = ()) -> str:
    """Return the name of an image; build it if it is missing.

    That is `python-build`, `python-runtime`, `registry`, `olm` or `opm`, or a public image of which
    these Debian packages are a substitute; BusyBox needs none. For platforms it is an index in the
    local registry, otherwise an image of the engine.
    """
    from kopf_offline import images, olm_images

    if name == "olm":
        return olm_images.olm()
    if name == "opm":
        return olm_images.opm(targets)
    return images.image(name, packages, targets)


def node(tools: Sequence[str] = ()) -> str:
    """Return the name of the kind node's image; if it is missing, build it, and these tools."""
    from kopf_offline import node_image

    return node_image.make(tools)
