"""Generates what users are shown to try the operator with, from the samples that PROJECT lists.

The notes of the chart have users apply the first sample of each kind; Artifact Hub and OLM show all
samples, and then those that PROJECT lists as `laterSamples`. Used by `kopf_kit.crd.declared`,
`kopf_kit.release.numbered` and `kopf_kit.olm.service_version`.
"""

import textwrap
from pathlib import Path
from typing import Any

from kopf_kit.project import documents, written
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import reading
from kopf_kit.rig.run import KitError

_BY = "kopf_kit/project/samples.py of PROJECT's samples"

_TEMPLATE = """\
{{{{- /* What the notes have users apply.
{header}*/}}}}
{{{{- define "{chart}.sample" -}}}}
{samples}{{{{- end }}}}
"""


def template() -> str:
    """Return the chart's template `_sample.tpl`."""
    header, shown = documents.header(_BY).strip("# "), documents.literal(first())
    return _TEMPLATE.format(chart=PROJECT.name, header=header, samples=shown)


def first() -> str:
    """Return the first sample of each kind that has one, for people who apply it."""
    firsts = ((kind.kind, PROJECT.samples[kind.kind][:1]) for kind in PROJECT.kinds)
    return "---\n".join(_text(file, kind) for kind, files in firsts for file in files)


def listed() -> str:
    """Return all samples as a list in YAML."""
    return "".join(
        "- " + textwrap.indent(text, "  ").removeprefix("  ") for text in _texts().values()
    )


def manifests() -> dict[Path, dict[str, Any]]:
    """Return all samples, by their file."""
    return {file: documents.load(text) for file, text in _texts().items()}


def _texts() -> dict[Path, str]:
    kinds = [kind.kind for kind in PROJECT.kinds]
    listed = {file: _text(file, kind) for kind in kinds for file in PROJECT.samples[kind]}
    return listed | {file: _text(file, *kinds) for file in PROJECT.later_samples}


def _text(file: Path, *kinds: str) -> str:
    """Return a manifest as it is written, without the comments before it.

    Raise KitError if it is not one object of one of the kinds.
    """
    text = reading.text(file)
    kind = reading.shaped(reading.load(text, file), written.Sample, file)["kind"]
    if kind not in kinds:
        expected = " or ".join(kinds)
        raise KitError(f"{file} must be one {expected}, as PROJECT says; its kind is {kind}")
    lines = text.rstrip().split("\n")
    while not lines[0].strip() or lines[0].startswith(("#", "---")):
        del lines[0]
    return "\n".join(lines) + "\n"
