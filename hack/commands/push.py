"""`make bundle-push`, `catalog-push` and `chart-push`: what users install, in a registry.

All images of what is pushed are in the same registry, which REGISTRY names, and are named by
digest; by default it is the one beside the kind cluster.
"""

import os
import re
from dataclasses import replace

from hack.commands import Subparsers
from hack.pack import chart_package, image, olm_images
from hack.pack.artifacts import image_parts, pinned, publish_pod_image
from hack.pack.bundle import NAME, Release, current
from hack.pack.project import PROJECT
from hack.rig import engine, registry
from hack.rig.run import HackError
from hack.rig.steps import say, step

_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_HOST = r"(?:localhost|[a-z0-9-]+(?:\.[a-z0-9-]+)+|[a-z0-9-]+(?=:))(?::\d+)?"
_REGISTRY = re.compile(rf"{_HOST}(?:/{_PART})*")


def add(commands: Subparsers) -> None:
    """Add the commands to the command line."""
    for name, run, text in (
        ("bundle-push", push_bundle, "push the images of the operator and of its OLM bundle"),
        ("catalog-push", push_catalog, "push the catalog with the bundle that was pushed"),
        ("chart-push", push_chart, "push the operator's image, and the charts with it"),
    ):
        parser = commands.add_parser(name, help=f"{text} (REGISTRY=…)")
        parser.set_defaults(run=lambda _, run=run: print(run()))


def push_bundle() -> str:
    """Do `make bundle-push`; return the bundle's image, by its digest."""
    return olm_images.push_bundle(_push_images(prefix())).bundle_image


def push_catalog() -> str:
    """Do `make catalog-push`; return the catalog's image, by its digest."""
    destination = prefix()
    engine.up()
    named = _named(destination)
    bundle_image = pinned(named.bundle_image)
    if "@" not in bundle_image:
        raise HackError(
            f"{bundle_image} was not pushed from here; "
            f"`make bundle-push catalog-push REGISTRY={destination}` pushes both"
        )
    release = replace(
        _pinned(named),
        bundle_image=bundle_image,
    )
    ref = f"{destination}/{NAME}-catalog:v{PROJECT.version}"
    pushed = olm_images.push_catalog(ref, olm_images.catalog_with(release))
    say(f"A CatalogSource or a ClusterCatalog takes {ref}, or, so that it stays as it is, {pushed}")
    return pushed


def push_chart() -> str:
    """Do `make chart-push`; return how the operator's chart is called in the registry."""
    destination = prefix()
    chart = chart_package.push(f"{destination}/charts", _push_images(destination))
    plain = " --plain-http" if registry.is_local(destination) else ""
    say(f"helm install {NAME} {chart} --version {PROJECT.version}{plain}")
    return chart


def prefix() -> str:
    """Return what REGISTRY names, host[:port][/path]; raise HackError where that is none."""
    given = os.environ.get("REGISTRY") or registry.ADDRESS
    name = given.rstrip("/")
    if not _REGISTRY.fullmatch(name):
        raise HackError(
            f"REGISTRY={given} is not a valid registry; use host[:port][/path] in lower case, "
            "without https:// and without a tag, for example REGISTRY=registry.example.com/you"
        )
    return name


def _named(destination: str) -> Release:
    """Return this version's release, with the images as they are called in a registry."""
    shipped = current().pod_images
    return Release(
        version=PROJECT.version,
        image=os.environ.get("IMG") or f"{destination}/{NAME}:{PROJECT.version}",
        pod_images={
            pods.name: os.environ.get(pods.variable) or f"{destination}/{_last(shipped[pods.name])}"
            for pods in PROJECT.images
        },
        bundle_image=f"{destination}/{NAME}-bundle:v{PROJECT.version}",
    )


def _copy(source: str, target: str) -> None:
    """Copy an image from the local registry to another name or registry."""
    if source == target:
        return
    with step(f"Push {target}") as work:
        work.run(["docker", "pull", source], timeout=600)
        work.run(["docker", "tag", source, target], timeout=60)
        work.run(["docker", "push", target], timeout=600)


def _push_images(destination: str) -> Release:
    """Push the images of the operator and of its Pods; return the release, with them by digest.

    IMG and such as MESSAGE_IMG name images that are in a registry already.
    """
    engine.up()
    if registry.is_local(destination):
        registry.up()
    named = _named(destination)
    if os.environ.get("IMG"):
        image_parts(named.image)
    else:
        image.push(image.build(named.image))
    for pods in PROJECT.images:
        ref = named.pod_images[pods.name]
        if os.environ.get(pods.variable):
            image_parts(ref, pods.variable)
        else:
            _copy(publish_pod_image(pods.name), ref)
    return _pinned(named)


def _pinned(release: Release) -> Release:
    """Return a release with its images, but for the bundle's, by digest."""
    pod_images = {name: pinned(ref) for name, ref in release.pod_images.items()}
    return replace(release, image=pinned(release.image), pod_images=pod_images)


def _last(ref: str) -> str:
    """Return the last part of an image's name, such as `busybox:1.37`."""
    return ref.rpartition("/")[2]
