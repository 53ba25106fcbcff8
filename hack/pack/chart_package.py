"""The chart as it is pushed to a registry: with the images of that registry as its defaults.

Used by `hack.commands.push`. What is in git names the images of the project's own registry.
"""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from hack.pack import bundle, chart_docs
from hack.pack.artifacts import image_parts
from hack.pack.project import PROJECT
from hack.rig import paths, registry, tools
from hack.rig.steps import step

_FOLDER = paths.BUILD / "chart"


def push(collection: str, image: str, message_image: str) -> str:
    """Push the chart with these images into a collection, such as localhost:5001/charts.

    Return how it is called there: oci://localhost:5001/charts/message-operator.
    """
    plain = ("--plain-http",) if registry.is_local(collection) else ()
    chart = _write(image, message_image)
    with step(f"Chart into oci://{collection}") as work:
        helm = tools.path("helm")
        work.run([helm, "package", chart, "--destination", _FOLDER], timeout=60)
        package = _FOLDER / f"{PROJECT.name}-{PROJECT.version}.tgz"
        work.run([helm, "push", package, f"oci://{collection}", *plain], timeout=300)
    return f"oci://{collection}/{PROJECT.name}"


def _write(image: str, message_image: str) -> Path:
    """Write a copy of the chart with these images, in the place of a former one; return it."""
    chart = _FOLDER / PROJECT.name
    shutil.rmtree(chart, ignore_errors=True)
    shutil.copytree(chart_docs.CHART, chart)
    values = chart / "values.yaml"
    images = {"image": image, PROJECT.images[0].values: message_image}
    values.write_text(
        with_values(
            values.read_text(),
            {
                f"{where}.{part}": text
                for where, ref in images.items()
                for part, text in image_parts(ref).items()
            },
        )
    )
    ours = bundle.current()
    metadata = chart / "Chart.yaml"  # Artifact Hub shows the images that it lists
    text = metadata.read_text().replace(f"image: {ours.image}\n", f"image: {image}\n")
    metadata.write_text(text.replace(f"image: {ours.message_image}\n", f"image: {message_image}\n"))
    return chart


def with_values(text: str, values: Mapping[str, str]) -> str:
    """Return the text of values.yaml with other defaults, given by path, its comments as they are.

    Each path must be there, on a line of its own that is indented by two spaces a level.
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
