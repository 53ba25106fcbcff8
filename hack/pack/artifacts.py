"""What an installation is made of, put where the cluster pulls it from: images and the chart.

Used by `hack.commands.deploy` and the end-to-end tests. For the kind cluster everything comes from
the local registry, as it comes to a user from a public one.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from hack.pack import image, release
from hack.pack.project import PROJECT
from hack.rig import base_images, dockerfiles, paths, registry
from hack.rig.cluster import Cluster
from hack.rig.run import HackError, answer
from hack.rig.steps import step

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
    pod_images = {name: publish_pod_image(name) for name in release.current().pod_images}
    chart = _push_chart(cluster)
    options = (
        "--plain-http",
        *_image_values("image", operator_image),
        *(
            option
            for pods in PROJECT.images
            for option in _image_values(pods.values, pod_images[pods.name])
        ),
    )
    return Published(chart, options, operator_image, pod_images)


def publish_pod_image(name: str) -> str:
    """Put one of the images of PROJECT, as the chart names it, into the local registry."""
    (wanted,) = (pods for pods in PROJECT.images if pods.name == name)
    return base_images.publish(release.current().pod_images[name], wanted.packages)


def pinned(ref: str) -> str:
    """Return an image that was pushed from here by its digest; as it is where none is known.

    A tag that was pushed again would not be pulled again. Raises HackError where the local
    registry does not answer.
    """
    if "@" in ref:
        return ref
    if registry.is_local(ref):
        digest = registry.digest(ref.removeprefix(f"{registry.ADDRESS}/"))
        return f"{ref.rpartition(':')[0]}@{digest}" if digest else ref
    if index := dockerfiles.pushed_index(ref):
        return index
    digests = answer(["docker", "image", "inspect", "-f", '{{join .RepoDigests "\\n"}}', ref]) or ""
    repository = ref.rpartition(":")[0]
    return next((d for d in digests.splitlines() if d.startswith(f"{repository}@")), ref)


def _given_image(ref: str) -> str:
    """Return the image that IMG names, by its digest where the local registry has it."""
    _image_values("image", ref)
    host, _, name = ref.partition("/")
    if host != registry.ADDRESS or "@" in name:
        return ref
    digest = registry.digest(name if ":" in name else f"{name}:latest")
    if digest is None:
        raise HackError(
            f"IMG={ref} is not in the local registry; `make docker-build docker-push IMG={ref}` "
            "puts it there, and without IMG the image is built here"
        )
    return f"{host}/{name.partition(':')[0]}@{digest}"


def _image_values(where: str, ref: str) -> tuple[str, ...]:
    """Return helm's options that set an image, given as REGISTRY/REPOSITORY[:TAG|@DIGEST]."""
    return tuple(f"--set-string={where}.{key}={part}" for key, part in image_parts(ref).items())


def image_parts(ref: str, variable: str = "IMG") -> dict[str, str]:
    """Return the chart's values for an image, given as REGISTRY/REPOSITORY[:TAG|@DIGEST].

    Raises HackError, which names the variable that it was given by, where it names no registry.
    """
    name, _, digest = ref.partition("@")
    host, _, rest = name.partition("/")
    if not rest or not (host == "localhost" or "." in host or ":" in host):
        raise HackError(
            f"{variable}={ref} names no registry; write it in full, for example "
            "docker.io/you/name:tag"
        )
    repository, _, tag = rest.partition(":")
    return {"registry": host, "repository": repository, "tag": tag, "digest": digest}


def _push_chart(cluster: Cluster) -> str:
    """Push the chart to the local registry; return its reference, by digest for the same reason."""
    collection = f"oci://{registry.ADDRESS}/charts"
    with step("Chart into the registry") as work:
        work.run([cluster.helm, "package", CHART, "--destination", paths.BUILD], timeout=60)
        package = paths.BUILD / f"{PROJECT.name}-{PROJECT.version}.tgz"
        work.run([cluster.helm, "push", package, collection, "--plain-http"], timeout=60)
    digest = registry.digest(f"charts/{PROJECT.name}:{PROJECT.version}")
    return f"{collection}/{PROJECT.name}@{digest}"
