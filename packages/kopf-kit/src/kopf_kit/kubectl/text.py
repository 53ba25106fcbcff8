"""Sentences, tables with wide characters, and colours."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

#: ANSI's codes.
COLORS = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "dim": "2", "bold": "1"}

#: The longest value in a sentence; three names of namespaces, or of objects in them, fit.
MAX_CHARACTERS = 1000


class Text(str):
    """A sentence, which may have {words} that are filled in."""

    def format(self, *_: object, **values: object) -> Text:
        """Return it with the {words} replaced by values; a Text is inserted as it is.

        Other values may come from the cluster: they are shortened, and cannot steer the terminal.
        """
        safe = {name: v if isinstance(v, Text) else shown(v) for name, v in values.items()}
        return Text(super().format(**safe))

    @classmethod
    def of(cls, value: object) -> Text:
        """Return a value as a sentence."""
        return cls("{it}").format(it=value)

    def __repr__(self) -> str:
        return f"Text({super().__repr__()})"


def colored(stream: Any, env: Mapping[str, str] = os.environ) -> bool:
    """Return whether to use colours: on a terminal, unless NO_COLOR is set."""
    return bool(stream.isatty()) and not env.get("NO_COLOR") and env.get("TERM") != "dumb"


def paint(text: str, color: str) -> str:
    """Return a text in a colour, if stdout supports colours."""
    if not text or not color or not colored(sys.stdout):
        return text
    return f"\033[{COLORS[color]}m{text}\033[0m"


def width(text: str) -> int:
    """Return the columns that a text takes on a terminal."""
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf") or "\u1160" <= character <= "\u11ff":
        return 0  # combines with the character before: accents, vowels of decomposed Hangul
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, room: int) -> str:
    """Return a text, shortened with an ellipsis if it does not fit."""
    if width(text) <= room:
        return text
    kept, left = "", room - 1
    for character in text:
        left -= _columns(character)
        if left < 0:
            break
        kept += character
    return kept.rstrip() + "…"


def pad(text: str, size: int) -> str:
    """Fill a text up with spaces."""
    return text + " " * (size - width(text))


def printable(text: str) -> str:
    """Return a text on one line, without characters that control the terminal."""
    return "".join(character if character.isprintable() else " " for character in text)


def escaped(text: str) -> str:
    """Return a JSON document with what controls the terminal escaped as JSON does it."""
    return re.sub(
        r"[^\n -~]",
        lambda match: match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1],
        text,
    )


def shown(value: object) -> str:
    """Return a value for a sentence: printable, and not longer than a sentence may be."""
    text = printable(str(value))
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"


def some(names: Sequence[str]) -> str:
    """Return the first three names."""
    return ", ".join(names[:3]) + ", …" * (len(names) > 3)


def columns() -> int:
    """Return the terminal's width; if stdout is no terminal, a large number, so nothing is cut."""
    return shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 10_000


def wrap(text: str, room: int) -> list[str]:
    """Return a text as lines that fit, broken between words."""
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and width(lines[-1]) + 1 + width(word) > room:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return lines


class Cell(NamedTuple):
    """A cell of a table; its colour takes no room."""

    text: str
    color: str = ""

    def clean(self) -> Cell:
        """Return it without characters that control the terminal."""
        return self._replace(text=printable(self.text))


def table(heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    """Return the lines of a table; its last column is cut to the terminal's width."""
    lines = [[Cell(head, "bold") for head in heads], *([c.clean() for c in row] for row in rows)]
    sizes = [max(width(line[place].text) for line in lines) for place in range(len(heads))]
    room = max(columns() - sum(size + 3 for size in sizes[:-1]), 12)
    return [_line(line, sizes, room) for line in lines]


def _line(cells: Sequence[Cell], sizes: Sequence[int], room: int) -> str:
    *inner, last = cells
    texts = [
        paint(cell.text, cell.color) + " " * (size - width(cell.text) + 3)
        for cell, size in zip(inner, sizes)
    ]
    return ("".join(texts) + paint(cut(last.text, room), last.color)).rstrip()


def ago(seconds: float) -> str:
    """Return a duration in the form of kubectl's ages: 5s, 3m, 2h, 4d."""
    seconds = max(0, int(seconds))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size or (unit == "d" and seconds >= size):
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
