"""The images of a bundle and of a catalog: built from the generated files, and pushed.

Used by `kopf_kit.cli.push`, and by the end-to-end tests, which create releases of their own.
"""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from kopf_kit.image.references import pinned
from kopf_kit.olm import bundle, catalog
from kopf_kit.olm.bundle import Release
from kopf_kit.rig import dockerfiles, olm, paths, public_images, tools
from kopf_kit.rig.steps import Step, step

_BUILD = paths.BUILD / "olm"


def push_bundle(release: Release, files: Mapping[str, str] | None = None) -> Release:
    """Build and push the bundle's image under the release's name; return the release with digest.

    `files` are the bundle's files, if they are not those generated for the release.
    """
    folder = _write(
        release.bundle_image,
        {f"bundle/{path}": text for path, text in (files or bundle.bundle(release)).items()},
        bundle.dockerfile(release),
    )
    with step(f"Bundle {release.bundle_image}") as work:
        _build(work, release.bundle_image, folder)
    return replace(release, bundle_image=pinned(release.bundle_image))


def push_catalog(ref: str, files: Mapping[str, str], opm_image: str = "") -> str:
    """Build a catalog's image from its files and push it; return the image by its digest.

    It is based on the public image of `opm`, or, if that cannot be reached, on one built here.
    """
    folder = _write(
        ref, {f"catalog/{path}": text for path, text in files.items()}, catalog.dockerfile()
    )
    opm_image = opm_image or _opm_image()
    with step(f"Catalog {ref}") as work:
        _build(work, ref, folder, OPM_IMAGE=opm_image)
    return pinned(ref)


def catalog_with(release: Release) -> dict[str, str]:
    """Return the files of the catalog in git with a release, which replaces the same version."""
    released = map(catalog.file, catalog.known())
    return {
        **{file: (catalog.CATALOG / file).read_text() for file in released},
        **catalog.with_release(release),
    }


def _opm_image() -> str:
    if public_images.are_in_reach():
        return public_images.pull(catalog.OPM_IMAGE)
    targets = dockerfiles.requested()
    if not targets:
        return olm.image()
    return tools.builder("opm's image cannot be pulled:").image("opm", targets=targets)


def _build(work: Step, ref: str, folder: Path, **arguments: str) -> None:
    """Build and push an image for this machine, or for the platforms in PLATFORMS."""
    targets = dockerfiles.requested()
    dockerfiles.build(work, ref, folder, folder / "Dockerfile", targets, **arguments)
    dockerfiles.push(work, ref, targets)


def _write(ref: str, files: Mapping[str, str], dockerfile: str) -> Path:
    """Write the files of an image's build into a new folder; return the folder."""
    folder = _BUILD / ref.replace("/", "_").replace(":", "_")
    shutil.rmtree(folder, ignore_errors=True)
    for path, text in {**files, "Dockerfile": dockerfile}.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder
