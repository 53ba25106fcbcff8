"""The folder to submit to community-operators, in that repository's layout.

`release bundle` writes it: operators/<name>/ with the images by digest, and beside it the
Dockerfile of the bundle's image.
"""

import shutil
from pathlib import Path

import yaml

from kopf_kit.pack import bundle, catalog, rules
from kopf_kit.pack.bundle import NAME, Manifest, Release
from kopf_kit.pack.rules import findings, submission

TEMPLATE = "basic.yaml"


def lay_out(release: Release, folder: Path) -> Path:
    """Write everything into a folder, whose contents are replaced; return the operator's folder."""
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
    """Return the earlier released versions."""
    return [version for version in catalog.known() if version != release.version]


def _release_config(release: Release) -> Manifest:
    """Return release-config.yaml, which adds the release at the head of channels.

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
    """Return the catalog before the release, as a template for `opm alpha render-template`."""
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
    """Return a sentence for each mistake in the folder."""
    scratch = operator.parents[1] / "catalog"
    shutil.copytree(catalog.CATALOG, scratch)
    for path, text in catalog.with_release(release).items():
        (scratch / path).write_text(text)
    try:
        found = rules.problems(operator / release.version, scratch, released=True)
    finally:
        shutil.rmtree(scratch)
    found += findings(operator / release.version)
    return found + list(submission.problems(operator))
