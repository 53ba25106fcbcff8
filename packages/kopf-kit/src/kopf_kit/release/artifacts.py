"""The images of a release or of an installation: given, found by digest, or built and pushed."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from kopf_kit.image import build
from kopf_kit.image.build import image_parts, looked_up, pinned
from kopf_kit.olm import bundle, catalog
from kopf_kit.project import releases
from kopf_kit.project.definition import PROJECT, Image
from kopf_kit.project.releases import NAME, Release, current, in_registry
from kopf_kit.release import charts
from kopf_kit.rig import dockerfiles, engine, olm, paths, public_images, registry, tools
from kopf_kit.rig.cluster import Cluster
from kopf_kit.rig.run import KitError
from kopf_kit.rig.steps import Step, step

CHART = PROJECT.chart


@dataclass(frozen=True)
class Published:
    """The parts of an installation: the chart, and the values that name the images."""

    chart: str
    #: Options for helm: how to reach the chart, and --set for each image.
    options: tuple[str, ...]
    #: The operator's image, by its digest if that is known; None means the chart's default.
    image: str | None = None
    #: The images of the operator's Pods, by their names in PROJECT; those missing are the default.
    pod_images: Mapping[str, str] = field(default_factory=dict, hash=False)


def publish_installation(cluster: Cluster) -> Published:
    """Push everything to the local registry; build the operator's image unless IMG names one.

    For an existing cluster nothing is published: it pulls the images in IMG and in a variable such
    as WIDGET_IMG, or else the release's.
    """
    given = os.environ.get("IMG")
    if cluster.registry is None:
        refs = {pods.name: ref for pods in PROJECT.images if (ref := os.environ.get(pods.variable))}
        return Published(str(CHART), options(given, refs), given, refs)
    operator_image = _given_image(given) if given else pinned(build.push(build.build()))
    wanted = releases.current().pod_images
    pod_images = {
        pods.name: dockerfiles.publish(wanted[pods.name], pods.packages) for pods in PROJECT.images
    }
    flags = ("--plain-http", *options(operator_image, pod_images))
    ours = replace(releases.current(), image=operator_image, pod_images=pod_images)
    chart = charts.push_chart(f"{registry.ADDRESS}/charts", ours)
    digest = registry.local_digest(f"charts/{PROJECT.name}:{PROJECT.version}")
    return Published(f"{chart}@{digest}", flags, operator_image, pod_images)


def _given_image(ref: str) -> str:
    """Return the image in IMG, by its digest if it should be in the local registry."""
    image_parts(ref)
    return looked_up(ref, "IMG") if registry.is_local(ref) else ref


def options(image: str | None, pod_images: Mapping[str, str]) -> tuple[str, ...]:
    """Return helm's options to set these images, given as REGISTRY/REPOSITORY[:TAG|@DIGEST]."""
    refs = {"image": image} | {pod.values: pod_images.get(pod.name) for pod in PROJECT.images}
    return tuple(
        f"--set-string={where}.{key}={part}"
        for where, ref in refs.items()
        if ref
        for key, part in image_parts(ref).items()
    )


_REVISION = "org.opencontainers.image.revision"


def check() -> None:
    """Raise KitError where an image would lack a platform that the bundle and chart promise."""
    requested, promised = dockerfiles.requested(), " and ".join(dockerfiles.SUPPORTED)
    if requested and set(requested) != set(dockerfiles.SUPPORTED):
        raise KitError(
            f"PLATFORMS={','.join(requested)}: a release has images for {promised}, as its bundle "
            "promises; leave PLATFORMS out"
        )
    pods = (pod.variable for pod in PROJECT.images)
    for variable in ("IMG", *pods, "BUNDLE_IMG", "CATALOG_IMG"):
        given = _given(variable)
        if given and not set(dockerfiles.SUPPORTED) <= registry.platforms(given).keys():
            raise KitError(
                f"{variable}={os.environ[variable]} is not for {promised}, as the bundle promises "
                f"of all images; push one for both, or leave {variable} out"
            )


def publish(destination: str, date: datetime) -> Release:
    """Put the images of the operator and of its Pods into a registry; return them by digest.

    IMG, and a variable such as WIDGET_IMG, name images that are in a registry already.
    """
    os.environ["PLATFORMS"] = ",".join(dockerfiles.SUPPORTED)
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
        layer.write(registry.archive(files, date))
        layer.flush()
        pushed = registry.push_for(
            dockerfiles.SUPPORTED,
            Path(layer.name),
            release.bundle_image,
            bundle.annotations(release),
        )
    return replace(release, bundle_image=pushed)


def publish_catalog(release: Release, destination: str) -> str:
    """Push the catalog with a release, unless CATALOG_IMG names it; return it by its digest."""
    if given := _given("CATALOG_IMG"):
        return given
    ref = f"{destination}/{NAME}-catalog:v{release.version}"
    files = catalog_with(release)
    if existing := registry.pinned(ref):
        held = registry.files(existing, "configs/")
        if held != {path: text.encode() for path, text in files.items()}:
            raise KitError(
                f"{ref} is in the registry already with other content; raise the version, or "
                "delete that image if nobody uses it yet"
            )
        return existing
    engine.up()
    return _pushed(ref, push_catalog(ref, files))


def _given(variable: str) -> str | None:
    """Return the image that a variable names, by its digest; None where it is not set."""
    if not (ref := os.environ.get(variable)):
        return None
    build.image_parts(ref, variable)
    if pinned := registry.pinned(ref):
        return pinned
    raise KitError(
        f"{variable}={ref} is not in its registry; push it first, or leave {variable} out"
    )


def _built(ref: str, date: datetime) -> str:
    """Return the operator's image; raise KitError where another source's has its name.

    Its name comes last: an image that has it is complete, and is dated as its sources.
    """
    if existing := registry.pinned(ref):
        revision = registry.labels(existing).get(_REVISION, "")
        if not releases.is_same(revision):
            of = revision[:12] or "it does not say which"
            raise KitError(
                f"{ref} is in the registry already, built from another commit ({of}); raise the "
                "version"
            )
        return existing
    build.build(ref, revision=releases.commit())
    names = dockerfiles.images(ref, dockerfiles.requested()).values()
    with step(f"Push {ref}") as work:
        for name in names:
            dockerfiles.push(work, name)
        return registry.push_index([registry.date(name, date) for name in names], ref)


def _copied(pods: Image, public: str, destination: str) -> str:
    """Return the image of Pods in the registry of the release."""
    ref = in_registry(destination).pod_images[pods.name]
    if existing := registry.pinned(ref):
        return existing
    engine.up()
    dockerfiles.copy(public, ref, pods.packages, dockerfiles.requested())
    return _pushed(ref, ref)


def _pushed(ref: str, printed: str) -> str:
    if pinned := registry.pinned(printed):
        return pinned
    raise KitError(f"{ref} was pushed, and the registry does not have it; run the command again")


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
