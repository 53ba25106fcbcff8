"""Image names: the value of REGISTRY, the parts of a name, and the digest behind a tag.

Used by every module that names images for an installation or a release.
"""

import os
import re

from kopf_kit.rig import dockerfiles, engine, registry
from kopf_kit.rig.run import KitError, answer

_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_HOST = r"(?:localhost|[a-z0-9-]+(?:\.[a-z0-9-]+)+|[a-z0-9-]+(?=:))(?::\d+)?"
_REGISTRY = re.compile(rf"{_HOST}(?:/{_PART})*")
# As https://pkg.go.dev/github.com/distribution/reference has it.
_TAG = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_IMAGE = re.compile(
    rf"(?:(?i:{_HOST})/)?{_PART}(?:/{_PART})*(?::{_TAG})?(?:@sha256:[0-9a-f]{{64}})?", re.ASCII
)
_PORT = re.compile(r"[^/]*:(\d+)(?:/|$)", re.ASCII)


def prefix() -> str:
    """Return REGISTRY, host[:port][/path]; raise KitError if it is invalid.

    If it is not set, return the registry beside the kind cluster.
    """
    given = os.environ.get("REGISTRY") or registry.ADDRESS
    name = given.rstrip("/")
    if not _REGISTRY.fullmatch(name) or not _port_is_valid(name):
        raise KitError(
            f"REGISTRY={given} is not a valid registry; use host[:port][/path] in lower case, "
            "without https:// and without a tag, for example REGISTRY=registry.example.com/you"
        )
    return name


def _port_is_valid(name: str) -> bool:
    port = _PORT.match(name)
    return port is None or 0 < int(port[1][:6]) < 65536


def check_form(ref: str, variable: str) -> str:
    """Return an image's name; raise KitError, which names the variable, if it is invalid."""
    if not _IMAGE.fullmatch(ref) or ("/" in ref and not _port_is_valid(ref)):
        raise KitError(
            f"{variable}={ref} is not a valid image; use [host[:port]/]name[:tag] or "
            "…@sha256:…, the name in lower case, without https:// and without spaces, for example "
            f"{variable}=registry.example.com/you/name:1.0"
        )
    return ref


def check_given(*variables: str) -> None:
    """Raise KitError if one of the variables is set, but not to an image in a registry."""
    for variable in variables:
        if ref := os.environ.get(variable):
            image_parts(ref, variable)


def image_parts(ref: str, variable: str = "IMG") -> dict[str, str]:
    """Return the chart's values for an image, given as REGISTRY/REPOSITORY[:TAG|@DIGEST].

    Raise KitError, which names the variable, if it is not an image, or contains no registry.
    """
    check_form(ref, variable)
    name, _, digest = ref.partition("@")
    host, _, rest = name.partition("/")
    if not rest or not (host == "localhost" or "." in host or ":" in host):
        raise KitError(
            f"{variable}={ref} names no registry; write it in full, for example "
            "docker.io/you/name:tag"
        )
    repository, _, tag = rest.partition(":")
    return {"registry": host, "repository": repository, "tag": tag, "digest": digest}


def pinned(ref: str) -> str:
    """Return an image that was pushed from here by its digest, or unchanged if that is unknown.

    A node would not pull a tag again after a second push. Raise KitError if the local registry
    does not answer.
    """
    if "@" in ref:
        return ref
    if registry.is_local(ref):
        return _local(ref) or ref
    if index := dockerfiles.pushed_index(ref):
        return index
    digests = answer(["docker", "image", "inspect", "-f", '{{join .RepoDigests "\\n"}}', ref]) or ""
    name = registry.repository(ref)
    called = {name, name.removeprefix("docker.io/").removeprefix("library/")}  # as Docker has it
    pushed = [line.split("@") for line in digests.splitlines()]
    matching = [digest for place, digest in pushed if place in called]
    return f"{name}@{matching[0]}" if matching else ref


def looked_up(ref: str, variable: str) -> str:
    """Return an image by its current digest in its registry.

    Raise KitError, which names the variable, if the registry does not have it. The image is
    pulled, because every Docker can do that, with the user's logins and proxies.
    """
    image_parts(ref, variable)
    if "@" in ref:
        return ref
    if registry.is_local(ref):
        if local := _local(ref):
            return local
        raise KitError(
            f"{variable}={ref} is not in the local registry; `kopf-kit image build` and "
            f"`image push`, with IMG={ref}, put an image of the operator there, and "
            f"without {variable} the image is built here"
        )
    try:
        printed = engine.docker("pull", ref, timeout=600)
    except KitError as error:
        raise KitError(
            f"{variable}={ref} cannot be looked up; push it first, log in (docker login), or name "
            f"it by its digest (name@sha256:…):\n{error}"
        ) from error
    (digest,) = re.findall(r"^Digest: (sha256:[0-9a-f]{64})$", printed, re.MULTILINE)
    return f"{registry.repository(ref)}@{digest}"


def _local(ref: str) -> str | None:
    """Return an image in the local registry by its digest, or None if it is not there."""
    name, _, tag = ref.removeprefix(f"{registry.ADDRESS}/").partition(":")
    digest = registry.local_digest(f"{name}:{tag or 'latest'}")
    return f"{registry.ADDRESS}/{name}@{digest}" if digest else None
