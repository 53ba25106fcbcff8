"""A page that has its reader type commands and write files, for a test that does as it says.

A block with a title is a file's: ``diff`` changes the file, the first listing of a file replaces
it, and further ones are added at its end. ``tests.support.console`` reads the other blocks.
"""

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.support.console import Step, blocks, matches

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


class Reader:
    """Somebody who does what the page says, in a shell that begins in a folder."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._state = folder.with_name(f"{folder.name}.shell")
        self._state.write_text(f"cd '{folder}'\n")
        self._environment = environment
        self._written: set[Path] = set()

    def elsewhere(self, folder: Path) -> "Reader":
        """Return somebody with the same programs and variables, who begins in another folder."""
        other = Reader(folder, self._environment)
        other._state.write_text(f"{self._state.read_text()}cd '{folder}'\n")
        return other

    def follow(self, page: Iterable[Step | Listing]) -> None:
        """Do each step; a command must succeed, and print what the page shows."""
        for step in page:
            if isinstance(step, Listing):
                self.write(step)
            else:
                printed = self.type(step.command)
                assert not step.output or matches(step.output, printed), (
                    f"$ {step.command}\n{printed}\nbut the page shows\n{step.output}"
                )

    def type(self, line: str) -> str:
        """Type a command; return what it prints. The shell keeps its folder and variables."""
        keep = f"{{ declare -px; printf 'cd %q\\n' \"$PWD\"; }} >'{self._state}'"
        done = subprocess.run(
            ["bash", "-c", f". '{self._state}'\n{line}\nended=$?; {keep}; exit $ended"],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=1700,
            check=False,
        )
        assert done.returncode == 0, f"$ {line}\n{done.stdout}\nended with {done.returncode}"
        return done.stdout

    def write(self, listing: Listing) -> None:
        """Write a listing into its file, or change the file as a diff says."""
        file = Path(self.type("pwd").strip(), listing.file)
        text = listing.text
        if listing.language == "diff":
            text = changed(file.read_text(), text)
        elif file in self._written:
            text = f"{file.read_text()}\n\n{text}"
        self._written.add(file)
        file.write_text(text)


def changed(text: str, diff: str) -> str:
    """Return a text as a diff changes it; the lines that it names must be there once."""
    lines = [(line[:1], f"{line[1:]}\n") for line in diff.splitlines()]
    before = "".join(line for sign, line in lines if sign != "+")
    after = "".join(line for sign, line in lines if sign != "-")
    assert text.count(before) == 1, f"these lines are there {text.count(before)} times:\n{before}"
    return text.replace(before, after)
