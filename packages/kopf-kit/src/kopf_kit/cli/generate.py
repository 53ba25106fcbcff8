"""Writes the generated files, and finds those that are out of date."""

from collections.abc import Iterator
from pathlib import Path

import click

from kopf_kit.chart import dashboard, templates, values
from kopf_kit.crd import declared, upgrades
from kopf_kit.olm import bundle, catalog, manifests
from kopf_kit.project import adopted, nested
from kopf_kit.project.definition import PROJECT
from kopf_kit.release import numbered
from kopf_kit.rig import paths, reading


def _written() -> dict[Path, str]:
    return {**adopted.files(PROJECT), **nested.copies()}


def _of_the_chart_s_sources() -> dict[Path, str]:
    return {**declared.files(), **values.files(PROJECT.chart), **dashboard.files()}


def _of_the_chart() -> dict[Path, str]:
    return {**bundle.files(), **catalog.files()} if PROJECT.has_olm else {}


#: In this order, because a stage reads files of earlier stages: Helm renders with the schema.
STAGES = (
    _written,
    templates.files,
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


@click.command()
@click.option("--unless-current", is_flag=True, help="Write build/ only, if outdated.")
def generate(*, unless_current: bool) -> None:  # noqa: D103 (the program has its help)
    with nested.generating():
        if not unless_current:
            write()
        elif not nested.is_current(PROJECT):
            write(PROJECT.built)


def write(below: Path = Path("/")) -> None:
    """Write missing and stale files in a folder, remove outdated ones, and print their names.

    Where something is wrong, all files stay as they were.
    """
    with reading.all_or_none() as write_file:
        changes = [*_changes(write_file, below)]
    print(*changes, sep="\n", end="\n" if changes else "")


def _changes(write_file: reading.Write, below: Path) -> Iterator[str]:
    """Write what is to be written, and yield what was; each stage reads what those before wrote."""
    for file in (*catalog.unreleased(), *templates.leftovers()):  # Helm renders the latter
        write_file(file, None)
        yield f"{_name(file)} removed"
    for dropped in numbered.dropped():
        yield f"{_name(PROJECT.chart)} no longer shows {dropped}: PROJECT lists no such sample"
    kept = set[Path]()
    for stage in STAGES:
        texts = stage()
        kept |= texts.keys()
        for file, text in stale(texts).items():
            if file.is_relative_to(below):
                write_file(file, text)
                yield f"{_name(file)} written"
    for file in {*nested.leftovers(kept), *bundle.leftovers(kept)}:
        write_file(file, None)
        yield f"{_name(file)} removed"


@click.command()
def verify() -> int:
    """Find generated files that are out of date, and changes of a CRD that break what is stored."""
    is_wrong = False
    for sentence in problems():
        is_wrong = True
        print(sentence)
    return 1 if is_wrong else 0


def problems() -> Iterator[str]:
    """Yield a sentence for each mistake in the files in git."""
    yield from upgrades.problems()
    for file in catalog.unreleased():
        yield f"{_name(file)} is of a version that was never released: run `kopf-kit generate`"
    texts = files()
    for file in (*templates.leftovers(), *bundle.leftovers(texts)):
        yield f"{_name(file)} is no longer generated: run `kopf-kit generate`"
    for file in stale(texts):
        yield f"{_name(file)} differs from what it is generated from: run `kopf-kit generate`"


def _name(file: Path) -> Path:
    return file.relative_to(paths.CHECKOUT)
