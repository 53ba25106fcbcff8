"""`kubectl NAME status`: shows the objects of an operator at a glance."""

from __future__ import annotations

from kopf_kit.kubectl import advice, subject
from kopf_kit.kubectl.client import Kubectl
from kopf_kit.kubectl.objects import NOT_SEEN, State, age, state
from kopf_kit.kubectl.text import Cell, Text, ago, paint, printable, table

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


def show(kubectl: Kubectl, *, everywhere: bool) -> int:
    """Print all objects of the operator's kinds, those in trouble first; return the exit code."""
    ours = subject.current()
    states = [
        state(kind, manifest)
        for kind in ours.kinds
        for manifest in kubectl.list(kind.resource, everywhere=everywhere)
    ]
    states.sort(key=_order)
    if not states:
        here = "" if everywhere else kubectl.here()
        print((NONE if everywhere else NONE_HERE).format(many=ours.many, here=here))
    else:
        print(*_picture(states, everywhere), sep="\n")
    return 0


def _picture(states: list[State], everywhere: bool) -> list[str]:
    """Return the lines of the table, and how to ask for more below it."""
    heads = [*([NAMESPACE] if everywhere else []), NAME, READY, SINCE, WHY]
    lines = table([str(head) for head in heads], [_row(state, everywhere) for state in states])
    if any(state.ready != "True" for state in states):
        lines += ["", paint(str(ASK.format(command=subject.current().command)), "dim")]
    return lines


def _order(state: State) -> tuple[bool, str, str, str]:
    return state.ready == "True", state.namespace, state.kind.kind, state.name


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
    if state.ready == "True":
        return ""
    known = advice.find(state.reason, state.message, state.name, state.namespace)
    return printable(f"{state.reason}: {known.says if known else state.message}")
