"""`kopf-kit release bundle`: lays out what the two hubs of operators take, in build/release/.

    IMG=…@sha256:… WIDGET_IMG=…@sha256:… kopf-kit release bundle 0.1.0

writes operators/widget-operator/ in the layout of each hub's repository, with the images by
digest, and checks the pipelines' rules. The Dockerfile of the bundle's image is written beside
them. After you push that image, the same command with BUNDLE_IMG=…@sha256:… records the release in
catalog/, where it stays.

    REGISTRY=registry.example.com/you kopf-kit release bundle 0.1.0

does both for the images that `kopf-kit push` pushed to a registry, and looks up their digests.
"""

import os
import re

import click

from kopf_kit.pack import catalog, references
from kopf_kit.pack.project import PROJECT
from kopf_kit.pack.release import Release, current, in_registry
from kopf_kit.pack.release_folder import HUBS, lay_out, problems
from kopf_kit.rig import engine, paths
from kopf_kit.rig.run import HackError
from kopf_kit.rig.steps import say

FOLDER = paths.BUILD / "release"


@click.command()
@click.argument("version")
def command(version: str) -> None:
    """Lay out what the hubs of operators take, and record the release in catalog/."""
    lay_out_release(version)


def lay_out_release(version: str) -> None:
    """Run `kopf-kit release bundle`; raise HackError with everything that is wrong."""
    release = _release(version)
    if mistakes := problems(release, lay_out(release, FOLDER)):
        raise HackError("\n".join(["the bundle cannot be released:", *mistakes]))
    say(f"Laid out in {FOLDER.relative_to(paths.CHECKOUT)}, and no rule is broken. Next:")
    if "@" in release.bundle_image:
        file = catalog.record(release)
        say(f"  commit {file.relative_to(paths.CHECKOUT)}: the release is recorded there")
        say("and, to offer it on OperatorHub.io and on OpenShift:")
        for hub, repository in HUBS.items():
            say(
                f"  copy {hub}/operators into a fork of {repository}, and open a pull request there"
            )
    else:
        say(f"  cd {FOLDER.relative_to(paths.CHECKOUT)}")
        say(f"  docker build -f bundle.Dockerfile -t {release.bundle_image} .")
        say(f"  docker push {release.bundle_image}")
        say("and the same command again with BUNDLE_IMG=…@sha256:…, which the push prints.")


def _release(version: str) -> Release:
    """Return the release that the command line names; raise HackError if it names none."""
    if not version:
        raise HackError(
            f"the version is missing; give the one that is checked out, {PROJECT.version}"
        )
    catalog.order(version)
    if version != PROJECT.version:
        raise HackError(
            f"{version} is to be released, but what is checked out is {PROJECT.version}: check it "
            f"out, or raise the version (`kopf-kit bump {version}`)"
        )
    catalog.check_records(version)
    if os.environ.get("REGISTRY"):
        references.check_given("IMG", "BUNDLE_IMG", *(pods.variable for pods in PROJECT.images))
        engine.up()
        pushed = in_registry(references.prefix())
        return Release(
            version=version,
            image=_looked_up("IMG", pushed.image),
            pod_images={
                pods.name: _looked_up(pods.variable, pushed.pod_images[pods.name])
                for pods in PROJECT.images
            },
            bundle_image=_looked_up("BUNDLE_IMG", pushed.bundle_image),
        )
    return Release(
        version=version,
        image=_pinned("IMG"),
        pod_images={image.name: _pinned(image.variable) for image in PROJECT.images},
        bundle_image=_pinned("BUNDLE_IMG", current().bundle_image),
    )


def _looked_up(variable: str, pushed: str) -> str:
    """Return the image that a variable names, or else the pushed one, by its digest."""
    return references.looked_up(os.environ.get(variable) or pushed, variable)


def _pinned(variable: str, default: str = "") -> str:
    """Return the image in a variable; raise HackError if it is not named by digest."""
    image = os.environ.get(variable, "")
    if not image and default:
        return default
    if image:
        references.check_form(image, variable)
    if not re.fullmatch(r"[^\s@]+@sha256:[0-9a-f]{64}", image):
        raise HackError(
            f"{variable}={image} has no digest; set {variable}=registry/name@sha256:…, as "
            "`docker push` prints it"
            if image
            else f"{variable} is missing; set {variable}=registry/name@sha256:…"
        )
    return image
