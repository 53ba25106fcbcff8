"""Findings of checks, how a terminal shows them, and what is advised: `kubectl NAME explain`.

`advice.yaml` has the sentences.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple, TypeVar

from kopf_kit.kubectl import subject
from kopf_kit.kubectl.subject import Entry
from kopf_kit.kubectl.text import (
    Cell,
    Text,
    columns,
    pad,
    paint,
    printable,
    shown,
    table,
    width,
    wrap,
)

_Item = TypeVar("_Item")

WELL, WAITS, FAILS, UNKNOWN, NOTE = "well", "waits", "fails", "unknown", "note"
#: The mark and the colour of each level. The marks take one column in every font.
MARKS = {
    WELL: ("✓", "green"),
    WAITS: ("!", "yellow"),
    FAILS: ("✗", "red"),
    UNKNOWN: ("?", "yellow"),
    NOTE: ("-", "dim"),
}


class Finding(NamedTuple):
    """The result of a check."""

    level: str
    #: A sentence without a full stop.
    says: Text
    todo: Text | None = None
    #: The cluster's own message, quoted.
    detail: str = ""
    #: The alert whose runbook has more details.
    runbook: str = ""
    #: The operator that it is about, as NAMESPACE/NAME.
    about: str = ""
    #: What the reason means in general, if it says the object's own message.
    means: Text = Text("")


def lines(finding: Finding, reason: str = "") -> list[str]:
    """Return the lines below a finding's sentence: whose it is, the details, what to do."""
    parts = [
        ("Reason", shown(reason)),
        ("Means", finding.means),
        ("Operator", shown(finding.about)),
        ("Details", quoted(finding.detail)),
        ("Do", finding.todo or ""),
        ("More", subject.current().runbook(finding.runbook) if finding.runbook else ""),
    ]
    shown_parts = [(label, text) for label, text in parts if text]
    room = max((width(label) for label, _ in shown_parts), default=0) + 2
    result: list[str] = []
    for label, text in shown_parts:
        first, *rest = wrap(text, columns() - room - 2)
        result.append(f"  {paint(pad(label, room), 'dim')}{first}")
        result += [" " * (room + 2) + line for line in rest]
    return result


def quoted(detail: str) -> str:
    """Return the cluster's message as one line, with long values in it shortened."""
    return re.sub(r'"([^"]{30})[^"]{90,}"', r'"\1…"', printable(detail))


def mark(level: str) -> str:
    """Return the mark of a level, in its colour."""
    return paint(*MARKS[level])


def complain(finding: Finding) -> None:
    """Print a finding on stderr that explains why there is no answer."""
    print(f"kubectl {subject.current().command}: {finding.says}", file=sys.stderr)
    if finding.todo:
        print(f"  {finding.todo}", file=sys.stderr)
    for line in finding.detail.split("\n"):
        if line:
            print(f"  | {printable(line)}", file=sys.stderr)


def find(reason: str, message: str, name: str, namespace: str) -> Finding | None:
    """Return what is known of an object's reason with this message, or None.

    An entry for any message is general: then the message itself, which is more exact, comes first.
    """
    for entry in subject.current().advice.reasons:
        if is_called(entry, reason) and re.search(entry.message, message):
            found = _finding(entry, name, namespace)
            if entry.message or not message:
                return found._replace(detail=message)
            return found._replace(says=Text(quoted(message).rstrip(".")), means=found.says)
    return None


def is_called(entry: Entry, word: str) -> bool:
    """Return whether an entry is about this reason or Event."""
    return any(fnmatchcase(word, pattern) for pattern in entry.of)


def explain(word: str) -> int:
    """Print the meaning of a reason or an Event, or an alert's runbook; return the exit code."""
    every, known = _known(), subject.current().advice
    for alert in subject.current().alerts:
        if alert.lower() == word.lower():
            print(subject.current().runbook(alert))
            return 0
    names = {name.lower(): name for entry in every for name in entry.of}
    meant = (entry for entry in every if "*" not in entry.of and _is_meant(entry, word))
    found = _first(meant, lambda entry: entry.message if entry in known.reasons else entry.of)
    for number, entry in enumerate(found):
        finding = _finding(entry)
        print("\n" * bool(number) + paint(f"{finding.says}.", "bold"), *lines(finding), sep="\n")
    if found:
        return 0
    says = Text("{word} is no reason or Event that is known")
    todo = Text("`kubectl {command} explain` lists them.").format(command=subject.current().command)
    close = [names[name] for name in difflib.get_close_matches(word.lower(), names)]
    if close:
        todo = Text("Did you mean {it}?").format(it=", ".join(close))
    complain(Finding(UNKNOWN, says.format(word=word), todo))
    return 2


def everything() -> int:
    """Print all reasons and Events, one per line; return the exit code."""
    named = _first(
        ((name, entry) for entry in _known() for name in entry.of),
        lambda named: (named[0], named[1].message),
    )
    rows = [[Cell(name), Cell(_finding(entry).says)] for name, entry in named]
    print(*table(["REASON", "MEANS"], rows), sep="\n")
    return 0


def _first(items: Iterable[_Item], key: Callable[[_Item], object]) -> list[_Item]:
    """Return the items without those that another of the same key comes before."""
    firsts: dict[object, _Item] = {}
    for item in items:
        firsts.setdefault(key(item), item)
    return [*firsts.values()]


def _is_meant(entry: Entry, word: str) -> bool:
    return any(fnmatchcase(word.lower(), pattern.lower()) for pattern in entry.of)


def _known() -> list[Entry]:
    """Return all entries, without those for Events that only point to reasons of their names."""
    known = subject.current().advice
    reasons = {name for entry in known.reasons for name in entry.of}
    events = (event for event in known.events if not {*event.of} <= reasons)
    return [*known.reasons, *events]


def _finding(entry: Entry, name: str = "NAME", namespace: str = "NAMESPACE") -> Finding:
    ours = subject.current()
    words = {"name": name, "namespace": namespace, "command": ours.command, "home": ours.home}
    words |= {"operator": ours.name, "many": ours.many}
    says, todo = entry.means.format(**words), entry.do.format(**words)
    return Finding(UNKNOWN, says, todo, runbook=entry.alert)
