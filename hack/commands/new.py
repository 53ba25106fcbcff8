"""`make new`: a repository of its own for a new operator, beside this one or in DIR."""

import argparse
from pathlib import Path

from hack.commands import Subparsers
from hack.rig import paths
from hack.rig.steps import say
from hack.scaffold import repository
from hack.scaffold.answers import Answers


def add(commands: Subparsers) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("new", help="write a repository for a new operator")
    parser.add_argument("name", help="its name, such as cache-operator")
    parser.add_argument("kind", help="its kind, such as Cache")
    parser.add_argument("group", help="the kind's API group, such as cache.example.com")
    parser.add_argument("folder", help="where to write it; empty: beside this checkout")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> None:
    answers = Answers(arguments.name, arguments.kind, arguments.group)
    folder = Path(arguments.folder or paths.CHECKOUT.parent / answers.name).resolve()
    say(f"==> A repository for {answers.name}, in {folder}")
    repository.write(answers, folder)
    say(f"""\
Its ConfigMap holds the text of every {answers.kind}. Try it, and see that all is well:
  cd {folder} && make check
What you edit then, before `make generate`:
  operator/{answers.package}/operator.py   the kind, what an object should have, settings
  PROJECT, examples/sample.yaml   kinds, images of its Pods, a manifest to try
  charts/{answers.name}/   Chart.yaml: whose it is; templates/_operator.tpl: flags, alerts;
    values.own.yaml, if you write one: values that only this chart has
  olm/csv.yaml, olm/description.md   what OLM and OperatorHub.io show
  tests/unit/, tests/e2e/, tests/faults/subjects.py, README.md   what the operator does""")
