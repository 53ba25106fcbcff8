"""Images that are built from a Dockerfile, for this machine's platform or for several.

Each platform gets an image of its own, and an index under the image's name lists them: a node that
pulls the index gets the image for its platform. `docker manifest` creates the index, because every
Docker has it, and older ones have no buildx. If an image registry can be reached, the base images
are public ones, otherwise `kopf_kit.rig.tools` has similar ones built.
"""

import os
import platform
import re
from collections.abc import Sequence
from pathlib import Path

from kopf_kit.rig import engine, paths, public_images, registry, tools
from kopf_kit.rig.run import KitError, answer
from kopf_kit.rig.steps import Step, step

#: The platforms that the bundle promises; all dependencies have wheels for each.
SUPPORTED = ("linux/amd64", "linux/arm64")

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def requested() -> tuple[str, ...]:
    """Return the platforms that PLATFORMS lists; none means only this machine's."""
    names = os.environ.get("PLATFORMS", "").replace(",", " ").split()
    for name in names:
        if name not in SUPPORTED:
            raise KitError(
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


_ENVIRONMENT = {
    "DOCKER_BUILDKIT": "1",
    "BUILDKIT_PROGRESS": "plain",
    # An attestation would make an index of each image, and an index takes no other index.
    "BUILDX_NO_DEFAULT_ATTESTATIONS": "1",
}


def build(
    work: Step,
    reference: str,
    folder: Path,
    dockerfile: Path | bytes,
    names: Sequence[str] = (),
    **arguments: str,
) -> None:
    """Build an image from a folder: for this machine, or one for each named platform."""
    options = [f"--build-arg={name}={value}" for name, value in arguments.items()]
    of_platforms = images(reference, names).items() or [(None, reference)]
    for name, image in of_platforms:
        work.run(
            [
                *(engine.builder(), "build", *options),
                *([f"--platform={name}"] if name else []),
                *("--file", "-" if isinstance(dockerfile, bytes) else dockerfile),
                *("--tag", image, folder),
            ],
            timeout=20 * 60,
            env=_ENVIRONMENT,
            stdin=dockerfile if isinstance(dockerfile, bytes) else None,
        )


def push(work: Step, reference: str, names: Sequence[str] = ()) -> None:
    """Push an image that was built here; for several platforms, push each image and the index.

    Raise KitError if the push of an index does not print the digest.
    """
    _index_file(reference).unlink(missing_ok=True)
    of_platforms = list(images(reference, names).values())
    for image in of_platforms or [reference]:
        work.run(["docker", "push", image], timeout=10 * 60)
    if of_platforms:
        manifest, plain = ("docker", "manifest"), _plain_http(reference)
        answer([*manifest, "rm", reference])  # left by a failed push
        work.run([*manifest, "create", *plain, reference, *of_platforms], timeout=120)
        printed = engine.docker("manifest", "push", *plain, "--purge", reference)
        _keep_digest(reference, printed)


def pushed_index(reference: str) -> str | None:
    """Return an index that was pushed from here, named by digest; None for any other image.

    An index exists only in the registry. If the engine has an image of the same name, it is an
    earlier build for this machine's platform.
    """
    file = _index_file(reference)
    return f"{registry.repository(reference)}@{file.read_text()}" if file.is_file() else None


def _keep_digest(reference: str, printed: str) -> None:
    """Store the digest that `docker manifest push` prints, for later commands."""
    digests = re.findall(r"^sha256:[0-9a-f]{64}$", printed, re.MULTILINE)
    if not digests:
        raise KitError(
            f"`docker manifest push` printed no digest for {reference}, so that nothing can name "
            f"the image by its digest; it printed: {printed.strip() or 'nothing'}"
        )
    file = _index_file(reference)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(digests[-1])


def _index_file(reference: str) -> Path:
    return paths.BUILD / "indexes" / re.sub("[/:]", "_", reference)


def _plain_http(reference: str) -> tuple[str, ...]:
    """Return the option for a local registry, which `docker manifest` needs, unlike the engine."""
    return ("--insecure",) if reference.startswith("localhost:") else ()


def python(targets: Sequence[str] = ()) -> tuple[str, str]:
    """Return the names of built base images for building and for running the operator.

    The second is for this machine only, or for this machine and the named platforms.
    """
    builder = tools.builder("the base images of the operator's image cannot be pulled:")
    return builder.image("python-build"), builder.image("python-runtime", targets=targets)


def busybox() -> str:
    """Make sure that the local registry has BusyBox; return the image's name."""
    return publish(public_images.BUSYBOX)


def publish(reference: str, packages: Sequence[str] = ()) -> str:
    """Make sure that the local registry has a public image, see `copy`; return its name there.

    Another digest or other packages make another image, so its name tells them apart.
    """
    tag, *digest = reference.rpartition("/")[2].split("@")
    if made_of := [*digest, *packages]:
        tag += f"-{tools.digest(*made_of)}"
    name = f"{registry.ADDRESS}/{tag}"
    registry.up()
    if not registry.has(tag):
        copy(reference, name, packages)
    return name


def copy(
    reference: str, name: str, packages: Sequence[str] = (), targets: Sequence[str] = ()
) -> None:
    """Push a public image under another name: for this machine, or as an index of platforms.

    If it cannot be pulled, it is built from these Debian packages; BusyBox needs none.
    """
    if public := public_images.are_in_reach():
        source = reference
    else:
        lacks = f"{reference} cannot be pulled:"
        source = tools.builder(lacks).image(reference, packages, targets)
    with step(f"Push {name}") as work:
        if targets:
            sources = registry.platforms(source)
            for platform, tag in images(name, targets).items():
                work.run(["docker", "pull", "--platform", platform, sources[platform]], timeout=600)
                engine.docker("tag", sources[platform], tag)
        else:
            engine.docker("tag", public_images.pull(source) if public else source, name)
        push(work, name, targets)
