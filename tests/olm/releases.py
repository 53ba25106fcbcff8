"""The releases that the tests install, as bundle and catalog images in the local registry.

Each is made by the project's own generator, of the operator's real image; the bundle and the
catalog are pulled as a user's cluster pulls them, so that OLM unpacks them by its Job.
"""

from collections.abc import Callable, Mapping, Sequence

from kopf_kit.chart.templates import Manifest
from kopf_kit.olm import bundle, catalog
from kopf_kit.project import documents
from kopf_kit.project.definition import PROJECT
from kopf_kit.project.releases import Release
from kopf_kit.release import artifacts
from kopf_kit.rig import registry

#: The release before this one, this one, and some that come later.
FORMER, PRESENT, STRICT, BROKEN, MENDED = "0.0.9", PROJECT.version, "98.0.0", "99.0.0", "99.0.1"
#: What an author writes who wants to have nobody stay with the former one.
DEPRECATED = f"""\
schema: olm.deprecations
package: {PROJECT.name}
entries:
  - reference: {{schema: olm.bundle, name: {PROJECT.name}.v{FORMER}}}
    message: It loses texts.
"""


def publish_bundle(
    version: str,
    image: str,
    pod_images: Mapping[str, str],
    *,
    alter: Callable[[Manifest], None] | None = None,
) -> Release:
    """Put a release's bundle image into the registry; return the release, which names it.

    `pod_images` are those of the operator's Pods, by their names in PROJECT. `alter` changes the
    CRD of the first kind.
    """
    ref = f"{registry.ADDRESS}/{PROJECT.name}-bundle:v{version}"
    release = Release(version, image, dict(pod_images), ref)
    files = bundle.bundle(release)
    if alter is not None:
        kind = PROJECT.kinds[0]
        path = f"manifests/{kind.qualified_group}_{kind.plural}.yaml"
        definition = documents.load(files[path])
        alter(definition)
        files[path] = documents.text(definition)
    return artifacts.push_bundle(release, files)


def publish_catalog(
    releases: Sequence[Release], programs: str, tag: str = "", deprecations: str = ""
) -> str:
    """Put a catalog image with these releases into the registry; return its name, by digest.

    `programs` is the image that has `opm`, and `deprecations` the text of deprecations.yaml.
    """
    tag = tag or "-".join(release.version for release in releases)
    ref = f"{registry.ADDRESS}/{PROJECT.name}-catalog:{tag}"
    files = catalog.catalog(releases) | {catalog.DEPRECATIONS.name: deprecations}
    return artifacts.push_catalog(ref, files, programs)
