"""`kopf-kit new`: writes the repository of a new operator, or adds to one what it has not yet."""

import sys
from collections.abc import Callable
from pathlib import Path

import click
from rich.prompt import Prompt

from kopf_kit.rig.run import HackError
from kopf_kit.rig.steps import say
from kopf_kit.template import additions, record, repository
from kopf_kit.template.answers import Answers, check_group, check_kind, check_name

_EXAMPLE = "kopf-kit new cache-operator --kind Cache --group cache.example.com"


@click.command()
@click.argument("name", required=False)
@click.argument("folder", required=False, metavar="[DIR]", type=click.Path(path_type=Path))
@click.option("--kind", help="The kind that it serves, such as Cache.")
@click.option("--group", help="The kind's API group, such as cache.example.com.")
@click.option("--without", multiple=True, type=click.Choice(["olm"]), help="Write no files for it.")
@click.option("--no-lock", is_flag=True, help="Do not write uv.lock.")
def command(
    name: str | None,
    folder: Path | None,
    kind: str | None,
    group: str | None,
    *,
    without: tuple[str, ...],
    no_lock: bool,
) -> None:
    """Write the repository of a new operator into DIR, by default ./NAME.

    Anything not given by an option is asked for on a terminal. In a repository, `new kind KIND`
    adds a further kind, `new olm` what OLM needs, and `new workflow` one of GitHub that releases.
    """
    if name == "kind" and folder and kind:
        raise HackError(f"`new kind` adds one kind: either {folder} or {kind}")
    if name in ("kind", "olm", "workflow"):
        _add(name, kind or (str(folder) if folder else None), group)
        return
    answers = Answers(
        _answer(name, "NAME", "The operator's name", "cache-operator", check_name),
        _answer(kind, "--kind", "The kind that it serves", "Cache", check_kind),
        _answer(group, "--group", "The kind's API group", "cache.example.com", check_group),
        olm="olm" not in without,
    )
    folder = (folder or Path(answers.name)).absolute()
    missing = repository.write(answers, folder, lock=not no_lock)
    say(f"{folder} has the operator {answers.name}; README.md says how to go on")
    if missing:
        say(missing)


def _add(addition: str, kind: str | None, group: str | None) -> None:
    """Add a kind, OLM, or a workflow to the repository that this is in."""
    folder = record.find(Path.cwd())
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
        raise HackError(f"{option} is missing: use for example `{_EXAMPLE}`")
    return given


def _asked(question: str, check: Callable[[str], None]) -> str:
    while True:
        try:
            answer = Prompt.ask(question).strip()
        except (EOFError, KeyboardInterrupt) as error:
            raise HackError("there is no answer, so nothing was written") from error
        try:
            check(answer)
        except HackError as refusal:
            say(str(refusal))
        else:
            return answer
