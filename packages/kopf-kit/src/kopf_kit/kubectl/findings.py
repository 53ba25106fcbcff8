"""Findings: the result of a check of an object or an operator, and how a terminal shows it."""

from __future__ import annotations

import re
import sys
from typing import NamedTuple

from kopf_kit.kubectl import subject
from kopf_kit.kubectl.text import Text, columns, pad, paint, printable, shown, width, wrap

WELL, WAITS, FAILS, UNKNOWN, NOTE = "well", "waits", "fails", "unknown", "note"
#: The mark and the colour of each level. The marks take one column in every font.
MARKS = {
    WELL: ("✓", "green"),
    WAITS: ("!", "yellow"),
    FAILS: ("✗", "red"),
    UNKNOWN: ("?", "yellow"),
    NOTE: ("-", "dim"),
}

REASON, DETAILS = Text("Reason", "이유"), Text("Details", "자세히")
OPERATOR = Text("Operator", "오퍼레이터")
ADVICE, MORE = Text("Do", "할 일"), Text("More", "더 보기")


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


def lines(finding: Finding, reason: str = "") -> list[str]:
    """Return the lines below a finding's sentence: whose it is, the details, what to do."""
    parts = [
        (REASON, shown(reason)),
        (OPERATOR, shown(finding.about)),
        (DETAILS, quoted(finding.detail)),
        (ADVICE, str(finding.todo or "")),
        (MORE, str(subject.current().runbook(finding.runbook)) if finding.runbook else ""),
    ]
    shown_parts = [(str(label), text) for label, text in parts if text]
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
