"""`make release-bundle`: what is handed in to community-operators, in build/release/.

    make release-bundle VERSION=0.1.0 IMG=…@sha256:… MESSAGE_IMG=…@sha256:…

lays out operators/message-operator/ as that repository has it, with the images by digest, and runs
the pipeline's rules over it. Beside it lies the Dockerfile of the bundle's image. Once that is
pushed, the same with BUNDLE_IMG=…@sha256:… records the release in catalog/, where it stays.
"""

import os
import re
import shutil
from pathlib import Path

import yaml

from hack.pack import bundle, catalog, rules
from hack.pack.bundle import NAME, Manifest, Release
from hack.pack.rules import submission, validators
from hack.rig import paths
from hack.rig.run import HackError
from hack.rig.steps import say
from message_operator import __version__

FOLDER = paths.BUILD / "release"
TEMPLATE = "basic.yaml"


def run(version: str) -> None:
    """Do `make release-bundle`; raise HackError with all that is wrong."""
    release = _release(version)
    operator = lay_out(release, FOLDER)
    if found := problems(release, operator):
        raise HackError("\n".join(["the bundle cannot be released:", *found]))
    say(f"Laid out in {FOLDER.relative_to(paths.CHECKOUT)}, and no rule is broken. Next:")
    if "@" in release.bundle_image:
        file = catalog.record(release)
        say(f"  commit {file.relative_to(paths.CHECKOUT)}: the release is recorded there")
        say("  copy operators/ into a fork of k8s-operatorhub/community-operators, and ask to pull")
    else:
        say(f"  cd {FOLDER.relative_to(paths.CHECKOUT)}")
        say(f"  docker build -f bundle.Dockerfile -t {release.bundle_image} .")
        say(f"  docker push {release.bundle_image}")
        say("and the same command again with BUNDLE_IMG=…@sha256:…, which the push prints.")


def _release(version: str) -> Release:
    """Return the release that the command line names; raise HackError where it names none."""
    if not version:
        raise HackError(f"VERSION is missing: say VERSION={__version__}")
    catalog.order(version)
    if version != __version__:
        raise HackError(
            f"VERSION={version}, but what is checked out is {__version__} "
            "(operator/message_operator/__init__.py): check out the release, or raise it there"
        )
    return Release(
        version=version,
        image=_pinned("IMG"),
        message_image=_pinned("MESSAGE_IMG"),
        bundle_image=_pinned("BUNDLE_IMG", bundle.current().bundle_image),
    )


def _pinned(variable: str, default: str = "") -> str:
    """Return the image that a variable names by digest; raise HackError where it does not."""
    image = os.environ.get(variable, "")
    if not image and default:
        return default
    if not re.fullmatch(r"[^\s@]+@sha256:[0-9a-f]{64}", image):
        raise HackError(
            f"{variable}={image} has no digest: a release names its images by what they hold; "
            f"say {variable}=registry/name@sha256:…, as `docker push` prints it"
            if image
            else f"{variable} is missing: say {variable}=registry/name@sha256:…"
        )
    return image


def lay_out(release: Release, folder: Path) -> Path:
    """Write all of it into a folder, in the place of what is there; return the operator's."""
    shutil.rmtree(folder, ignore_errors=True)
    operator = folder / "operators" / NAME
    files = {
        **{f"{release.version}/{path}": text for path, text in bundle.bundle(release).items()},
        f"{release.version}/release-config.yaml": bundle.dump(_release_config(release)),
        f"catalog-templates/{TEMPLATE}": bundle.dump(_template(release)),
        "ci.yaml": (bundle.WRITTEN / "ci.yaml").read_text(),
    }
    for path, text in files.items():
        (operator / path).parent.mkdir(parents=True, exist_ok=True)
        (operator / path).write_text(text)
    where = (operator / release.version).relative_to(folder).as_posix()
    (folder / "bundle.Dockerfile").write_text(bundle.dockerfile(release, where))
    return operator


def _before(release: Release) -> list[str]:
    """Return the versions that were released before."""
    return [version for version in catalog.known() if version != release.version]


def _release_config(release: Release) -> Manifest:
    """Return what has the pipeline add the release to the catalog: the same as our own has."""
    entries = [
        {
            "template_name": TEMPLATE,
            "channels": [channel["name"]],
            **{key: value for key, value in channel["entries"][-1].items() if key != "name"},
        }
        for channel in catalog.channels([*_before(release), release.version])
        if channel["name"] in bundle.channels(release.version)
    ]
    return {"catalog_templates": entries}


def _template(release: Release) -> Manifest:
    """Return the catalog before the release, as `opm alpha render-template` takes it."""
    before = _before(release)
    images = [
        yaml.safe_load((catalog.CATALOG / catalog.file(version)).read_text())["image"]
        for version in sorted(before, key=catalog.order)
    ]
    return {
        "schema": "olm.template.basic",
        "entries": [
            catalog.package(),
            *catalog.channels(before),
            *({"schema": "olm.bundle", "image": image} for image in images),
        ],
    }


def problems(release: Release, operator: Path) -> list[str]:
    """Return what is wrong with what is laid out, a sentence each."""
    scratch = operator.parents[1] / "catalog"
    shutil.copytree(catalog.CATALOG, scratch)
    for path, text in catalog.with_release(release).items():
        (scratch / path).write_text(text)
    try:
        found = rules.problems(operator / release.version, scratch, released=True)
    finally:
        shutil.rmtree(scratch)
    found += validators.findings(operator / release.version)
    return found + list(submission.problems(operator))
