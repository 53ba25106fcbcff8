"""What an installation is made of, put where the cluster pulls it from: images and the chart.

Used by `hack.commands.deploy` and the end-to-end tests. For the kind cluster everything comes from
the local registry, as it comes to a user from a public one.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hack.pack import chart_package, image, release
from hack.pack.project import PROJECT
from hack.pack.references import image_parts, looked_up, pinned
from hack.rig import base_images, registry
from hack.rig.cluster import Cluster

CHART = PROJECT.chart


@dataclass(frozen=True)
class Published:
    """What an installation needs: the chart, and the values that name the images."""

    chart: str
    #: Options of helm: how to reach the chart, and --set for each image.
    options: tuple[str, ...]
    #: The operator's image, by its digest where it is known; None: the one that the chart has.
    image: str | None = None
    #: The images of the Pods that it makes, by their names in PROJECT; those left out: as above.
    pod_images: Mapping[str, str] = field(default_factory=dict, hash=False)


def publish(cluster: Cluster) -> Published:
    """Put all that is installed into the local registry; build the image unless IMG names one.

    On an existing cluster nothing is published: IMG names an image that the cluster can pull,
    otherwise it pulls the release's.
    """
    given = os.environ.get("IMG")
    if cluster.registry is None:
        return Published(str(CHART), _image_values("image", given) if given else (), given)
    operator_image = _given_image(given) if given else pinned(image.push(image.build()))
    wanted = release.current().pod_images
    pod_images = {
        pods.name: base_images.publish(wanted[pods.name], pods.packages) for pods in PROJECT.images
    }
    options = (
        "--plain-http",
        *_image_values("image", operator_image),
        *(
            option
            for pods in PROJECT.images
            for option in _image_values(pods.values, pod_images[pods.name])
        ),
    )
    ours = replace(release.current(), image=operator_image, pod_images=pod_images)
    chart = chart_package.push(f"{registry.ADDRESS}/charts", ours)
    digest = registry.digest(f"charts/{PROJECT.name}:{PROJECT.version}")
    return Published(f"{chart}@{digest}", options, operator_image, pod_images)


def _given_image(ref: str) -> str:
    """Return the image that IMG names, by its digest where it is to be in the local registry."""
    image_parts(ref)
    return looked_up(ref, "IMG") if registry.is_local(ref) else ref


def _image_values(where: str, ref: str) -> tuple[str, ...]:
    """Return helm's options that set an image, given as REGISTRY/REPOSITORY[:TAG|@DIGEST]."""
    return tuple(f"--set-string={where}.{key}={part}" for key, part in image_parts(ref).items())
