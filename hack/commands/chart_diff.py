"""`make chart-diff`: show what an upgrade from the last release, or from ARGS=v0.1.0, changes.

    make chart-diff ARGS="oci://registry.example.com/you/charts/message-operator:0.1.0 v0.2.0"

compares two releases: each is a tag, or a chart in a registry.
"""

import argparse
import tempfile
from pathlib import Path

from hack.commands import Subparsers
from hack.pack import chart_diff, chart_docs, history


def add(commands: Subparsers) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("chart-diff", help="show what an upgrade changes")
    parser.add_argument("old", nargs="?", help="the release to upgrade from; default: the last")
    parser.add_argument("new", nargs="?", help="the release to upgrade to; default: the checkout")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> None:
    old, new = arguments.old or history.last_release(), arguments.new
    if old is None:
        print("There is no release yet (no tag v*): nothing to compare with.")
        return
    print(f"From {old} to {new or 'what is here'}:")
    with tempfile.TemporaryDirectory() as folder:
        before = chart_diff.get(old, Path(folder, "old"))
        after = chart_diff.get(new, Path(folder, "new")) if new else chart_docs.CHART
        for line in chart_diff.report(before, after):
            print(line)
