"""The commands of a guide's console blocks, so that a test types what a reader types."""

import re
from collections.abc import Iterator

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HERE_DOCUMENT = re.compile(r"<<-?['\"]?(\w+)['\"]?")


def section(guide: str, heading: str) -> str:
    """Return the text between a second-level heading and the next one."""
    _, found, rest = guide.partition(f"\n## {heading}\n")
    if not found:
        raise LookupError(f"the guide has no section {heading}")
    return rest.partition("\n## ")[0]


def commands(text: str) -> list[str]:
    """Return all commands in order: each line after "$ ", with its continuation lines.

    A command continues after a backslash at the end of a line, and in a here-document. All other
    lines of a console block are output.
    """
    return [command for block in _BLOCK.findall(text) for command in _commands(block)]


def _commands(block: str) -> Iterator[str]:
    lines = iter(block.splitlines())
    for line in lines:
        if not line.startswith("$ "):
            continue
        command = [line.removeprefix("$ ")]
        while command[-1].endswith("\\"):
            command.append(next(lines))
        if here := _HERE_DOCUMENT.search("\n".join(command)):
            while command[-1] != here[1]:
                command.append(next(lines))
        yield "\n".join(command)
