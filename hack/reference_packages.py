"""The tables of `reference` about the packages: the runtime's public names, the kit's commands."""

import inspect
import re
from collections.abc import Iterator
from itertools import groupby
from typing import Union, get_args, get_origin

import click

import kopf_runtime as kr
from hack.reference_tables import Say, row, table, translated
from kopf_kit.__main__ import COMMANDS, PROGRAM, VARIABLES
from kopf_kit.rig import paths

PUBLIC = paths.CHECKOUT / "packages" / "kopf-runtime" / "public.txt"


def names(say: Say) -> Iterator[str]:
    """Yield what `import kopf_runtime as kr` offers, with docstrings, or types of values."""
    yield from table(say("name", "이름"), say("meaning", "설명"), say("members", "멤버"))
    for part in re.split(r"\n(?! )", PUBLIC.read_text().strip()):
        name, *members = (re.sub(r"\(self(, )?", "(", line.strip()) for line in part.split("\n"))
        thing = getattr(kr, name.partition("(")[0])
        documented = inspect.isroutine(thing) or inspect.isclass(thing) or inspect.ismodule(thing)
        values = get_args(thing) if get_origin(thing) is Union else (thing,)
        types = (getattr(value, "__origin__", type(value)).__name__ for value in values)
        of_a_value = ", ".join(f"`{type_}`" for type_ in types)
        if documented:
            meaning = translated(say, (inspect.getdoc(thing) or "").partition("\n")[0])
        else:
            meaning = of_a_value
        yield row(f"`kr.{name}`", meaning, ", ".join(f"`{member}`" for member in members))


def commands(say: Say) -> Iterator[str]:
    """Yield the commands of `kopf-kit` with their options, and the variables that they read."""
    context = click.Context(PROGRAM, info_name="kopf-kit", resilient_parsing=True)
    for section, entries in groupby(COMMANDS.items(), lambda item: item[1].section):
        yield f"\n## {translated(say, section)}"
        yield from table(say("command", "명령"), say("meaning", "설명"), say("options", "옵션"))
        for name, entry in entries:
            command = PROGRAM.get_command(context, name)
            assert command
            usage = command.collect_usage_pieces(click.Context(command, context, name))
            options = [
                f"`{record[0]}`: {translated(say, record[1])}"
                for option in command.params
                if isinstance(option, click.Option) and (record := option.get_help_record(context))
            ]
            meaning = (command.help or entry.help).partition("\n\n")[0]
            meaning = meaning[0].upper() + meaning[1:]
            yield row(
                f"`kopf-kit {' '.join([name, *usage[1:]])}`",
                translated(say, meaning),
                "<br>".join(options),
            )
    yield say("\n## Environment variables", "\n## 환경 변수")
    yield from table(say("variable", "변수"), say("meaning", "설명"))
    for variable, meaning in VARIABLES.items():
        yield row(f"`{variable}`", translated(say, meaning))
