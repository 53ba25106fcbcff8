"""`kubectl NAME status`: shows the objects of an operator at a glance, once or live."""

from __future__ import annotations

import json
from functools import partial

from kopf_kit.plugin import subject
from kopf_kit.plugin.kubectl import Kubectl
from kopf_kit.plugin.live import View, follow
from kopf_kit.plugin.objects import NOT_SEEN, State, age, state
from kopf_kit.plugin.text import Cell, Text, ago, escaped, paint, printable, table

COLORS = {"True": "green", "False": "red"}

NAMESPACE, NAME = Text("NAMESPACE", "네임스페이스"), Text("NAME", "이름")
READY, SINCE, WHY = Text("READY", "준비"), Text("SINCE", "경과"), Text("WHY", "이유")
DELETING = Text("it is being deleted", "삭제되는 중입니다")
NONE_HERE = Text(
    "There are no {many} in the namespace {here}; -A shows all namespaces.",
    "네임스페이스 {here}에 {many} 오브젝트가 없습니다. -A로 모든 네임스페이스를 볼 수 있습니다.",
)
NONE = Text("There are no {many} in the cluster.", "클러스터에 {many} 오브젝트가 없습니다.")
ASK = Text(
    "`kubectl {command} why KIND/NAME` says more about one.",
    "`kubectl {command} why KIND/NAME`으로 더 자세히 볼 수 있습니다.",
)


def show(kubectl: Kubectl, *, everywhere: bool, as_json: bool) -> int:
    """Print all objects of the operator's kinds, those in trouble first; return the exit code."""
    ours = subject.current()
    states = [
        state(kind, manifest)
        for kind in ours.kinds
        for manifest in kubectl.list(kind.resource, everywhere=everywhere)
    ]
    states.sort(key=_order)
    if as_json:
        items = [{**state._asdict(), "kind": state.kind.kind} for state in states]
        print(escaped(json.dumps({"items": items}, ensure_ascii=False, indent=2)))
    elif not states:
        here = "" if everywhere else kubectl.here()
        print((NONE if everywhere else NONE_HERE).format(many=ours.many, here=here))
    else:
        print(*_picture(states, everywhere), sep="\n")
    return 0


def live(kubectl: Kubectl, *, everywhere: bool) -> int:
    """Show all objects of the operator's kinds until Ctrl-C; return the exit code."""
    ours = subject.current()

    def lines(states: list[State]) -> list[str]:
        if not states:
            return [str(NONE.format(many=ours.many))]
        return _picture(sorted(states, key=_order), everywhere)

    states = {kind.resource: partial(state, kind) for kind in ours.kinds}
    return follow(kubectl, View(states, lines, _words), everywhere=everywhere)


def _picture(states: list[State], everywhere: bool) -> list[str]:
    """Return the lines of the table, and how to ask for more below it."""
    heads = [*([NAMESPACE] if everywhere else []), NAME, READY, SINCE, WHY]
    lines = table([str(head) for head in heads], [_row(state, everywhere) for state in states])
    if any(state.ready != "True" for state in states):
        lines += ["", paint(str(ASK.format(command=subject.current().command)), "dim")]
    return lines


def _order(state: State) -> tuple[bool, str, str, str]:
    return state.ready == "True", state.namespace, state.kind.kind, state.name


def _words(state: State) -> list[str]:
    called = "/".join(filter(None, (state.namespace, state.kind.kind.lower(), state.name)))
    return [called, printable(state.ready) or "-", _why(state)]


def _row(state: State, everywhere: bool) -> list[Cell]:
    seconds = age(state.since)
    return [
        *([Cell(state.namespace)] if everywhere else []),
        Cell(f"{state.kind.kind.lower()}/{state.name}"),
        Cell(state.ready or "-", COLORS.get(state.ready, "yellow")),
        Cell("" if seconds is None else ago(seconds)),
        Cell(_why(state)),
    ]


def _why(state: State) -> str:
    if state.deleting:
        return str(DELETING)
    if not state.ready:
        return str(NOT_SEEN) if subject.current().tells else printable(", ".join(state.others))
    return "" if state.ready == "True" else printable(f"{state.reason}: {state.message}")
