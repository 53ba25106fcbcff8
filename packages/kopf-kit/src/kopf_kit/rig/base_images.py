"""The base images of the operator's image, and BusyBox for Pods.

If an image registry can be reached, these are public images, otherwise `kopf_kit.rig.offline` has
similar ones. Used by `kopf_kit.pack.image`, and by everything that runs BusyBox in Pods: the demo,
the end-to-end tests, OLM.
"""

from collections.abc import Sequence

from kopf_kit.rig import cache, dockerfiles, engine, offline, platforms, public_images, registry
from kopf_kit.rig.steps import step


def python(targets: Sequence[str] = ()) -> tuple[str, str]:
    """Return the names of built base images for building and for running the operator.

    The second is for this machine only, or for this machine and the named platforms.
    """
    builder = offline.builder("the base images of the operator's image cannot be pulled:")
    return builder.image("python-build"), builder.image("python-runtime", targets=targets)


def busybox() -> str:
    """Make sure that the local registry has BusyBox; return the image's name."""
    return publish(public_images.BUSYBOX)


def publish(reference: str, packages: Sequence[str] = ()) -> str:
    """Make sure that the local registry has a public image, see `copy`; return its name there.

    Another digest or other packages make another image, so its name tells them apart.
    """
    tag, *digest = reference.rpartition("/")[2].split("@")
    if made_of := [*digest, *packages]:
        tag += f"-{cache.digest(*made_of)}"
    name = f"{registry.ADDRESS}/{tag}"
    registry.up()
    if not registry.has(tag):
        copy(reference, name, packages)
    return name


def copy(
    reference: str, name: str, packages: Sequence[str] = (), targets: Sequence[str] = ()
) -> None:
    """Push a public image under another name: for this machine, or as an index of platforms.

    If it cannot be pulled, it is built from these Debian packages; BusyBox needs none.
    """
    if public := public_images.are_in_reach():
        source = reference
    else:
        lacks = f"{reference} cannot be pulled:"
        source = offline.builder(lacks).image(reference, packages, targets)
    with step(f"Push {name}") as work:
        if targets:
            listed = dockerfiles.listed(source)
            for platform, tag in platforms.images(name, targets).items():
                work.run(["docker", "pull", "--platform", platform, listed[platform]], timeout=600)
                engine.docker("tag", listed[platform], tag)
        else:
            engine.docker("tag", public_images.pull(source) if public else source, name)
        dockerfiles.push(work, name, targets)
