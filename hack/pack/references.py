"""Images by their names: what REGISTRY may be, the parts of a name, and the digest behind a tag.

Used by all that names images for an installation or a release.
"""

import os
import re

from hack.rig import dockerfiles, engine, registry
from hack.rig.run import HackError, answer

_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_HOST = r"(?:localhost|[a-z0-9-]+(?:\.[a-z0-9-]+)+|[a-z0-9-]+(?=:))(?::\d+)?"
_REGISTRY = re.compile(rf"{_HOST}(?:/{_PART})*")


def prefix() -> str:
    """Return what REGISTRY names, host[:port][/path]; raise HackError where that is none.

    Where it is not set, it is the registry beside the kind cluster.
    """
    given = os.environ.get("REGISTRY") or registry.ADDRESS
    name = given.rstrip("/")
    if not _REGISTRY.fullmatch(name):
        raise HackError(
            f"REGISTRY={given} is not a valid registry; use host[:port][/path] in lower case, "
            "without https:// and without a tag, for example REGISTRY=registry.example.com/you"
        )
    return name


def image_parts(ref: str, variable: str = "IMG") -> dict[str, str]:
    """Return the chart's values for an image, given as REGISTRY/REPOSITORY[:TAG|@DIGEST].

    Raises HackError, which names the variable that it was given by, where it names no registry.
    """
    name, _, digest = ref.partition("@")
    host, _, rest = name.partition("/")
    if not rest or not (host == "localhost" or "." in host or ":" in host):
        raise HackError(
            f"{variable}={ref} names no registry; write it in full, for example "
            "docker.io/you/name:tag"
        )
    repository, _, tag = rest.partition(":")
    return {"registry": host, "repository": repository, "tag": tag, "digest": digest}


def pinned(ref: str) -> str:
    """Return an image that was pushed from here by its digest; as it is where none is known.

    A tag that was pushed again would not be pulled again. Raises HackError where the local
    registry does not answer.
    """
    if "@" in ref:
        return ref
    if registry.is_local(ref):
        return _local(ref) or ref
    if index := dockerfiles.pushed_index(ref):
        return index
    digests = answer(["docker", "image", "inspect", "-f", '{{join .RepoDigests "\\n"}}', ref]) or ""
    name = dockerfiles.repository(ref)
    called = {name, name.removeprefix("docker.io/").removeprefix("library/")}  # as Docker has it
    pushed = [each.split("@") for each in digests.splitlines()]
    known = [digest for each, digest in pushed if each in called]
    return f"{name}@{known[0]}" if known else ref


def looked_up(ref: str, variable: str) -> str:
    """Return an image by the digest that its registry has now.

    Raises HackError, which names the variable that it was given by, where the registry does not
    have it. The image is pulled: every Docker can do that, with the user's logins and proxies.
    """
    image_parts(ref, variable)
    if "@" in ref:
        return ref
    if registry.is_local(ref):
        if found := _local(ref):
            return found
        raise HackError(
            f"{variable}={ref} is not in the local registry; `make docker-build docker-push "
            f"IMG={ref}` puts an image of the operator there, and without {variable} the image is "
            "built here"
        )
    try:
        printed = engine.docker("pull", ref, timeout=600)
    except HackError as error:
        raise HackError(
            f"{variable}={ref} cannot be looked up; push it first, log in (docker login), or name "
            f"it by its digest (name@sha256:…):\n{error}"
        ) from error
    (digest,) = re.findall(r"^Digest: (sha256:[0-9a-f]{64})$", printed, re.MULTILINE)
    return f"{dockerfiles.repository(ref)}@{digest}"


def _local(ref: str) -> str | None:
    """Return an image in the local registry by its digest; None where it is not there."""
    name, _, tag = ref.removeprefix(f"{registry.ADDRESS}/").partition(":")
    digest = registry.digest(f"{name}:{tag or 'latest'}")
    return f"{registry.ADDRESS}/{name}@{digest}" if digest else None
