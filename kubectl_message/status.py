"""`kubectl message status`: shows all Messages at a glance, once or live."""

from __future__ import annotations

import json
from collections import Counter

from kopf_kit.kubectl.client import Kubectl
from kopf_kit.kubectl.objects import NOT_SEEN, age
from kopf_kit.kubectl.status import DELETING, NAME, NAMESPACE, SINCE, WHY, View, follow
from kopf_kit.kubectl.text import Cell, Text, ago, cut, escaped, paint, printable, table
from kubectl_message import knowledge
from kubectl_message.messages import KIND, State, state

COLORS = {"Processed": "green", "Pending": "yellow", "Failed": "red"}
#: Columns for the beginning of the text.
ROOM = 30

PHASE, TEXT = Text("PHASE", "상태"), Text("TEXT", "텍스트")
TOTAL = Text(
    "Messages: {all} ({Processed} print, {Pending} wait, {Failed} fail).",
    "Message {all}개: 출력 {Processed}, 대기 {Pending}, 실패 {Failed}.",
)
ASK = Text(
    "`kubectl message why NAME` says why, and what to do.",
    "`kubectl message why NAME`으로 이유와 할 일을 확인하십시오.",
)
NONE_HERE = Text(
    "There is no Message in the namespace {here}; -A shows all namespaces.",
    "네임스페이스 {here}에 Message가 없습니다. -A로 모든 네임스페이스를 볼 수 있습니다.",
)
NONE = Text("There is no Message in the cluster.", "클러스터에 Message가 없습니다.")


def show(kubectl: Kubectl, *, everywhere: bool, as_json: bool) -> int:
    """Print all Messages once; return the exit code."""
    states = [state(message) for message in kubectl.list(KIND, everywhere=everywhere)]
    if as_json:
        items = [state._asdict() for state in states]
        print(escaped(json.dumps({"items": items}, ensure_ascii=False, indent=2)))
    elif not states:
        print(NONE if everywhere else NONE_HERE.format(here=kubectl.here()))
    else:
        print(*picture(states, everywhere=everywhere), sep="\n")
    return 0


def picture(states: list[State], *, everywhere: bool) -> list[str]:
    """Return the lines of the table, Messages in trouble first, and the totals below it."""
    heads = [*([NAMESPACE] if everywhere else []), NAME, PHASE, SINCE, TEXT, WHY]
    rows = [_row(state, everywhere) for state in sorted(states, key=_order)]
    counts = Counter(state.phase or "Pending" for state in states)
    numbers = {phase: counts[phase] for phase in COLORS}
    total = str(TOTAL.format(all=len(states), **numbers))
    if any(not state.prints for state in states):
        total += f" {ASK}"
    return [*table([str(head) for head in heads], rows), "", paint(total, "dim")]


def _order(state: State) -> tuple[bool, str, str]:
    return state.prints, state.namespace, state.name


def _row(state: State, everywhere: bool) -> list[Cell]:
    seconds = age(state.since)
    return [
        *([Cell(state.namespace)] if everywhere else []),
        Cell(state.name),
        Cell(state.phase or "-", COLORS.get(state.phase, "yellow")),
        Cell("" if seconds is None else ago(seconds)),
        Cell(cut(printable(state.text), ROOM)),
        Cell(why(state)),
    ]


def why(state: State) -> str:
    """Return in a few words why a Message does not print; empty if it does."""
    if state.deleting:
        return str(DELETING)
    if not state.phase:
        return str(NOT_SEEN)
    if state.prints:
        return ""
    entry = knowledge.find(state.reason, state.message)
    if entry is None:
        return printable(f"{state.reason}: {state.message}")
    says = entry.says.format(pod=state.pod, name=state.name, namespace=state.namespace)
    return printable(f"{state.reason}: {says}")


def live(kubectl: Kubectl, *, everywhere: bool) -> int:
    """Show the Messages until Ctrl-C; return the exit code."""

    def lines(states: list[State]) -> list[str]:
        return picture(states, everywhere=everywhere) if states else [str(NONE)]

    return follow(kubectl, View({KIND: state}, lines, _words), everywhere=everywhere)


def _words(state: State) -> list[str]:
    return [f"{state.namespace}/{state.name}", printable(state.phase) or "-", why(state)]
