"""`make chart-diff`: show what an upgrade from the last release, or from ARGS=v0.1.0, changes."""

import argparse
import tempfile
from pathlib import Path

from hack.commands import Subparsers
from hack.pack import chart_diff, chart_docs, history


def add(commands: Subparsers) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("chart-diff", help="show what an upgrade changes")
    parser.add_argument("tag", nargs="?", help="the release to compare with; default: the last")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> None:
    tag = arguments.tag or history.last_release()
    if tag is None:
        print("There is no release yet (no tag v*): nothing to compare with.")
        return
    print(f"From {tag} to what is here:")
    with tempfile.TemporaryDirectory() as folder:
        for line in chart_diff.report(chart_diff.extract(tag, Path(folder)), chart_docs.CHART):
            print(line)
