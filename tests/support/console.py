"""The console blocks of a page, so that a test types what a reader types, and sees what they see.

A block is fenced by ```console. A line after "$ " is a command; what follows is its output, up to
the next command. A comment keeps the blocks below it from being run, and says why:

    <!-- not run: it takes an hour -->

It counts up to the end of the section that it is in: below the title of a page, it counts for the
whole page.

A block with a title is a file's, which the reader writes: ``diff`` changes the file, the first
listing of a file replaces it, and further ones are added at its end.
"""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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


_RANDOM = "[bcdfghjklmnpqrstvwxz2456789]"  # what Kubernetes makes names of
#: What differs, and the word that stands for it; in this order.
_VARIES = (
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]*Z?", "TIME"),
    (r"sha256:[0-9a-f]{64}", "DIGEST"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
    (rf"(?<=-){_RANDOM}{{5,10}}-{_RANDOM}{{5}}(?![a-z0-9])", "RANDOM"),  # a Deployment's Pod
    (r"\b\d{1,3}(?:\.\d{1,3}){3}\b", "IP"),
    (r"\bv1\.\d+\.\d+\b", "VERSION"),
    (r"\(x\d+ over ", "(xN over "),
    (r"(?<![\w.-])(?:\d+[ydhms])+(?![\w.-])", "AGE"),
    (r"[ \t]+", " "),
)
#: What the shell of the tests says of a background job that was killed; an interactive one differs.
_JOB = re.compile(r"^\S*: line \d+: +\d+ (?:Killed|Terminated) .*\n?", re.MULTILINE)


def matches(shown: str, printed: str) -> bool:
    """Tell whether a command printed what the page shows of it."""
    pattern = "".join(_line(line) for line in _plain(shown))
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in _plain(printed))) is not None


def includes(shown: str, printed: str) -> bool:
    """Tell whether a command printed these lines in this order, perhaps with others in between."""
    rest = iter(_plain(printed))
    return all(line in rest for line in _plain(shown))


def _plain(text: str) -> list[str]:
    text = _JOB.sub("", text)
    for pattern, word in _VARIES:
        text = re.sub(pattern, word, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


def _line(shown: str) -> str:
    if shown == "…":
        return r"(?:.*\n)*"
    return ".*".join(re.escape(part) for part in shown.split("…")) + r"\n"


def every_test() -> set[str]:
    """Return the names of all tests; the conformance suite is in kopf-kit's test library."""
    folders = (Path(__file__).parents[2] / name for name in ("tests", "packages", "examples"))
    texts = (file.read_text() for folder in folders for file in folder.rglob("*.py"))
    return set(re.findall(r"def (test_\w+)\(", "\n".join(texts)))


_LISTED = re.compile(
    r'^```(?P<language>\w+)(?: title="(?P<file>[^"]+)")?\n(?P<text>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Listing:
    """What the reader writes into a file."""

    file: str
    language: str
    text: str


def walkthrough(page: str) -> list[Step | Listing]:
    """Return what the reader does, in the order of the page."""
    found: list[Step | Listing] = []
    for block in _LISTED.finditer(page):
        if block["file"]:
            found.append(Listing(block["file"], block["language"], block["text"]))
        elif block["language"] == "console":
            found.extend(step for part in blocks(block[0]) for step in part.steps)
    return found


def listings(page: str) -> list[Listing]:
    """Return what the reader writes."""
    return [step for step in walkthrough(page) if isinstance(step, Listing)]


def changed(text: str, diff: str) -> str:
    """Return a text as a diff changes it; the lines that it names must be there once."""
    lines = [(line[:1], f"{line[1:]}\n") for line in diff.splitlines()]
    before = "".join(line for sign, line in lines if sign != "+")
    after = "".join(line for sign, line in lines if sign != "-")
    assert text.count(before) == 1, f"these lines are there {text.count(before)} times:\n{before}"
    return text.replace(before, after)
