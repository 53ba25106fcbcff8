"""`kubectl message explain`: prints what a reason, Event or alert means; it needs no cluster."""

from __future__ import annotations

import difflib

from kopf_kit.kubectl.findings import UNKNOWN, Finding, complain, lines
from kopf_kit.kubectl.text import Cell, Text, paint, table
from kubectl_message import knowledge
from kubectl_message.knowledge.alerts import ALERTS, BY_NAME
from kubectl_message.knowledge.entry import Entry
from kubectl_message.knowledge.events import BY_REASON, EVENTS

#: Words to fill into the sentences of an entry if there is no Message.
WORDS = {"pod": "msg-NAME", "name": "NAME", "namespace": "NAMESPACE"}
ANY = Text("the webhook's choice", "웹훅이 정한 이유")
#: The reasons, Events and alerts by their names in lower case.
KNOWN = {
    name.lower(): name
    for name in (*(r for entry in knowledge.ENTRIES for r in entry.reasons), *BY_REASON, *BY_NAME)
}


def one(word: str) -> int:
    """Print the meaning of a reason, an Event or an alert in any case; return the exit code."""
    word = KNOWN.get(word.lower(), word)
    alert = BY_NAME.get(word)
    if alert is not None:
        print(paint(f"{alert.says}.", "bold"))
        print(*lines(Finding(UNKNOWN, alert.says, alert.todo, runbook=alert.name)), sep="\n")
        return 0
    entries = knowledge.about(word)
    event = BY_REASON.get(word)
    if not entries and event is not None:
        print(paint(f"{event.says}.", "bold"))
        print(*lines(Finding(UNKNOWN, event.says, event.todo.format(**WORDS))), sep="\n")
        return 0
    if not entries:
        says = Text(
            "{word} is no reason, Event or alert that is known",
            "{word}에 해당하는 이유나 이벤트, 알림이 없습니다",
        )
        todo = Text(
            "`kubectl message explain` lists them.",
            "`kubectl message explain`으로 목록을 보십시오.",
        )
        close = [KNOWN[reason] for reason in difflib.get_close_matches(word.lower(), KNOWN)]
        if close:
            todo = Text("Did you mean {it}?", "혹시 {it}입니까?").format(it=", ".join(close))
        complain(Finding(UNKNOWN, says.format(word=word), todo))
        return 2
    for number, entry in enumerate(entries):
        print("\n" * bool(number), end="")
        print(paint(f"{entry.says.format(**WORDS)}.", "bold"))
        todo = entry.todo.format(**WORDS)
        print(*lines(Finding(UNKNOWN, entry.says, todo, runbook=entry.runbook)), sep="\n")
    return 0


def everything() -> int:
    """Print all reasons, Events and alerts, one per line; return the exit code."""
    rows = [
        [Cell(name), Cell(str(entry.says.format(**WORDS)))]
        for entry in knowledge.ENTRIES
        for name in names(entry)
    ]
    rows += [
        [Cell(event.reason), Cell(str(event.says))]
        for event in EVENTS
        if not knowledge.about(event.reason)
    ]
    rows += [[Cell(alert.name), Cell(str(alert.says))] for alert in ALERTS]
    print(*table([str(Text("REASON", "이유")), str(Text("MEANS", "뜻"))], rows), sep="\n")
    return 0


def names(entry: Entry) -> list[str]:
    """Return the reasons of an entry, as the table shows them."""
    return [*entry.reasons] or [str(ANY)]
