"""`kopf-kit generate` and `verify`: the generated files, and the rules for bundle and catalog."""

from collections.abc import Iterator
from pathlib import Path

import click

from kopf_kit.pack import (
    bundle,
    catalog,
    chart_templates,
    crd_history,
    generated,
    nested,
    numbered,
    rules,
)
from kopf_kit.pack.project import PROJECT
from kopf_kit.rig import paths, writing


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
    with writing.all_or_none() as write_file:
        changes = [*_changes(write_file, below)]
    print(*changes, sep="\n", end="\n" if changes else "")


def _changes(write_file: writing.Write, below: Path) -> Iterator[str]:
    """Write what is to be written, and yield what was; each stage reads what those before wrote."""
    for file in (*catalog.unreleased(), *chart_templates.leftovers()):  # Helm renders the latter
        write_file(file, None)
        yield f"{_name(file)} removed"
    for dropped in numbered.dropped():
        yield f"{_name(PROJECT.chart)} no longer shows {dropped}: PROJECT lists no such sample"
    kept = set[Path]()
    for stage in generated.STAGES:
        texts = stage()
        kept |= texts.keys()
        for file, text in generated.stale(texts).items():
            if file.is_relative_to(below):
                write_file(file, text)
                yield f"{_name(file)} written"
    for file in {*nested.leftovers(kept), *bundle.leftovers(kept)}:
        write_file(file, None)
        yield f"{_name(file)} removed"


@click.command()
def verify() -> int:
    """Find mistakes in bundle and catalog, and generated files that are out of date."""
    is_wrong = False
    for sentence in problems():
        is_wrong = True
        print(sentence)
    return 1 if is_wrong else 0


def problems() -> Iterator[str]:
    """Yield a sentence for each mistake in the files in git."""
    if PROJECT.has_olm:
        yield from rules.problems(bundle.BUNDLE, catalog.CATALOG)
    yield from crd_history.problems()
    for file in catalog.unreleased():
        yield f"{_name(file)} is of a version that was never released: run `kopf-kit generate`"
    texts = generated.files()
    for file in (*chart_templates.leftovers(), *bundle.leftovers(texts)):
        yield f"{_name(file)} is no longer generated: run `kopf-kit generate`"
    for file in generated.stale(texts):
        yield f"{_name(file)} differs from what it is generated from: run `kopf-kit generate`"


def _name(file: Path) -> Path:
    return file.relative_to(paths.CHECKOUT)
