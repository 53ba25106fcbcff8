"""The chart of a release: packed the same from the same sources, and pushed."""

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from kopf_kit.image.build import image_parts
from kopf_kit.project import releases
from kopf_kit.project.definition import PROJECT
from kopf_kit.project.releases import Release
from kopf_kit.rig import paths, registry, tools
from kopf_kit.rig.run import KitError, output
from kopf_kit.rig.steps import step

_FOLDER = paths.BUILD / "chart"


def push_chart(collection: str, release: Release) -> str:
    """Push the chart, with a release's images, to a collection such as localhost:5001/charts.

    Return its name there: oci://localhost:5001/charts/widget-operator.
    """
    plain = ("--plain-http",) if registry.is_local(collection) else ()
    helm, chart = tools.path("helm"), write(_FOLDER, release, collection)
    with step(f"Chart {chart.name} into oci://{collection}") as work:
        work.run([helm, "package", chart, "--destination", _FOLDER], timeout=60)
        package = _FOLDER / f"{chart.name}-{PROJECT.version}.tgz"
        work.run([helm, "push", package, f"oci://{collection}", *plain], timeout=300)
    return f"oci://{collection}/{PROJECT.name}"


def write(folder: Path, release: Release, collection: str) -> Path:
    """Write a copy of the chart, which replaces an earlier one; return its folder."""
    copy = folder / PROJECT.name
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(PROJECT.chart, copy)
    for name in ("README.md", "templates/NOTES.txt"):
        text = (copy / name).read_text()
        (copy / name).write_text(text.replace(_collection(), f"oci://{collection}"))
    _name_images(copy, release)
    return copy


def _collection() -> str:
    """Return the collection that the chart in git names: beside the project's own image."""
    repository, _, _ = releases.current().image.rpartition("/")
    return f"oci://{repository}/charts"


def _name_images(chart: Path, release: Release) -> None:
    """Write a release's images into a copy of the operator's chart."""
    values = chart / "values.yaml"
    images = {"image": release.image}
    images |= {pods.values: release.pod_images[pods.name] for pods in PROJECT.images}
    values.write_text(
        with_values(
            values.read_text(),
            {
                f"{where}.{part}": text
                for where, ref in images.items()
                for part, text in _defaults(ref).items()
            },
        )
    )
    ours = releases.current()
    metadata = chart / "Chart.yaml"  # Artifact Hub shows the images that it lists
    text = metadata.read_text().replace(f"image: {ours.image}\n", f"image: {release.image}\n")
    for name, ref in ours.pod_images.items():
        text = text.replace(f"image: {ref}\n", f"image: {release.pod_images[name]}\n")
    metadata.write_text(text)


def _defaults(ref: str) -> dict[str, str]:
    """Return the values that name an image by default.

    The digest is a part of the tag, so that a user's `image.tag` replaces it, too.
    """
    parts = image_parts(ref)
    digest = f"@{parts['digest']}" if parts["digest"] else ""
    return parts | {"tag": parts["tag"] + digest, "digest": ""}


def with_values(text: str, values: Mapping[str, str]) -> str:
    """Return the text of values.yaml with other defaults, given by path, and the same comments.

    Each path must exist, on a line of its own that is indented by two spaces per level.
    """
    lines = text.splitlines(keepends=True)
    missing = dict(values)
    path: list[str] = []
    for number, line in enumerate(lines):
        if match := re.match(r"((?:  )*)(\w+):(?: |$)", line):
            path[len(match[1]) // 2 :] = [match[2]]
            if (name := ".".join(path)) in missing:
                lines[number] = f"{match[1]}{match[2]}: {json.dumps(missing.pop(name))}\n"
    if missing:
        raise LookupError(f"values.yaml has no {', '.join(missing)}")
    return "".join(lines)


_CONTENT = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
#: The tag at which Artifact Hub looks for the owners of a chart:
#: https://artifacthub.io/docs/topics/repositories/helm-charts
OWNERS = "artifacthub.io"
_SECONDS = 300


def pack(folder: Path, release: Release, collection: str, date: datetime) -> Path:
    """Write the package of the chart; return its path."""
    with tempfile.TemporaryDirectory() as sources:
        chart = write(Path(sources), release, collection)
        for file in (chart, *chart.rglob("*")):
            os.utime(file, (date.timestamp(), date.timestamp()))
        output([tools.path("helm4"), "package", chart, "--destination", folder], timeout=_SECONDS)
    return folder / f"{chart.name}-{release.version}.tgz"


def push(package: Path, collection: str, version: str) -> str:
    """Push a package, unless it is there; return the chart by its digest.

    Raises KitError where the registry has another chart of that version.
    """
    ref = f"{collection}/{package.name.removesuffix(f'-{version}.tgz')}:{version}"
    existing = registry.pinned(ref)
    content = f"sha256:{hashlib.sha256(package.read_bytes()).hexdigest()}"
    if existing and content != _content(existing):
        raise KitError(
            f"{ref} is in the registry already with other content; raise the version, or delete "
            "that chart if nobody uses it yet"
        )
    if existing is None:
        plain = ("--plain-http",) if collection.startswith("localhost:") else ()
        output(
            [tools.path("helm4"), "push", package, f"oci://{collection}", *plain], timeout=_SECONDS
        )
    pushed = registry.pinned(ref)
    assert pushed, f"{ref} was pushed"
    return pushed


def push_owners(chart: str) -> str | None:
    """Push what tells Artifact Hub who owns a chart's repository; return it by its digest.

    Return None if the repository has no artifacthub-repo.yml.
    """
    file = paths.CHECKOUT / "artifacthub-repo.yml"
    if not file.is_file():
        return None
    return registry.push_file(
        file,
        f"{registry.repository(chart)}:{OWNERS}",
        kind="application/vnd.cncf.artifacthub.config.v1+yaml",
        media_type="application/vnd.cncf.artifacthub.repository-metadata.layer.v1.yaml",
    )


def _content(ref: str) -> str | None:
    """Return the digest of the package of a chart in a registry."""
    layers: list[dict[str, str]] = registry.manifest(ref)["layers"]
    return next((each["digest"] for each in layers if each["mediaType"] == _CONTENT), None)
