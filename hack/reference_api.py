"""The body of `reference`'s page on the runtime: its public names, as griffe reads the source."""

import functools
import re
import textwrap
from collections.abc import Iterator
from enum import Enum
from typing import Any

import griffe

import kopf_runtime as kr
from hack.reference_tables import Say, row, table, translated
from kopf_kit.rig import paths

_SOURCES = paths.CHECKOUT / "packages" / "kopf-runtime"
#: Of griffe: its types do not tell what each of them has.
_Thing = Any
PUBLIC = _SOURCES / "public.txt"


def names(say: Say) -> Iterator[str]:
    """Yield the public names, in the order of public.txt; griffe has their types."""
    details = []
    yield from table(say, "name", "meaning")
    for part in re.split(r"\n(?! )", PUBLIC.read_text().strip()):
        name, *members = re.findall(r"^ *(\w+)", part, re.MULTILINE)
        thing = _source(name)
        told = _told(thing)
        meaning = translated(say, told.partition("\n")[0])
        if thing.is_attribute:
            yield row(f"`kr.{name}`", meaning)
        else:
            yield row(f"[`kr.{name}`](#kr{name.lower()})", meaning)
            called = part.startswith(f"{name}(") and thing.signature()
            signature = [_signature(thing)] if called else []
            details += [f"\n## `kr.{name}`", *signature, *_detailed(say, thing, told, members)]
    yield from details


@functools.cache
def _package() -> _Thing:
    """Return griffe's object of the runtime, for the pages of both languages."""
    return griffe.load("kopf_runtime", search_paths=[_SOURCES / "src"])


def _source(name: str) -> _Thing:
    """Return griffe's object of a public name; for a member of an enum, that of the enum."""
    package, value = _package(), getattr(kr, name)
    if isinstance(value, Enum):
        enum = f"{type(value).__module__}.{type(value).__name__}"
        return package[enum.removeprefix("kopf_runtime.")].members[name]
    thing = package.all_members[name]
    return thing.final_target if isinstance(thing, griffe.Alias) else thing


def _detailed(say: Say, thing: _Thing, told: str, members: list[str]) -> Iterator[str]:
    """Yield what a class, function or module says, and its members."""
    yield f"\n{told}"
    if thing.is_module:
        yield f"\n{', '.join(f'`{name}`' for name in members)}"
        return
    of_the_thing = [thing.all_members[name] for name in members if name in thing.all_members]
    values = [(value, _meaning(say, value)) for value in of_the_thing if not value.is_function]
    if thing.signature():  # it has the fields of which nothing is said
        values = [(value, meaning) for value, meaning in values if meaning]
    if values:
        yield from table(say, "attribute", "type", "meaning")
    for value, meaning in values:
        yield row(f"`{value.name}`", f"`{value.annotation or 'Any'}`", meaning)
    for function in of_the_thing:
        if function.is_function:
            yield f"\n### `{thing.name}.{function.name}`"
            yield f"{_signature(function)}\n\n{_told(function)}"


def _meaning(say: Say, value: _Thing) -> str:
    """Return what is said of an attribute; of a setting, its flag."""
    if str(value.value).startswith("flag("):
        return f"[`--{value.name.replace('_', '-')}`]({say('flags.md', 'flags.ko.md')})"
    return _told(value)


def _signature(thing: _Thing) -> str:
    """Return how it is called, as a block of code; `...` is a default that says nothing."""
    thing = thing.final_target if isinstance(thing, griffe.Alias) else thing
    for parameter in thing.parameters:
        if str(parameter.default).startswith(("unknown(", "flag(", "(lambda")):
            parameter.default = "..."
    lines = textwrap.wrap(thing.signature(), 96, subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join(["\n```python", *lines, "```"])


def _told(thing: _Thing) -> str:
    """Return a docstring, or the comments with a colon above a value or above what it replaces."""
    if thing.docstring:
        return str(thing.docstring.value)
    told: list[str] = []
    for line in reversed(thing.lines_collection[thing.filepath][: thing.lineno - 1]):
        if not line.strip().startswith("#:"):
            break
        told.insert(0, line.strip().removeprefix("#: "))
    bases = thing.parent.mro() if isinstance(thing.parent, griffe.Class) and not told else ()
    inherited = (_told(base.members[thing.name]) for base in bases if thing.name in base.members)
    return " ".join(told) or next(inherited, "")
