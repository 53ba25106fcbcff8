"""Publishes the images and the chart of an installation where the cluster can pull them.

Used by `kopf_kit.commands.deploy` and the end-to-end tests. The kind cluster pulls everything from
the local registry, as a user does from a public one.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kopf_kit.pack import chart_package, image, release
from kopf_kit.pack.project import PROJECT
from kopf_kit.pack.references import image_parts, looked_up, pinned
from kopf_kit.rig import base_images, registry
from kopf_kit.rig.cluster import Cluster

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


def publish(cluster: Cluster) -> Published:
    """Push everything to the local registry; build the operator's image unless IMG names one.

    For an existing cluster nothing is published: it pulls the images in IMG and in a variable such
    as WIDGET_IMG, or else the release's.
    """
    given = os.environ.get("IMG")
    if cluster.registry is None:
        refs = {pods.name: ref for pods in PROJECT.images if (ref := os.environ.get(pods.variable))}
        return Published(str(CHART), _options(given, refs), given, refs)
    operator_image = _given_image(given) if given else pinned(image.push(image.build()))
    wanted = release.current().pod_images
    pod_images = {
        pods.name: base_images.publish(wanted[pods.name], pods.packages) for pods in PROJECT.images
    }
    options = ("--plain-http", *_options(operator_image, pod_images))
    ours = replace(release.current(), image=operator_image, pod_images=pod_images)
    chart = chart_package.push(f"{registry.ADDRESS}/charts", ours)
    digest = registry.digest(f"charts/{PROJECT.name}:{PROJECT.version}")
    return Published(f"{chart}@{digest}", options, operator_image, pod_images)


def _given_image(ref: str) -> str:
    """Return the image in IMG, by its digest if it should be in the local registry."""
    image_parts(ref)
    return looked_up(ref, "IMG") if registry.is_local(ref) else ref


def _options(image: str | None, pod_images: Mapping[str, str]) -> tuple[str, ...]:
    """Return helm's options to set these images."""
    refs = {pods.values: pod_images.get(pods.name) for pods in PROJECT.images}
    named = {"image": image, **refs}.items()
    return tuple(option for where, ref in named if ref for option in _image_values(where, ref))


def _image_values(where: str, ref: str) -> tuple[str, ...]:
    """Return helm's options to set an image, given as REGISTRY/REPOSITORY[:TAG|@DIGEST]."""
    return tuple(f"--set-string={where}.{key}={part}" for key, part in image_parts(ref).items())
