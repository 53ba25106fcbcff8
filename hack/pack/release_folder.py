"""The folder that is handed in to community-operators, as that repository has it.

`make release-bundle` lays it out: operators/<name>/ with the images by digest, and beside it the
Dockerfile of the bundle's image.
"""

import shutil
from pathlib import Path

import yaml

from hack.pack import bundle, catalog, rules
from hack.pack.bundle import NAME, Manifest, Release
from hack.pack.rules import submission, validators

TEMPLATE = "basic.yaml"


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
    """Return release-config.yaml: it adds the release to the channels that it becomes the head of.

    The pipeline can add entries only at the head. It cannot put a fix of an older minor version
    below the newest release of `stable`, but users of `stable` do not need that fix.
    """
    entries = [
        {
            "template_name": TEMPLATE,
            "channels": [channel["name"]],
            **{key: value for key, value in channel["entries"][-1].items() if key != "name"},
        }
        for channel in catalog.channels([*_before(release), release.version])
        if channel["entries"][-1]["name"] == release.name
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
            catalog.package([*before, release.version]),
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
