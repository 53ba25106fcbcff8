"""`kopf-kit new` and `adopt`: the repository of an operator, new or found."""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.prompt import Prompt

from kopf_kit.rig.run import KitError
from kopf_kit.rig.steps import say
from kopf_kit.scaffold import additions, adoption, discovery, repository
from kopf_kit.scaffold.repository import Answers, check_group, check_kind, check_name

_EXAMPLE = "kopf-kit new memcached-operator --kind Memcached --group cache.example.com"


@click.command()
@click.argument("name", required=False)
@click.argument("folder", required=False, metavar="[DIR]", type=click.Path(path_type=Path))
@click.option("--kind", help="The kind that it serves, such as Memcached.")
@click.option("--group", help="The kind's API group, such as cache.example.com.")
@click.option("--without", multiple=True, type=click.Choice(["olm"]), help="Write no files for it.")
@click.option("--home", default="", help="The operator's page, such as its repository.")
@click.option("--lang", type=click.Choice(["en", "ko"]), help="ko: a README in Korean, too.")
@click.option("--no-lock", is_flag=True, help="Do not write uv.lock.")
def command(
    name: str | None,
    folder: Path | None,
    kind: str | None,
    group: str | None,
    *,
    without: tuple[str, ...],
    home: str,
    lang: str | None,
    no_lock: bool,
) -> None:
    """Write the repository of a new operator into DIR, by default ./NAME.

    Without --lang, the locale says it; anything else not given by an option is asked for on a
    terminal. In a repository, `new kind KIND` adds a further kind, `new olm` what OLM needs, and
    `new workflow` one of GitHub that releases.
    """
    if name == "kind" and folder and kind:
        raise KitError(f"`new kind` adds one kind: either {folder} or {kind}")
    if name in ("kind", "olm", "workflow"):
        _add(name, kind or (str(folder) if folder else None), group)
        return
    answers = Answers(
        _answer(name, "NAME", "The operator's name", "memcached-operator", check_name),
        _answer(kind, "--kind", "The kind that it serves", "Memcached", check_kind),
        _answer(group, "--group", "The kind's API group", "cache.example.com", check_group),
        olm="olm" not in without,
        home=home,
        korean=(lang or _language()) == "ko",
    )
    folder = (folder or Path(answers.name)).absolute()
    missing = repository.write(answers, folder, lock=not no_lock)
    say(f"{folder} has the operator {answers.name}; README.md says how to go on")
    if missing:
        say(missing)


def _language() -> str:
    """Return the language of the locale, as the terminal's programs read it."""
    variables = (os.environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return next(filter(None, variables), "")[:2]


def _add(addition: str, kind: str | None, group: str | None) -> None:
    """Add a kind, OLM, or a workflow to the repository that this is in."""
    folder = repository.find(Path.cwd())
    if addition == "olm":
        files = additions.olm(folder)
    elif addition == "workflow":
        files = additions.workflow(folder)
    else:
        name = _answer(kind, "KIND", "The further kind", "Bucket", check_kind)
        files = additions.kind(folder, name, group)
    for file in files:
        say(f"{file} written")


def _answer(
    given: str | None, option: str, question: str, example: str, check: Callable[[str], None]
) -> str:
    """Return the given value; without one, ask on a terminal until the answer is valid."""
    if given is None and sys.stdin.isatty():
        return _asked(f"{question}, such as {example}", check)
    if not given:
        raise KitError(f"{option} is missing: use for example `{_EXAMPLE}`")
    return given


def _asked(question: str, check: Callable[[str], None]) -> str:
    while True:
        try:
            answer = Prompt.ask(question).strip()
        except (EOFError, KeyboardInterrupt) as error:
            raise KitError("there is no answer, so nothing was written") from error
        try:
            check(answer)
        except KitError as refusal:
            say(str(refusal))
        else:
            return answer


@click.command()
@click.argument("what", type=click.Choice(["kind"]))
@click.argument("name", metavar="KIND")
def remove_command(what: str, name: str) -> None:
    """Remove a kind that `new kind` has added: its code, test, sample and entries.

    What else names it stays; `kopf-kit check` finds that. Clusters keep its CRD and its objects.
    """
    for file in additions.remove_kind(repository.find(Path.cwd()), name):
        say(f"{file} changed or removed")


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
@click.option("--account", default="", metavar="[NAMESPACE/]NAME", help="Its ServiceAccount there.")
@click.option("--env", "environment", multiple=True, metavar="NAME=VALUE", help="A variable.")
@click.option("--description", default="", help="What the operator does, in a sentence.")
@click.option("--no-run", is_flag=True, help="Read files only, and run nothing of the repository.")
def adopt_command(*, no_run: bool, **options: Any) -> None:
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
    operator = discovery.find(
        file.parent, discovery.Operator(file.parent, **options), run=not no_run
    )
    for option, (question, example) in _NEEDED.items():
        if not getattr(operator, option):
            several = ", ".join(operator.modules) if option == "module" else ""
            answers: dict[str, Any] = {option: _asked_for(option, question, example, several)}
            operator = replace(operator, **answers)
    text, left_out = adoption.project(operator, run=not no_run)
    _write(file, text)
    say(
        f"{file} written; `kopf-kit generate` packages {operator.name}. Nothing has run its "
        "image: `kopf-kit image build` starts it once, and says what it lacks"
    )
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
        raise KitError(f"{file}: {error.strerror}; nothing was written") from error
    try:
        from kopf_kit.project import definition  # it reads the PROJECT that is there

        definition.load(file.parent)
    except KitError as error:
        file.unlink()
        raise KitError(f"{error}; PROJECT was not written") from error


def _variable(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not (name and equals):
        raise KitError(f"--env {word} must be a variable with its value, such as BUCKET=notes")
    return name, value


def _asked_for(option: str, question: str, example: str, several: str) -> str:
    """Return an answer from the terminal."""
    if sys.stdin.isatty():
        return _asked(f"{question}, such as {example}", lambda _: None)
    raise KitError(
        f"--{option} is missing, and the repository does not say it"
        f"{f' (there are {several}; one may import others)' if several else ''}: use for example "
        f"`kopf-kit adopt --{option} {example}`"
    )
