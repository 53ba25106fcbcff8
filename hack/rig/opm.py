"""The base image of catalogs for several platforms, if the public one cannot be reached.

It contains BusyBox and opm, which is compiled here for each platform. Used by
`hack.pack.olm_images`; a catalog for this machine only is based on the image of `hack.rig.olm`,
which the cluster has anyway.
"""

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hack.rig import (
    base_images,
    cache,
    dockerfiles,
    golang,
    paths,
    platforms,
    registry,
    versions,
)
from hack.rig.steps import step

_DOCKERFILE = """\
ARG BASE
FROM ${BASE}
ARG TARGETARCH
COPY opm-${TARGETARCH} /bin/opm
USER 1001
"""


def image(targets: Sequence[str]) -> str:
    """Return the name of the image for this machine and for the platforms' names, as an index."""
    wanted = sorted({platforms.host(), *targets})
    tag = f"opm:{versions.OPM}-{cache.digest(_DOCKERFILE, golang.recipe('opm'), *wanted)}"
    reference = f"{registry.ADDRESS}/{tag}"
    registry.up()
    if not registry.has(tag):
        programs = {platforms.architecture(name): _program(name) for name in wanted}
        base = base_images.busybox_for(wanted)
        with (
            step(f"opm for {', '.join(wanted)}") as work,
            tempfile.TemporaryDirectory(dir=paths.cache(), prefix=".opm.") as folder,
        ):
            for architecture, program in programs.items():
                shutil.copy2(program, Path(folder, f"opm-{architecture}"))
            dockerfile = _DOCKERFILE.encode()
            dockerfiles.build(work, reference, Path(folder), dockerfile, wanted, BASE=base)
            dockerfiles.push(work, reference, wanted)
    return reference


def _program(name: str) -> Path:
    """Return opm for a platform; cross-compile it if the platform is not ours."""
    program = golang.PROGRAMS["opm"]
    if name != platforms.host():
        program = replace(program, architecture=platforms.architecture(name))
    return golang.program("opm", {"opm": program})
