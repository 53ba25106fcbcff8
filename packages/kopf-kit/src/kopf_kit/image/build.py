"""Builds and pushes the operator's image, for `kopf-kit image build`, the demo and the tests.

IMG is its name; the default is this version's name in the local registry. It is built for this
machine's platform, or for those that PLATFORMS lists.
"""

import os
import re
from pathlib import Path

from kopf_kit.image import dockerfile, started
from kopf_kit.image.references import check_form
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import dockerfiles, engine, paths, public_images, reading, registry
from kopf_kit.rig.run import KitError, answer
from kopf_kit.rig.steps import say, step


def reference() -> str:
    """Return the name by which the cluster pulls the image; raise KitError if IMG is invalid."""
    given = os.environ.get("IMG")
    default = f"{registry.ADDRESS}/{PROJECT.name}:{PROJECT.version}"
    return check_form(given, "IMG") if given else default


def build(ref: str | None = None, file: Path | None = None, *, revision: str | None = None) -> str:
    """Build the image, or that of another Dockerfile, in its folder; return its name.

    Its label has the revision, by default the commit that is checked out. That of an adopted
    operator is started once; raise KitError if it lacks something.
    """
    ref = ref or reference()
    names = dockerfiles.requested()
    public_images.choice()
    engine.up()
    of_operator = file is None
    context = file.parent if file else dockerfile.context()
    file = file or dockerfile.file()
    arguments = {"VERSION": PROJECT.version, "REVISION": revision or _revision()}
    if public_images.are_in_reach():
        for base in public_bases(file):
            public_images.pull(base)
    else:
        arguments["BUILD_BASE"], arguments["RUNTIME_BASE"] = dockerfiles.python(names)
    with step(f"Image {ref}") as work:
        dockerfiles.build(work, ref, context, file, names, **arguments)
    if of_operator:
        _start(ref, names)
    return ref


def _start(ref: str, names: tuple[str, ...]) -> None:
    """Start the image once, or of several platforms that of this machine's."""
    image = dockerfiles.images(ref, names).get(dockerfiles.host()) if names else ref
    if image:
        started.check(image)
    else:
        say(f"{ref} was not started: it is for other machines than this one")


def push(ref: str | None = None) -> str:
    """Push the image and return its name; start the local registry if the image belongs there."""
    ref = ref or reference()
    names = dockerfiles.requested()
    public_images.choice()
    engine.up()
    for image in list(dockerfiles.images(ref, names).values()) or [ref]:
        if not engine.has_image(image):
            how = f"IMG={ref}" + (f" PLATFORMS={','.join(names)}" if names else "")
            raise KitError(f"{image} is not built here; `{how} kopf-kit image build` builds it")
    if registry.is_local(ref):
        registry.up()
    with step(f"Push {ref}") as work:
        dockerfiles.push(work, ref, names)
    return ref


def public_bases(file: Path = dockerfile.SHARED) -> list[str]:
    """Return a Dockerfile's default base images."""
    text = reading.text(file)
    return re.findall(r"^ARG \w+_BASE=(\S+)$", text, re.MULTILINE)


def _revision() -> str:
    """Return the current commit, for the image's label."""
    return answer(["git", "-C", paths.CHECKOUT, "rev-parse", "HEAD"]) or "unknown"
