"""`make generate` and `make verify`: the generated files, and the rules for bundle and catalog."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from hack.commands import Subparsers
from hack.pack import bundle, catalog, generated, numbered, rules
from hack.pack.project import PROJECT
from hack.rig import paths


def add(commands: Subparsers) -> None:
    """Add the commands to the command line."""
    parser = commands.add_parser("generate", help="write the files that are made of others")
    parser.set_defaults(run=lambda _: write())

    parser = commands.add_parser("verify", help="find mistakes, and generated files out of date")
    parser.set_defaults(run=_verify)


def write() -> None:
    """Write missing and stale files, remove those of a former version, and print their names."""
    for file in catalog.unreleased():
        file.unlink()
        print(f"{_name(file)} removed")
    for dropped in numbered.dropped():
        print(f"{_name(PROJECT.chart)} no longer shows {dropped}: PROJECT lists no such sample")
    for stage in generated.STAGES:
        for file, text in generated.stale(stage).items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            print(f"{_name(file)} written")


def _verify(_: argparse.Namespace) -> int:
    found = False
    for sentence in problems():
        found = True
        print(sentence)
    return 1 if found else 0


def problems() -> Iterator[str]:
    """Yield a sentence for each mistake in the files in git."""
    if PROJECT.olm.is_dir():
        yield from rules.problems(bundle.BUNDLE, catalog.CATALOG)
    for file in catalog.unreleased():
        yield f"{_name(file)} is of a version that was never released: run `make generate`"
    for file in generated.stale():
        yield f"{_name(file)} differs from what it is generated from: run `make generate`"


def _name(file: Path) -> Path:
    return file.relative_to(paths.CHECKOUT)
