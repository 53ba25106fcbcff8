"""The base image of catalogs for several platforms, if the public one cannot be reached.

It contains BusyBox, opm and the program with which OLM probes a catalog's Pod; both programs are
compiled here for each platform. Used by `kopf_kit.pack.olm_images`; a catalog for this machine only
is based on the image of `kopf_kit.rig.olm`, which the cluster has anyway.
"""

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kopf_kit.rig import (
    base_images,
    cache,
    dockerfiles,
    golang,
    paths,
    platforms,
    registry,
    versions,
)
from kopf_kit.rig.steps import step

_PROGRAMS = ("opm", "grpc_health_probe")
_DOCKERFILE = """\
ARG BASE
FROM ${BASE}
ARG TARGETARCH
COPY ${TARGETARCH} /bin
USER 1001
"""


def image(targets: Sequence[str]) -> str:
    """Return the name of the image for this machine and for the platforms' names, as an index."""
    wanted = sorted({platforms.host(), *targets})
    recipe = cache.digest(_DOCKERFILE, *map(golang.recipe, _PROGRAMS), *wanted)
    tag = f"opm:{versions.OPM}-{recipe}"
    reference = f"{registry.ADDRESS}/{tag}"
    registry.up()
    if not registry.has(tag):
        programs = {platforms.architecture(name): _programs(name) for name in wanted}
        base = base_images.busybox_for(wanted)
        with (
            step(f"opm for {', '.join(wanted)}") as work,
            tempfile.TemporaryDirectory(dir=paths.cache(), prefix=".opm.") as folder,
        ):
            for architecture, compiled in programs.items():
                Path(folder, architecture).mkdir()
                for name, program in compiled.items():
                    shutil.copy2(program, Path(folder, architecture, name))
            dockerfile = _DOCKERFILE.encode()
            dockerfiles.build(work, reference, Path(folder), dockerfile, wanted, BASE=base)
            dockerfiles.push(work, reference, wanted)
    return reference


def _programs(platform: str) -> dict[str, Path]:
    """Return the programs for a platform, by name; cross-compile them if it is not ours."""
    wanted = {name: golang.PROGRAMS[name] for name in _PROGRAMS}
    if platform != platforms.host():
        architecture = platforms.architecture(platform)
        wanted = {
            name: replace(program, architecture=architecture) for name, program in wanted.items()
        }
    return dict(zip(wanted, golang.programs(list(wanted), wanted), strict=True))
