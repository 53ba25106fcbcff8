"""Images that are built from a Dockerfile, for this machine's platform or for several.

Each platform gets an image of its own, and an index under the image's name lists them: a node that
pulls the index gets the image for its platform. `docker manifest` creates the index, because every
Docker has it, and older ones have no buildx. Used by `kopf_kit.pack.image` and
`kopf_kit.rig.base_images`.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from kopf_kit.rig import engine, oci, paths, platforms
from kopf_kit.rig.run import HackError, answer
from kopf_kit.rig.steps import Step

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
    images = platforms.images(reference, names).items() or [(None, reference)]
    for platform, image in images:
        work.run(
            [
                *(engine.builder(), "build", *options),
                *([f"--platform={platform}"] if platform else []),
                *("--file", "-" if isinstance(dockerfile, bytes) else dockerfile),
                *("--tag", image, folder),
            ],
            timeout=20 * 60,
            env=_ENVIRONMENT,
            stdin=dockerfile if isinstance(dockerfile, bytes) else None,
        )


def push(work: Step, reference: str, names: Sequence[str] = ()) -> None:
    """Push an image that was built here; for several platforms, push each image and the index.

    Raise HackError if the push of an index does not print the digest.
    """
    _index_file(reference).unlink(missing_ok=True)
    images = list(platforms.images(reference, names).values())
    for image in images or [reference]:
        work.run(["docker", "push", image], timeout=10 * 60)
    if images:
        manifest, plain = ("docker", "manifest"), _plain_http(reference)
        answer([*manifest, "rm", reference])  # left by a failed push
        work.run([*manifest, "create", *plain, reference, *images], timeout=120)
        printed = engine.docker("manifest", "push", *plain, "--purge", reference)
        _keep_digest(reference, printed)


def pushed_index(reference: str) -> str | None:
    """Return an index that was pushed from here, named by digest; None for any other image.

    An index exists only in the registry. If the engine has an image of the same name, it is an
    earlier build for this machine's platform.
    """
    file = _index_file(reference)
    return f"{oci.repository(reference)}@{file.read_text()}" if file.is_file() else None


def listed(reference: str) -> dict[str, str]:
    """Return the images that an index in a registry lists, by platform and named by digest."""
    index = json.loads(engine.docker("manifest", "inspect", *_plain_http(reference), reference))
    name = oci.repository(reference)
    return {
        f"{image['platform']['os']}/{image['platform']['architecture']}": (
            f"{name}@{image['digest']}"
        )
        for image in index["manifests"]
    }


def _keep_digest(reference: str, printed: str) -> None:
    """Store the digest that `docker manifest push` prints, for later commands."""
    digests = re.findall(r"^sha256:[0-9a-f]{64}$", printed, re.MULTILINE)
    if not digests:
        raise HackError(
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
