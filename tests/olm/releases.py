"""The releases that the tests install, as bundle and catalog images in the local registry.

Each is made by the project's own generator, of the operator's real image; the bundle and the
catalog are pulled as a user's cluster pulls them, so that OLM unpacks them by its Job.
"""

from collections.abc import Sequence

import yaml

from hack.pack import bundle, catalog, olm_images
from hack.pack.bundle import Release
from hack.rig import registry
from message_operator import __version__

#: The release before this one, this one, and some that come later.
FORMER, PRESENT, STRICT, BROKEN, MENDED = "0.0.9", __version__, "98.0.0", "99.0.0", "99.0.1"

_CRD = "manifests/myorg.dev_messages.yaml"


def publish_bundle(
    version: str, image: str, message_image: str, *, longest: int | None = None
) -> Release:
    """Put a release's bundle image into the registry; return the release, which names it.

    With `longest`, its CRD takes no text that has more characters.
    """
    ref = f"{registry.ADDRESS}/message-operator-bundle:v{version}"
    release = Release(version, image, {"message": message_image}, ref)
    files = bundle.bundle(release)
    if longest is not None:
        definition = yaml.safe_load(files[_CRD])
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema["properties"]["spec"]["properties"]["text"]["maxLength"] = longest
        files[_CRD] = bundle.dump(definition)
    return olm_images.push_bundle(release, files)


def publish_catalog(releases: Sequence[Release], programs: str, tag: str = "") -> str:
    """Put a catalog image with these releases into the registry; return its name, by digest.

    `programs` is the image that has `opm`.
    """
    tag = tag or "-".join(release.version for release in releases)
    ref = f"{registry.ADDRESS}/message-operator-catalog:{tag}"
    return olm_images.push_catalog(ref, catalog.catalog(releases), programs)
