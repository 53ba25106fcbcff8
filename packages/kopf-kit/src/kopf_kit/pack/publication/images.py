"""The images of a release, by their digests: given, found in the registry, or built and pushed.

The operator's is built by its Dockerfile, for two platforms. The bundle's is files alone and needs
no container engine. Used by `kopf_kit.commands.release`.
"""

import os
import tempfile
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from kopf_kit.pack import bundle, image, olm_images, references
from kopf_kit.pack.project import PROJECT, Image
from kopf_kit.pack.publication import source
from kopf_kit.pack.release import NAME, Release, current, in_registry
from kopf_kit.rig import base_images, dockerfiles, engine, oci, platforms
from kopf_kit.rig.run import HackError
from kopf_kit.rig.steps import step

_REVISION = "org.opencontainers.image.revision"


def check() -> None:
    """Raise HackError where an image would lack a platform that the bundle and chart promise."""
    requested, promised = platforms.requested(), " and ".join(platforms.SUPPORTED)
    if requested and set(requested) != set(platforms.SUPPORTED):
        raise HackError(
            f"PLATFORMS={','.join(requested)}: a release has images for {promised}, as its bundle "
            "promises; leave PLATFORMS out"
        )
    pods = (pod.variable for pod in PROJECT.images)
    for variable in ("IMG", *pods, "BUNDLE_IMG", "CATALOG_IMG"):
        given = _given(variable)
        if given and not set(platforms.SUPPORTED) <= oci.platforms(given).keys():
            raise HackError(
                f"{variable}={os.environ[variable]} is not for {promised}, as the bundle promises "
                f"of all images; push one for both, or leave {variable} out"
            )


def publish(destination: str, date: datetime) -> Release:
    """Put the images of the operator and of its Pods into a registry; return them by digest.

    IMG, and a variable such as WIDGET_IMG, name images that are in a registry already.
    """
    os.environ["PLATFORMS"] = ",".join(platforms.SUPPORTED)
    ours, public = in_registry(destination), current().pod_images
    pods = {
        pod.name: _given(pod.variable) or _copied(pod, public[pod.name], destination)
        for pod in PROJECT.images
    }
    return replace(ours, image=_given("IMG") or _built(ours.image, date), pod_images=pods)


def publish_bundle(release: Release, date: datetime) -> Release:
    """Push the bundle's image, unless BUNDLE_IMG names it; return the release with its digest."""
    if given := _given("BUNDLE_IMG"):
        return replace(release, bundle_image=given)
    files = {path: text.encode() for path, text in bundle.bundle(release).items()}
    with tempfile.NamedTemporaryFile(suffix=".tar") as layer:
        layer.write(oci.archive(files, date))
        layer.flush()
        pushed = oci.push_for(
            platforms.SUPPORTED, Path(layer.name), release.bundle_image, bundle.annotations(release)
        )
    return replace(release, bundle_image=pushed)


def publish_catalog(release: Release, destination: str) -> str:
    """Push the catalog with a release, unless CATALOG_IMG names it; return it by its digest."""
    if given := _given("CATALOG_IMG"):
        return given
    ref = f"{destination}/{NAME}-catalog:v{release.version}"
    files = olm_images.catalog_with(release)
    if existing := oci.pinned(ref):
        held = oci.files(existing, "configs/")
        if held != {path: text.encode() for path, text in files.items()}:
            raise HackError(
                f"{ref} is in the registry already with other content; raise the version, or "
                "delete that image if nobody uses it yet"
            )
        return existing
    engine.up()
    return _pushed(ref, olm_images.push_catalog(ref, files))


def _given(variable: str) -> str | None:
    """Return the image that a variable names, by its digest; None where it is not set."""
    if not (ref := os.environ.get(variable)):
        return None
    references.image_parts(ref, variable)
    if pinned := oci.pinned(ref):
        return pinned
    raise HackError(
        f"{variable}={ref} is not in its registry; push it first, or leave {variable} out"
    )


def _built(ref: str, date: datetime) -> str:
    """Return the operator's image; raise HackError where another source's has its name.

    Its name comes last: an image that has it is complete, and is dated as its sources.
    """
    if existing := oci.pinned(ref):
        revision = oci.labels(existing).get(_REVISION, "")
        if not source.is_same(revision):
            of = revision[:12] or "it does not say which"
            raise HackError(
                f"{ref} is in the registry already, built from another commit ({of}); raise the "
                "version"
            )
        return existing
    image.build(ref, revision=source.commit())
    names = platforms.images(ref, platforms.requested()).values()
    with step(f"Push {ref}") as work:
        for name in names:
            dockerfiles.push(work, name)
        return oci.push_index([oci.date(name, date) for name in names], ref)


def _copied(pods: Image, public: str, destination: str) -> str:
    """Return the image of Pods in the registry of the release."""
    ref = in_registry(destination).pod_images[pods.name]
    if existing := oci.pinned(ref):
        return existing
    engine.up()
    base_images.copy(public, ref, pods.packages, platforms.requested())
    return _pushed(ref, ref)


def _pushed(ref: str, printed: str) -> str:
    if pinned := oci.pinned(printed):
        return pinned
    raise HackError(f"{ref} was pushed, and the registry does not have it; run the command again")
