"""Renders the chart with Helm, for the modules that generate files from it."""

import copy
import functools
import json
from pathlib import Path
from typing import Any

from kopf_kit.pack import documents
from kopf_kit.pack.project import PROJECT
from kopf_kit.rig import tools
from kopf_kit.rig.run import output

NAME = PROJECT.name

Manifest = dict[str, Any]


@functools.cache
def template(*options: str | Path) -> tuple[Manifest, ...]:
    """Return the objects that Helm installs with these options; do not change them."""
    return rendered_again(*options)


def rendered_again(*options: str | Path) -> tuple[Manifest, ...]:
    """Return the objects that Helm makes of the chart this time."""
    return tuple(documents.load_all(text(*options)))


def text(*options: str | Path) -> str:
    """Return the manifests that Helm installs with these options, with the chart's comments."""
    return output(
        [tools.path("helm"), "template", NAME, PROJECT.chart, "--namespace", NAME, *options],
        timeout=60,
    )


def for_olm(*namespaces: str) -> tuple[Manifest, ...]:
    """Return the objects that Helm installs with OLM's values and these watched namespaces."""
    watched = f"watchNamespaces={json.dumps(namespaces)}"
    # What an author sets otherwise for OLM, such as to have no certificate of Helm's.
    own = PROJECT.root / "olm" / "values.own.yaml"
    files = [PROJECT.olm / "values.yaml", *([own] if own.is_file() else [])]
    return template(*(f"--values={file}" for file in files), "--set-json", watched)


def find(kind: str, name: str, *namespaces: str) -> Manifest:
    """Return a copy of the only object of a kind and name."""
    (chosen,) = (
        manifest
        for manifest in for_olm(*namespaces)
        if (manifest["kind"], manifest["metadata"]["name"]) == (kind, name)
    )
    return copy.deepcopy(chosen)


def arguments() -> dict[str, str]:
    """Return the flags with which the chart starts the operator; one without a value is true."""
    (container,) = find("Deployment", NAME)["spec"]["template"]["spec"]["containers"]
    pairs = (argument.removeprefix("--").partition("=") for argument in container["args"] or ())
    return {name: value if equals else "true" for name, equals, value in pairs}
