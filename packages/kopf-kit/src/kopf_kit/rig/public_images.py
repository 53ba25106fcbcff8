"""Public images: pulled if a registry can be reached, and built if none can.

`are_in_reach()` decides between pulling all images, which takes minutes, and building them here
from Debian packages and Go modules. IMAGES=build or IMAGES=pull decides it beforehand.
Used by `kopf_kit.rig.cluster`, `kopf_kit.image.build`, `kopf_kit.rig.registry` and
`kopf_kit.rig.dockerfiles`.
"""

import functools
import os
import re

from kopf_kit.rig import engine, preflight, versions
from kopf_kit.rig.run import KitError
from kopf_kit.rig.steps import Step, say, step

#: A small image, which is needed anyway, to find out whether a registry can be reached.
BUSYBOX = f"docker.io/library/busybox:{versions.BUSYBOX}"

#: How long building takes, on two processors.
BUILD_TIME = "about 7 minutes"

#: Timeout in seconds for one image; the largest, a node's, is about 400 MB.
LIMIT = 60 * 60.0

_FROM_ENGINE = "Error response from daemon: "
#: What the engine says if no registry answers it at all.
_UNREACHABLE = re.compile(
    r"timeout|timed out|deadline exceeded|x509|certificate|tls: |no such host|server misbehaving"
    r"|name resolution|connection refused|unreachable|no route to host|connection reset|: EOF",
    re.IGNORECASE,
)


@functools.cache
def are_in_reach() -> bool:
    """Return whether public images can be pulled; once per run, let the engine pull one.

    Only the engine knows its proxies, mirrors and credentials. Raise KitError if a registry
    answers but refuses, or if none answers and this machine cannot build the images.
    """
    chosen = choice()
    if chosen == "build":
        preflight.check(preflight.FROM_SOURCE)
        return False
    if engine.has_image(BUSYBOX):
        return True
    with step("Look for an image registry") as work:
        error = _pull(BUSYBOX, work)
        if error is None:
            return True
        if chosen == "pull" or not _UNREACHABLE.search(error):
            raise KitError(_cannot_pull(BUSYBOX, error))
    say(f"    no image registry can be reached: {error}")
    preflight.check(preflight.FROM_SOURCE)
    return False


def pull(reference: str) -> str:
    """Make sure that the engine has a public image; return its name."""
    if not engine.has_image(reference):
        with step(f"Pull {reference}") as work:
            if error := _pull(reference, work):
                raise KitError(_cannot_pull(reference, error))
    return reference


def choice() -> str:
    """Return the value of IMAGES: auto, pull or build; raise KitError for any other."""
    value = os.environ.get("IMAGES") or "auto"
    if value not in ("auto", "pull", "build"):
        raise KitError(
            f"IMAGES={value} is not valid. Use IMAGES=pull to pull public images only, or "
            "IMAGES=build to build all images here. If you leave IMAGES out, they are built only "
            "if no registry can be reached."
        )
    return value


def _pull(reference: str, work: Step) -> str | None:
    """Pull an image; return the engine's reason if it fails, else None."""
    try:
        work.run(["docker", "pull", reference], timeout=LIMIT)
    except KitError as error:
        lines = str(error).strip().splitlines()
        of_engine = [line for line in lines if _FROM_ENGINE in line]
        return (of_engine or lines)[-1].rpartition(_FROM_ENGINE)[2].strip()
    return None


def _cannot_pull(reference: str, reason: str) -> str:
    sentence = f"{reference} cannot be pulled: {reason}"
    if preflight.are_met(preflight.FROM_SOURCE):
        sentence += f"\nTo build all images here instead, {BUILD_TIME}, set IMAGES=build."
    return sentence
