"""Markdown as GitHub shows it, rewritten for the site: links, anchors, lists and notices."""

import re
from collections.abc import Callable

#: What is code, and so left as it is.
_CODE = re.compile(r"(^ *```.*?^ *```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
_ITEM = re.compile(r"( *)((?:[-*]|\d+\.) +)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
#: The first line of a page leads to the other language; the site has a menu for that.
_LANGUAGE = re.compile(r"^\[(?:English|한국어)\]\([^)]+\)\n\n?", re.MULTILINE)
#: Python-Markdown wants what belongs to a list's item indented by this many spaces.
_INDENT = 4


def with_links(text: str, link: Callable[[str], str]) -> str:
    """Return the text with each link's target replaced, but for those in code."""
    parts = _CODE.split(text)
    parts[::2] = [_LINK.sub(lambda match: link(match[1]), part) for part in parts[::2]]
    return "".join(parts)


def without_language(text: str) -> str:
    """Return the text without the line that leads to the other language."""
    return _LANGUAGE.sub("", text, count=1)


def without_comments(text: str) -> str:
    """Return the text without the comments, which no reader sees."""
    return re.sub(r"<!--.*?-->\n*", "", text, flags=re.DOTALL)


def with_notice(text: str, kind: str, notice: str) -> str:
    """Return the text with an admonition below its title."""
    first = re.compile(r"^# .+\n", re.MULTILINE)
    return first.sub(lambda title: f'{title[0]}\n!!! {kind} ""\n    {notice}\n', text, count=1)


def anchors(text: str) -> list[str]:
    """Return the anchors that GitHub gives the headings, in their order."""
    outside = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return [
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in _HEADING.findall(outside)
    ]


def with_lists(text: str) -> str:
    """Return the text with what belongs to a list's item indented as Python-Markdown wants it."""
    widths: list[int] = []  # of the items that the line is in: where their text begins
    lines = []
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if line.strip():
            while widths and indent < widths[-1]:
                widths.pop()
        inside = widths[-1] if widths else 0
        lines.append(" " * (_INDENT * len(widths)) + line[inside:] if line.strip() else "")
        if item := _ITEM.match(line):
            widths.append(len(item[0]))
    return "\n".join(lines) + "\n"
