"""The instructions of a Dockerfile, as BuildKit reads its lines."""

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile

#: A comment at the top that says how a Dockerfile is read; any other ends these.
_DIRECTIVE = re.compile(r"\s*#\s*(escape|syntax|check)\s*=\s*(.+?)\s*", re.IGNORECASE)
#: A word of a shell with its quotes, and one that begins a file within a Dockerfile.
_WORD = re.compile(r"""(?:\\.|'[^']*'|"(?:\\.|[^"\\])*+"|[^\s'"\\])++""")
_HERE = re.compile(r"\d*<<(-?)([^<]+)")


def read(text: str) -> Iterator[tuple[str, str]]:
    """Yield the instructions of a Dockerfile, each on one line, without the files within it."""
    lines, line, at = text.removeprefix("\ufeff").split("\n"), "", 0
    directives = takewhile(bool, map(_DIRECTIVE.fullmatch, lines))
    escapes = (each[2] for each in directives if each and each[1].lower() == "escape")
    escape = re.escape(next(escapes, "\\"))
    continued = re.compile(rf"(?<!{escape}){escape}[ \t]*$")
    while at < len(lines):
        part, at = lines[at], at + 1
        if part.strip() and not part.lstrip().startswith("#"):
            line += continued.sub("", part)
            if continued.search(part) and at < len(lines):
                continue
        elif at < len(lines):  # within an instruction, too
            continue
        instruction, rest = [*line.split(maxsplit=1), "", ""][:2]
        line = ""
        if instruction:
            yield instruction.upper(), rest.strip()
        for is_indented, end in _here(instruction, rest):
            left = (each.lstrip("\t") if is_indented else each for each in lines[at:])
            at = next((n for n, each in enumerate(left, at + 1) if each == end), at)


def _here(instruction: str, rest: str) -> list[tuple[bool, str]]:
    """Return the last lines of the files that an instruction begins, and whether tabs precede it.

    Each is a whole word, so that none is within quotes.
    """
    if instruction.upper() == "ONBUILD":
        instruction, rest = [*rest.split(maxsplit=1), "", ""][:2]
    if instruction.upper() not in ("RUN", "COPY", "ADD") or _WORD.sub("", rest).strip():
        return []
    found = filter(None, map(_HERE.fullmatch, _WORD.findall(rest)))
    return [(each[1] == "-", "".join(words(each[2]))) for each in found]


def words(text: str) -> list[str]:
    """Return the words of a line, as a shell has them."""
    try:
        return shlex.split(text)
    except ValueError:  # a quote that is not closed
        return text.split()
