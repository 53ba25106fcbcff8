"""`kopf-kit new`: writes the repository of a new operator."""

import argparse
import sys
from pathlib import Path

from rich.prompt import Prompt

from kopf_kit.commands import Subparsers
from kopf_kit.rig.run import HackError
from kopf_kit.rig.steps import say
from kopf_kit.template import repository
from kopf_kit.template.answers import Answers

_EXAMPLE = "kopf-kit new cache-operator --kind Cache --group cache.example.com"


def add(commands: Subparsers) -> None:
    """Add the command to the command line."""
    text = "write the repository of a new operator; what flags do not say is asked on a terminal"
    parser = commands.add_parser("new", help=text, description=f"Such as: {_EXAMPLE}")
    parser.add_argument("name", nargs="?", help="the operator's name, such as cache-operator")
    parser.add_argument("folder", nargs="?", type=Path, metavar="DIR", help="by default ./NAME")
    parser.add_argument("--kind", help="the kind that it serves, such as Cache")
    parser.add_argument("--group", help="the kind's API group, such as cache.example.com")
    parser.add_argument("--without", action="append", default=[], choices=["olm"])
    parser.add_argument("--no-lock", action="store_true", help="do not write uv.lock")
    parser.set_defaults(run=_new)


def _new(arguments: argparse.Namespace) -> None:
    answers = Answers(
        _answer(arguments.name, "NAME", "The operator's name", "cache-operator"),
        _answer(arguments.kind, "--kind", "The kind that it serves", "Cache"),
        _answer(arguments.group, "--group", "The kind's API group", "cache.example.com"),
        olm="olm" not in arguments.without,
    )
    folder = (arguments.folder or Path(answers.name)).absolute()
    missing = repository.write(answers, folder, lock=not arguments.no_lock)
    say(f"{folder} has the operator {answers.name}; README.md says how to go on")
    if missing:
        say(missing)


def _answer(given: str | None, option: str, question: str, example: str) -> str:
    if given is None and sys.stdin.isatty():
        given = Prompt.ask(f"{question}, such as {example}").strip()
    if not given:
        raise HackError(f"{option} is missing: say for example `{_EXAMPLE}`")
    return given
