"""The console blocks of a page, so that a test types what a reader types, and sees what they see.

A block is fenced by ```console. A line after "$ " is a command; what follows is its output, up to
the next command. A comment keeps the blocks below it from being run, and says why:

    <!-- not run: it takes an hour -->

It counts up to the end of the section that it is in: below the title of a page, it counts for the
whole page.
"""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

_PARTS = re.compile(
    r"^(?P<level>#+) (?P<heading>[^\n]+)$"
    r"|^ *<!-- not run: (?P<reason>.+?) -->$"
    r"|^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
#: A comment is in the reader's language.
_COMMENT = re.compile(r"\s+#.*")
_HERE_DOCUMENT = re.compile(r"<<-?['\"]?(\w+)['\"]?")


@dataclass(frozen=True)
class Step:
    """A command, and the output that the page shows of it; empty if it shows none."""

    command: str
    output: str


@dataclass(frozen=True)
class Block:
    """A console block: its line, the second-level heading above it, and the nearest one."""

    line: int
    section: str
    heading: str
    steps: tuple[Step, ...]
    #: Why it is not run; empty if it is.
    reason: str


def blocks(text: str) -> Iterator[Block]:
    """Return the console blocks of a page, in order."""
    section, heading, level = "", "", 0
    reasons: dict[int, str] = {}  # of the sections that we are in, by the level of their heading
    for part in _PARTS.finditer(text):
        if part["level"]:
            level = len(part["level"])
            heading = part["heading"]
            section = heading if level == 2 else section
            reasons = {outer: reason for outer, reason in reasons.items() if outer < level}
        elif part["reason"]:
            reasons[level] = " ".join(part["reason"].split())
        elif part["language"] == "console":
            line = text.count("\n", 0, part.start()) + 1
            steps = tuple(_steps(textwrap.dedent(part["text"])))
            yield Block(line, section, heading, steps, next(iter(reasons.values()), ""))


def section(guide: str, heading: str) -> str:
    """Return the text between a second-level heading and the next one."""
    _, found, rest = guide.partition(f"\n## {heading}\n")
    if not found:
        raise LookupError(f"the guide has no section {heading}")
    return rest.partition("\n## ")[0]


def commands(text: str) -> list[str]:
    """Return all commands of a page in order, those that are not run among them."""
    return [step.command for block in blocks(text) for step in block.steps]


def typed(text: str) -> list[list[str]]:
    """Return the commands of each console block in order, as they are in every language."""
    return [[_COMMENT.sub("", step.command) for step in block.steps] for block in blocks(text)]


def _steps(block: str) -> Iterator[Step]:
    """Return the commands of a block, each with its further lines and its output.

    A command continues after a backslash at the end of a line, and in a here-document.
    """
    lines = block.splitlines()
    while lines:
        line = lines.pop(0)
        if not line.startswith("$ "):
            continue
        command = [line.removeprefix("$ ")]
        while command[-1].endswith("\\"):
            command.append(lines.pop(0))
        if here := _HERE_DOCUMENT.search("\n".join(command)):
            while command[-1] != here[1]:
                command.append(lines.pop(0))
        output = []
        while lines and not lines[0].startswith("$ "):
            output.append(lines.pop(0))
        yield Step("\n".join(command), "\n".join(output).strip("\n"))
