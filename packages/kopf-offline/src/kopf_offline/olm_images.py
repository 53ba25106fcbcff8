"""Images with the programs of the Operator Lifecycle Manager, built from their Go modules.

`olm` is what OLM is installed from. Where the public base image of a catalog cannot be reached, it
serves as that of a catalog for this machine, and `opm` as that of one for several platforms.
"""

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kopf_kit.rig import dockerfiles, paths, public_images, registry, tools, versions
from kopf_kit.rig.steps import step
from kopf_offline import golang, images

_PROGRAMS = (
    *("olm", "catalog", "package-server", "copy-content", "cpb", "opm"),
    *("grpc_health_probe", "catalogd"),
)
#: In a process of the cluster `localhost` is its own Pod: catalogd takes the registry from here.
_REGISTRIES = f"""\
[[registry]]
prefix = "{registry.ADDRESS}"
location = "{registry.NAME}:5000"
insecure = true
"""
_POLICY = '{"default": [{"type": "insecureAcceptAnything"}]}\n'

# BusyBox, for the Job that unpacks a bundle runs `cp`. The numeric user lets the kubelet verify
# that it is not root. Without nsswitch.conf a Go program would not look into /etc/hosts.
_DOCKERFILE = """\
ARG BASE
FROM ${BASE}
COPY bin /bin
COPY --chmod=755 etc /etc
USER 1001
"""

_OF_CATALOGS = ("opm", "grpc_health_probe")
_CATALOG_DOCKERFILE = """\
ARG BASE
FROM ${BASE}
ARG TARGETARCH
COPY ${TARGETARCH} /bin
USER 1001
"""


def olm() -> str:
    """Return the name of the image with all programs, in the local registry."""
    base = dockerfiles.busybox()
    recipe = tools.digest(_DOCKERFILE, _REGISTRIES, _POLICY, *map(golang.recipe, _PROGRAMS))
    name = f"olm:{versions.OLM}-{recipe}"
    ref = f"{registry.ADDRESS}/{name}"
    if registry.has(name):
        return ref
    programs = golang.programs(_PROGRAMS)
    with (
        tools.lock("olm-image"),
        step("Image with OLM's programs") as work,
        tempfile.TemporaryDirectory(dir=paths.cache(), prefix=".olm.") as folder,
    ):
        _fill(Path(folder), programs)
        dockerfiles.build(work, ref, Path(folder), Path(folder, "Dockerfile"), BASE=base)
        dockerfiles.push(work, ref)
    return ref


def _fill(folder: Path, programs: list[Path]) -> None:
    """Write the files that the image is built from."""
    (folder / "bin").mkdir()
    for program in programs:
        _link(program, folder / "bin" / program.name)
    etc = folder / "etc"
    (etc / "containers").mkdir(parents=True)
    (etc / "nsswitch.conf").write_text("hosts: files dns\n")
    (etc / "containers" / "registries.conf").write_text(_REGISTRIES)
    (etc / "containers" / "policy.json").write_text(_POLICY)
    (folder / "Dockerfile").write_text(_DOCKERFILE)


def _link(source: Path, target: Path) -> None:
    """Hard-link a file, or copy it if the file system cannot do that."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def opm(targets: Sequence[str]) -> str:
    """Return the name of the image for this machine and for the platforms' names, as an index."""
    wanted = sorted({dockerfiles.host(), *targets})
    recipe = tools.digest(_CATALOG_DOCKERFILE, *map(golang.recipe, _OF_CATALOGS), *wanted)
    tag = f"opm:{versions.OPM}-{recipe}"
    reference = f"{registry.ADDRESS}/{tag}"
    registry.up()
    if not registry.has(tag):
        programs = {dockerfiles.architecture(name): _programs(name) for name in wanted}
        base = images.image(public_images.BUSYBOX, (), wanted)
        with (
            step(f"opm for {', '.join(wanted)}") as work,
            tempfile.TemporaryDirectory(dir=paths.cache(), prefix=".opm.") as folder,
        ):
            for architecture, compiled in programs.items():
                Path(folder, architecture).mkdir()
                for name, program in compiled.items():
                    shutil.copy2(program, Path(folder, architecture, name))
            dockerfile = _CATALOG_DOCKERFILE.encode()
            dockerfiles.build(work, reference, Path(folder), dockerfile, wanted, BASE=base)
            dockerfiles.push(work, reference, wanted)
    return reference


def _programs(platform: str) -> dict[str, Path]:
    """Return the programs for a platform, by name; cross-compile them if it is not ours."""
    wanted = {name: golang.PROGRAMS[name] for name in _OF_CATALOGS}
    if platform != dockerfiles.host():
        architecture = dockerfiles.architecture(platform)
        wanted = {
            name: replace(program, architecture=architecture) for name, program in wanted.items()
        }
    return dict(zip(wanted, golang.programs(list(wanted), wanted), strict=True))
