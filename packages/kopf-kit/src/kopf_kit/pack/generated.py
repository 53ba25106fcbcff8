"""Generated files: `kopf-kit generate` writes them, and `verify` finds those that are stale.

Each names its generator in the first lines, except files in which only the version is generated.
"""

from pathlib import Path

from kopf_kit.pack import (
    adopted,
    bundle,
    catalog,
    chart_dashboard,
    chart_docs,
    chart_templates,
    declared,
    extension,
    manifests,
    nested,
    numbered,
)
from kopf_kit.pack.project import PROJECT
from kopf_kit.rig import reading


def _written() -> dict[Path, str]:
    return {**adopted.files(PROJECT), **nested.copies()}


def _of_the_chart_s_sources() -> dict[Path, str]:
    return {
        **declared.files(),
        **chart_docs.files(PROJECT.chart),
        **chart_dashboard.files(),
    }


def _of_the_chart() -> dict[Path, str]:
    texts = {**bundle.files(), **catalog.files()} if PROJECT.has_olm else {}
    own = extension.load()
    return texts if own is None else {**texts, **own.files()}


#: In this order, because a stage reads files of earlier stages: Helm renders with the schema.
STAGES = (
    _written,
    chart_templates.files,
    numbered.files,
    _of_the_chart_s_sources,
    _of_the_chart,
    manifests.files,
)


def files() -> dict[Path, str]:
    """Return the text of each generated file, except for plain manifests, which git lacks."""
    texts = {file: text for stage in STAGES for file, text in stage().items()}
    return {file: text for file, text in texts.items() if PROJECT.deploy not in file.parents}


def stale(texts: dict[Path, str]) -> dict[Path, str]:
    """Return the files that are missing or differ from their generated text."""
    return {
        file: text
        for file, text in texts.items()
        if not file.exists() or reading.text(file) != text
    }
