"""The tables of `reference` about the commands of the kit."""

from collections.abc import Iterator
from itertools import groupby

import click

from hack.reference_tables import Say, row, table, translated
from kopf_kit.__main__ import COMMANDS, PROGRAM, VARIABLES
from kopf_kit.program import Program


def commands(say: Say) -> Iterator[str]:
    """Yield the commands of `kopf-kit` with their options, and the variables that they read."""
    context = click.Context(PROGRAM, info_name="kopf-kit", resilient_parsing=True)
    for section, entries in groupby(COMMANDS.items(), lambda item: item[1].section):
        yield f"\n## {translated(say, section)}"
        yield from table(say, "command", "meaning", "options")
        for name, _ in entries:
            command = PROGRAM.get_command(context, name)
            assert command
            parts = command.commands if isinstance(command, click.Group) else {}
            for part, further in parts.items():
                yield _command(say, f"{name} {part}", further)
            if not parts:
                yield _command(say, name, command)
            for step, entry in command.entries.items() if isinstance(command, Program) else ():
                yield row(f"`kopf-kit {name} {step}`", translated(say, entry.sentence), "")
    yield say("\n## Environment variables", "\n## 환경 변수")
    yield from table(say, "variable", "meaning")
    for variable, meaning in VARIABLES.items():
        yield row(f"`{variable}`", translated(say, meaning))


def _command(say: Say, name: str, command: click.Command) -> str:
    """Return the row of a command, with its help."""
    context = click.Context(command, info_name=name, resilient_parsing=True)
    _, *usage = command.collect_usage_pieces(context)
    options = [
        f"`{record[0]}`: {translated(say, record[1])}"
        for option in command.params
        if isinstance(option, click.Option) and (record := option.get_help_record(context))
    ]
    meaning = " ".join((command.help or "").split())
    called = f"`kopf-kit {' '.join([name, *usage])}`"
    return row(called, translated(say, meaning), "<br>".join(options))
