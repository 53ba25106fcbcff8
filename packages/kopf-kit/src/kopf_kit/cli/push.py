"""`kopf-kit push`: pushes what users install to a registry, all of it or what the arguments name.

All images of what is pushed are in the same registry, which REGISTRY names, and are named by
digest; by default it is the one beside the kind cluster.
"""

import os
from dataclasses import replace

import click

from kopf_kit.image import build
from kopf_kit.olm import catalog
from kopf_kit.project.definition import PROJECT
from kopf_kit.project.releases import NAME, Release, current, in_registry
from kopf_kit.release import artifacts, charts
from kopf_kit.rig import dockerfiles, engine, public_images, registry
from kopf_kit.rig.run import KitError
from kopf_kit.rig.steps import say


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice(["chart", "bundle", "catalog"]))
def command(parts: tuple[str, ...]) -> None:
    """Push these parts, by default all, to REGISTRY; a catalog with the bundle that it offers."""
    chosen = set(parts or (_PARTS if PROJECT.has_olm else ["chart"]))
    if chosen != {"chart"}:
        check_olm()
    if "catalog" in chosen:
        chosen.add("bundle")
    for part in (part for part in _PARTS if part in chosen):
        print(_PARTS[part]())


@click.command()
@click.argument("action", type=click.Choice(["build", "push"]))
def image_command(action: str) -> None:
    """Build or push the operator's image (IMG=… PLATFORMS=linux/amd64,linux/arm64)."""
    print(build.build() if action == "build" else build.push())


def check_olm() -> None:
    """Raise KitError where there is nothing for OLM."""
    if not PROJECT.has_olm:
        raise KitError(
            "OLM installs from bundle and catalog, and this repository has no files of OLM; "
            "`kopf-kit new olm` adds them"
        )


def push_bundle() -> str:
    """Push the operator's images and its bundle; return the bundle's image, by its digest."""
    destination = build.prefix()
    _check_not_released(destination)
    return artifacts.push_bundle(_push_images(destination)).bundle_image


def push_catalog() -> str:
    """Push the catalog with the bundle that was pushed; return its image, by its digest."""
    destination = build.prefix()
    _check_not_released(destination)
    _check_given()
    engine.up()
    release = _pinned(_named(destination))
    if "@" not in release.bundle_image:
        raise KitError(
            f"{release.bundle_image} was not pushed from here; "
            f"`REGISTRY={destination}{PROJECT.option} kopf-kit push catalog` pushes both"
        )
    ref = f"{destination}/{NAME}-catalog:v{PROJECT.version}"
    pushed = artifacts.push_catalog(ref, artifacts.catalog_with(release))
    say(f"A CatalogSource or a ClusterCatalog takes {ref}, or, so that it stays as it is, {pushed}")
    if not registry.is_local(destination):
        say(
            "If this is a release, record it, so that the next one replaces it: "
            f"REGISTRY={destination}{PROJECT.option} kopf-kit release bundle {PROJECT.version}"
        )
    return pushed


def push_chart() -> str:
    """Push the operator's images and the charts; return its chart's name in the registry."""
    destination = build.prefix()
    chart = charts.push_chart(f"{destination}/charts", _push_images(destination))
    plain = " --plain-http" if registry.is_local(destination) else ""
    say(f"helm install {NAME} {chart} --version {PROJECT.version}{plain}")
    return chart


_PARTS = {"chart": push_chart, "bundle": push_bundle, "catalog": push_catalog}


def _check_not_released(destination: str) -> None:
    """Raise KitError where this version is recorded as a release to a registry.

    Its bundle would have another digest, and so would the catalog that is pushed with it.
    """
    released = catalog.recorded_image(PROJECT.version) or ""
    ours = in_registry(destination).bundle_image
    if registry.repository(released) == registry.repository(ours):
        raise KitError(
            f"{PROJECT.version} is released to {destination} "
            f"({catalog.file(PROJECT.version)} in catalog/ records it), and a release cannot "
            "change: raise the version (`kopf-kit bump X.Y.Z`), or push to another REGISTRY"
        )


def _push_images(destination: str) -> Release:
    """Push the images of the operator and of its Pods; return the release, with them by digest.

    IMG, and a variable such as WIDGET_IMG, name images that are in a registry already.
    """
    _check_given()
    engine.up()
    if registry.is_local(destination):
        registry.up()
    named = _named(destination)
    if "@" not in named.image:
        build.push(build.build(named.image))
    public = current().pod_images
    for pods in PROJECT.images:
        if "@" not in (name := named.pod_images[pods.name]):
            dockerfiles.copy(public[pods.name], name, pods.packages, dockerfiles.requested())
    return replace(_pinned(named), bundle_image=named.bundle_image)


def _named(destination: str) -> Release:
    """Return this version's release with the images as they are called in a registry.

    Those that variables such as IMG name are by digest.
    """
    ours = in_registry(destination)
    given = {pods.name: _given(pods.variable) for pods in PROJECT.images}
    return replace(
        ours,
        image=_given("IMG") or ours.image,
        pod_images={name: given[name] or ref for name, ref in ours.pod_images.items()},
    )


def _check_given() -> None:
    """Raise KitError where a variable is wrong, before anything is started."""
    public_images.choice()
    build.check_given("IMG", *(pods.variable for pods in PROJECT.images))


def _given(variable: str) -> str | None:
    """Return the image that a variable names, by its digest; None where it is not set."""
    ref = os.environ.get(variable)
    return build.looked_up(ref, variable) if ref else None


def _pinned(release: Release) -> Release:
    """Return a release with the digests of the images that were pushed from here."""
    return replace(
        release,
        image=build.pinned(release.image),
        pod_images={name: build.pinned(ref) for name, ref in release.pod_images.items()},
        bundle_image=build.pinned(release.bundle_image),
    )
