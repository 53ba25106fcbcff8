"""`kopf-kit adopt`: packages an operator on plain kopf as it is; it writes PROJECT alone."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.prompt import Prompt

from kopf_kit.rig.run import HackError
from kopf_kit.rig.steps import say
from kopf_kit.template import adoption, found

#: What has to be said where the repository does not say it, with an example.
_NEEDED = {
    "module": ("The module that `kopf run -m` runs", "notes_operator.handlers"),
    "home": ("The operator's page", "https://github.com/acme/notes-operator"),
}


@click.command()
@click.option("--module", default="", help="The module that `kopf run -m` runs.")
@click.option("--home", default="", help="The operator's page, such as its repository.")
@click.option("--name", default="", help="What chart and image are called.")
@click.option("--crd", "crds", multiple=True, metavar="FILE", help="CRDs; by default, all here.")
@click.option("--sample", "samples", multiple=True, metavar="FILE", help="Objects to show.")
@click.option("--requirements", default="", metavar="FILE", help="What the image installs.")
@click.option("--dockerfile", default="", metavar="FILE", help="Your own, if it is in a folder.")
@click.option("--rights", multiple=True, metavar="FILE", help="Roles of what the handlers do.")
@click.option("--env", "environment", multiple=True, metavar="NAME=VALUE", help="A variable.")
@click.option("--description", default="", help="What the operator does, in a sentence.")
@click.option("--no-run", is_flag=True, help="Read files only, and run nothing of the repository.")
def command(*, no_run: bool, **options: Any) -> None:
    """Write PROJECT for the operator on plain kopf in this folder; all else stays as it is.

    Anything not given by an option is found in the repository, or asked for on a terminal.
    This runs the repository's Python and imports its handlers: use --no-run where you do not trust
    them.
    `kopf-kit generate` then packages the operator.
    """
    file = Path.cwd() / "PROJECT"
    if file.exists():
        say(f"{file} is there already, and stays as it is: edit it, or remove it first")
        return
    if not no_run:
        say(
            "this runs the repository's Python, and imports its handlers; --no-run reads files only"
        )
    options["environment"] = tuple(map(_variable, options["environment"]))
    operator = found.find(file.parent, found.Operator(file.parent, **options), run=not no_run)
    for option, (question, example) in _NEEDED.items():
        if not getattr(operator, option):
            several = ", ".join(operator.modules) if option == "module" else ""
            answers: dict[str, Any] = {option: _asked(option, question, example, several)}
            operator = replace(operator, **answers)
    text, left_out = adoption.project(operator, run=not no_run)
    _write(file, text)
    say(f"{file} written; `kopf-kit generate` packages {operator.name}")
    if no_run:
        say(
            f"{operator.module} was not imported, so nothing is known of its handlers; `kopf-kit "
            "generate` imports it"
        )
    for sentence in left_out:
        say(sentence)


def _write(file: Path, text: str) -> None:
    """Write PROJECT, unless `kopf-kit generate` would refuse it."""
    try:
        file.write_text(text)
    except OSError as error:
        raise HackError(f"{file}: {error.strerror}; nothing was written") from error
    try:
        from kopf_kit.pack import project  # it reads the PROJECT that is there

        project.load(file.parent)
    except HackError as error:
        file.unlink()
        raise HackError(f"{error}; PROJECT was not written") from error


def _variable(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not (name and equals):
        raise HackError(f"--env {word} must be a variable with its value, such as BUCKET=notes")
    return name, value


def _asked(option: str, question: str, example: str, several: str) -> str:
    """Return an answer from the terminal."""
    if sys.stdin.isatty():
        try:
            return Prompt.ask(f"{question}, such as {example}").strip()
        except (EOFError, KeyboardInterrupt) as error:
            raise HackError("there is no answer, so nothing was written") from error
    raise HackError(
        f"--{option} is missing, and the repository does not say it"
        f"{f' (there are {several})' if several else ''}: use for example "
        f"`kopf-kit adopt --{option} {example}`"
    )
