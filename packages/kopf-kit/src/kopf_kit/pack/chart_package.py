"""Pushes the chart to a registry, with that registry's images as the defaults.

Used by `kopf_kit.commands.push` and `kopf_kit.pack.artifacts`. The chart in git names the images of
the project's own registry.
"""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from kopf_kit.pack import bundle
from kopf_kit.pack.bundle import Release
from kopf_kit.pack.project import PROJECT
from kopf_kit.pack.references import image_parts
from kopf_kit.rig import paths, registry, tools
from kopf_kit.rig.steps import step

_FOLDER = paths.BUILD / "chart"


def push(collection: str, release: Release) -> str:
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
    repository, _, _ = bundle.current().image.rpartition("/")
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
    ours = bundle.current()
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
