"""The body of `reference`'s page on the runtime: its public names, as griffe reads the source."""

import re
import textwrap
from collections.abc import Iterator
from enum import Enum

import griffe

import kopf_runtime as kr
from hack.reference_tables import Say, row, table, translated
from kopf_kit.rig import paths

_SOURCES = paths.CHECKOUT / "packages" / "kopf-runtime"
PUBLIC = _SOURCES / "public.txt"


def names(say: Say) -> Iterator[str]:
    """Yield what `import kopf_runtime as kr` offers; of public.txt, which has no types."""
    package = griffe.load("kopf_runtime", search_paths=[_SOURCES / "src"])
    details = []
    yield from table(say("name", "이름"), say("meaning", "설명"))
    for part in re.split(r"\n(?! )", PUBLIC.read_text().strip()):
        name, *members = re.findall(r"^ *(\w+)", part, re.MULTILINE)
        thing = _source(package, name)
        told = _told(thing)
        meaning = translated(say, told.partition("\n")[0])
        if isinstance(thing, griffe.Class | griffe.Function):
            page = say("", "runtime-api.md")
            yield row(f"[`kr.{name}`]({page}#kr{name.lower()})", meaning)
            details += [f"\n## `kr.{name}`", *_detailed(thing, told, members)]
        else:
            yield row(f"`kr.{name}`", meaning)
    yield from say("\n".join(details), "").splitlines()


def _source(package: griffe.Object | griffe.Alias, name: str) -> griffe.Object | griffe.Alias:
    """Return what the source has of a public name; of a member of an enum, as the enum has it."""
    value = getattr(kr, name)
    if isinstance(value, Enum):
        enum = f"{type(value).__module__}.{type(value).__name__}"
        return package[enum.removeprefix("kopf_runtime.")].members[name]
    thing = package.all_members[name]
    return thing.final_target if isinstance(thing, griffe.Alias) else thing


def _detailed(
    thing: griffe.Class | griffe.Function, told: str, members: list[str]
) -> Iterator[str]:
    """Yield how a class or function is called, what it says, and its members."""
    if thing.is_function or len(thing.parameters) > 1:
        yield _signature(thing)
    yield f"\n{told}"
    of_the_thing = [thing.all_members[name] for name in members if name in thing.all_members]
    values = [member for member in of_the_thing if not member.is_function]
    if values:
        yield from table("attribute", "type", "meaning")
    for value in values:
        flag = f"[`--{value.name.replace('_', '-')}`](flags.md)"
        meaning = flag if str(value.value).startswith("flag(") else _told(value)
        yield row(f"`{value.name}`", f"`{value.annotation or 'Any'}`", meaning)
    for function in of_the_thing:
        if function.is_function:
            yield f"\n### `{thing.name}.{function.name}`"
            yield f"{_signature(function)}\n\n{_told(function)}"


def _signature(thing: griffe.Object | griffe.Alias) -> str:
    """Return a block of code; of what is not given or is a flag, the default is not told."""
    thing = thing.final_target if isinstance(thing, griffe.Alias) else thing
    for parameter in thing.parameters:
        if str(parameter.default).startswith(("unknown(", "flag(", "(lambda")):
            parameter.default = "..."
    lines = textwrap.wrap(thing.signature(), 96, subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join(["\n```python", *lines, "```"])


def _told(thing: griffe.Object | griffe.Alias) -> str:
    """Return a docstring, or the comments with a colon above a value or above what it replaces."""
    if thing.docstring:
        return thing.docstring.value
    told: list[str] = []
    for line in reversed(thing.lines_collection[thing.filepath][: thing.lineno - 1]):
        if not line.strip().startswith("#:"):
            break
        told.insert(0, line.strip().removeprefix("#: "))
    bases = thing.parent.mro() if isinstance(thing.parent, griffe.Class) and not told else ()
    inherited = (_told(base.members[thing.name]) for base in bases if thing.name in base.members)
    return " ".join(told) or next(inherited, "")
