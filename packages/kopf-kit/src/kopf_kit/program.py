"""A click program that imports a command only when it runs: `kopf-kit`, and a repository's own.

So `--help`, completion and a typing error answer at once, and outside of any project, too.
"""

import copy
import difflib
import importlib
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import click
from click.shell_completion import CompletionItem

#: For commands whose further words are for another program, such as pytest.
PASSES_ON = {"ignore_unknown_options": True}


class Entry(NamedTuple):
    """A command, as the program lists it."""

    section: str
    #: The module and the command in it: package.module:name.
    where: str
    help: str
    #: What it works on: the files of a PROJECT, with the generated ones of `built`.
    needs: Literal["nothing", "project", "built"] = "built"

    @property
    def sentence(self) -> str:
        """Its help where the command itself has none."""
        return f"{self.help[0].upper()}{self.help[1:]}."


class Program(click.Group):
    """A program with the commands of a table."""

    def __init__(
        self,
        name: str,
        entries: Mapping[str, Entry],
        variables: Mapping[str, str] | None = None,
        **attributes: Any,
    ) -> None:
        """Take the commands and the environment variables in the order in which they are listed."""
        settings = {"help_option_names": ["-h", "--help"]}
        super().__init__(name, no_args_is_help=True, context_settings=settings, **attributes)
        self.entries, self.variables = entries, variables or {}

    def list_commands(self, _: click.Context) -> list[str]:
        """Return the commands' names, in the table's order."""
        return list(self.entries)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import a command; where there is no PROJECT for it, return one that has only help."""
        entry = self.entries.get(name)
        if entry is None:
            return None
        if entry.needs != "nothing" and not _has_project():
            return _stand_in(name, entry)
        module, _, attribute = entry.where.partition(":")
        try:
            original: click.Command = getattr(importlib.import_module(module), attribute)
        except Exception:
            if entry.needs != "nothing":
                _check_fits()  # this kit may be too old to read PROJECT
            raise
        command = copy.copy(original)  # it may be returned again
        command.name, command.help = name, command.help or entry.sentence
        if entry.needs != "nothing" and command.callback is not None:
            command.callback = _prepared(command.callback, entry)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the words name; a usage error guesses at what was meant."""
        name = args[0]
        if name not in self.entries and not ctx.resilient_parsing and not name.startswith("-"):
            near = difflib.get_close_matches(name, self.entries, n=2)
            meant = f"; did you mean {' or '.join(f'`{word}`' for word in near)}?" if near else ""
            ctx.fail(f"there is no command `{name}`{meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands in sections, without importing any."""
        for section in dict.fromkeys(entry.section for entry in self.entries.values()):
            ours = [(n, e.help) for n, e in self.entries.items() if e.section == section]
            with formatter.section(section):
                formatter.write_dl(ours)
        if self.variables:
            with formatter.section("Environment variables"):
                formatter.write_dl([*self.variables.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a command's name, without importing any."""
        ours = [
            CompletionItem(name, help=entry.help)
            for name, entry in self.entries.items()
            if name.startswith(incomplete)
        ]
        return [*ours, *click.Command.shell_complete(self, ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> int:
        """Run the command; report its errors in a readable form, and return the exit code."""
        from kopf_kit.rig import steps

        return steps.execute(lambda: super(Program, self).invoke(ctx))


def passing_on(function: Callable[[list[str]], int | None], words: str) -> click.Command:
    """Return the command of a function that passes its arguments on, such as to pytest."""

    @click.command(context_settings=PASSES_ON)
    @click.argument("rest", nargs=-1, type=click.UNPROCESSED, metavar=f"[{words}]")
    def command(rest: tuple[str, ...]) -> int | None:
        return function(list(rest))

    return command


def run(program: click.Command) -> int:
    """Run the command that the arguments name; return its exit code: 2 for a wrong use."""
    try:
        return program.main(standalone_mode=False) or 0
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        where = getattr(error, "ctx", None)
        path = where.command_path if where else program.name
        sentence = " ".join(error.format_message().rstrip(".").split())
        click.echo(f"error: {sentence} (`{path} --help`)", err=True)
        return error.exit_code


def _has_project() -> bool:
    from kopf_kit.rig import paths

    return paths.has_project()


def _stand_in(name: str, entry: Entry) -> click.Command:
    """Return a command without a PROJECT: it has help, and says what is missing."""

    @click.pass_context
    def refuse(ctx: click.Context, /, **_: object) -> None:
        ctx.fail(
            "there is no PROJECT in this folder or above it: go to the repository of an operator, "
            "or make one with `kopf-kit new`"
        )

    rest = click.Argument(["rest"], nargs=-1, type=click.UNPROCESSED)
    settings = {**PASSES_ON, "allow_extra_args": True}
    return click.Command(
        name, callback=refuse, params=[rest], help=entry.sentence, context_settings=settings
    )


def _prepared(function: Callable[..., Any], entry: Entry) -> Callable[..., Any]:
    """Return a command's function that first prepares PROJECT: help and usage errors need none."""

    def prepare_and_run(*arguments: Any, **options: Any) -> Any:
        _check_fits()
        if entry.needs == "built":
            from kopf_kit.project import definition, nested

            nested.ensure(definition.PROJECT)
        return function(*arguments, **options)

    return prepare_and_run


def _check_fits() -> None:
    """Raise KitError if PROJECT, this kit and the runtime are of versions that do not fit."""
    from kopf_kit import compatible
    from kopf_kit.rig import paths
    from kopf_kit.rig.run import KitError

    for sentence in compatible.problems(paths.CHECKOUT):
        raise KitError(sentence)
