"""A page that has its reader type commands and write files, for a test that does as it says.

A block with a title is a file's: ``diff`` changes the file, the first listing of a file replaces
it, and further ones are added at its end. ``tests.support.console`` reads the other blocks.
"""

import re
from dataclasses import dataclass

from tests.support.console import Step, blocks

_BLOCK = re.compile(
    r'^```(?P<language>\w+)(?: title="(?P<file>[^"]+)")?\n(?P<text>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Listing:
    """What the reader writes into a file."""

    file: str
    language: str
    text: str


def steps(page: str) -> list[Step | Listing]:
    """Return what the reader does, in the order of the page."""
    found: list[Step | Listing] = []
    for block in _BLOCK.finditer(page):
        if block["file"]:
            found.append(Listing(block["file"], block["language"], block["text"]))
        elif block["language"] == "console":
            found.extend(step for console in blocks(block[0]) for step in console.steps)
    return found


def listings(page: str) -> list[Listing]:
    """Return what the reader writes."""
    return [step for step in steps(page) if isinstance(step, Listing)]


def changed(text: str, diff: str) -> str:
    """Return a text as a diff changes it; the lines that it names must be there once."""
    lines = [(line[:1], f"{line[1:]}\n") for line in diff.splitlines()]
    before = "".join(line for sign, line in lines if sign != "+")
    after = "".join(line for sign, line in lines if sign != "-")
    assert text.count(before) == 1, f"these lines are there {text.count(before)} times:\n{before}"
    return text.replace(before, after)
