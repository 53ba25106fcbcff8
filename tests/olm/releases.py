"""The releases that the tests install, as bundle and catalog images in the local registry.

Each is made by the project's own generator, of the operator's real image; the bundle and the
catalog are pulled as a user's cluster pulls them, so that OLM unpacks them by its Job.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from hack.pack import artifacts, bundle, catalog
from hack.pack.bundle import Release
from hack.rig import olm, paths, registry
from hack.rig.steps import step
from message_operator import __version__

#: The release before this one, this one, and some that come later.
FORMER, PRESENT, STRICT, BROKEN, MENDED = "0.0.9", __version__, "98.0.0", "99.0.0", "99.0.1"

_BUILD = paths.BUILD / "olm"
_CRD = "manifests/myorg.dev_messages.yaml"


def publish_bundle(
    version: str, image: str, message_image: str, *, longest: int | None = None
) -> Release:
    """Put a release's bundle image into the registry; return the release, which names it.

    With `longest`, its CRD takes no text that has more characters.
    """
    ref = f"{registry.ADDRESS}/message-operator-bundle:v{version}"
    release = Release(version, image, message_image, ref)
    files = bundle.bundle(release)
    if longest is not None:
        definition = yaml.safe_load(files[_CRD])
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema["properties"]["spec"]["properties"]["text"]["maxLength"] = longest
        files[_CRD] = bundle.dump(definition)
    folder = _write(
        f"bundle-{version}",
        {f"bundle/{path}": text for path, text in files.items()},
        bundle.dockerfile(release),
    )
    with step(f"Bundle {version} into the registry") as work:
        olm.build(work, ref, folder)
    return replace(release, bundle_image=artifacts.pinned(ref))


def publish_catalog(releases: Sequence[Release], programs: str, tag: str = "") -> str:
    """Put a catalog image with these releases into the registry; return its name, by digest.

    `programs` is the image that has `opm`.
    """
    tag = tag or "-".join(release.version for release in releases)
    ref = f"{registry.ADDRESS}/message-operator-catalog:{tag}"
    folder = _write(
        f"catalog-{tag}",
        {f"catalog/{path}": text for path, text in catalog.catalog(releases).items()},
        catalog.dockerfile(),
    )
    with step(f"Catalog with {', '.join(r.version for r in releases)} into the registry") as work:
        olm.build(work, ref, folder, OPM_IMAGE=programs)
    return artifacts.pinned(ref)


def _write(name: str, files: dict[str, str], dockerfile: str) -> Path:
    """Write the files that an image is built of; return their folder."""
    folder = _BUILD / name
    for path, text in {**files, "Dockerfile": dockerfile}.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder
